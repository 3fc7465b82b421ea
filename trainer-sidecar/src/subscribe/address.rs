//! Where a gateway listens.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use penstock_proto::{Code, Error};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::wire::Socket;

/// Schemes of Flight over plain TCP, and over a Unix socket.
const TCP: &[&str] = &["grpc://", "grpc+tcp://"];
const UNIX: &[&str] = &["grpc+unix://", "grpc+unix:", "unix:"];

/// Of a gateway. Sorted, those on this machine come first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Address {
    /// A socket's path, from the root.
    Unix(PathBuf),
    /// `HOST:PORT`.
    Tcp(String),
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let after = |schemes: &[&str]| schemes.iter().find_map(|scheme| text.strip_prefix(scheme));
        let tcp = after(TCP).map(|rest| rest.trim_end_matches('/')).filter(|rest| has_port(rest));
        let unix = after(UNIX).map(Path::new).filter(|path| path.is_absolute());
        tcp.map(|rest| Self::Tcp(rest.to_owned())).or(unix.map(|path| Self::Unix(path.to_owned()))).ok_or_else(
            || {
                Error::new(
                    Code::InvalidFeed,
                    format!(
                        "\"{text}\" is no address of a gateway: write grpc://HOST:PORT, or grpc+unix:///PATH for one on this machine"
                    ),
                )
            },
        )
    }

    /// Whether it can be there at all: a socket of another machine has a path that means nothing here.
    pub(crate) fn is_here(&self) -> bool {
        match self {
            Self::Unix(path) => path.exists(),
            Self::Tcp(_) => true,
        }
    }

    /// What an HTTP/2 client connects to.
    pub(crate) fn uri(&self) -> String {
        match self {
            Self::Unix(path) => format!("unix:{}", path.display()),
            Self::Tcp(host_and_port) => format!("http://{host_and_port}"),
        }
    }

    /// What a request says it is for.
    pub(crate) fn authority(&self) -> &str {
        match self {
            Self::Unix(_) => "localhost",
            Self::Tcp(host_and_port) => host_and_port,
        }
    }

    /// Connects.
    ///
    /// # Errors
    /// Nobody listens, or nobody answers in time.
    pub(crate) async fn dial(&self, patience: Duration) -> Result<Socket, Error> {
        let connect = async {
            match self {
                Self::Unix(path) => UnixStream::connect(path).await.map(Socket::Unix),
                Self::Tcp(host_and_port) => {
                    let stream = TcpStream::connect(host_and_port).await?;
                    stream.set_nodelay(true)?;
                    Ok(Socket::Tcp(stream))
                }
            }
        };
        let connected = timeout(patience, connect).await;
        let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        connected.map_err(|error| Error::chain(Code::Unreachable, &error))
    }
}

fn has_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "grpc+unix://{}", path.display()),
            Self::Tcp(host_and_port) => write!(f, "grpc://{host_and_port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port_or_a_socket() {
        let shown = |text| Address::parse(text).map(|address| address.to_string()).ok();
        for (text, same) in [
            ("grpc://h:1/", "grpc://h:1"),
            ("grpc+tcp://[::1]:80", "grpc://[::1]:80"),
            ("grpc+unix:///run/g.sock", "grpc+unix:///run/g.sock"),
            ("unix:/run/g.sock", "grpc+unix:///run/g.sock"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(same));
        }
        for text in [
            "h:1",
            "grpc://h",
            "grpc://:1",
            "grpc://h:x",
            "grpc://h:0",
            "grpc+tls://h:1",
            "grpc://a/b:1",
            "grpc+unix://g.sock",
            "unix:",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }

    #[test]
    fn a_socket_of_another_machine_is_not_here() {
        let directory = tempfile::tempdir().unwrap();
        let address = Address::Unix(directory.path().join("s"));
        assert!(!address.is_here());
        let _listener = std::os::unix::net::UnixListener::bind(directory.path().join("s")).unwrap();
        assert!(address.is_here());
    }
}
