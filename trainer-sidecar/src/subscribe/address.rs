//! Where a gateway listens.

use std::fmt;
use std::path::PathBuf;

use penstock_proto::loan::SCHEME;
use penstock_proto::{Code, Error};

/// Schemes of Flight over plain TCP, over TLS, and over a Unix socket.
const TCP: &[&str] = &["grpc://", "grpc+tcp://"];
const TLS: &[&str] = &["grpc+tls://"];
const UNIX: &[&str] = &["grpc+unix://", "grpc+unix:", "unix:"];
/// The scheme of memory that is lent, over a Unix socket too.
const LENT: &[&str] = &[SCHEME];

/// Of a gateway. Sorted, those on this machine come first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Address {
    /// The path, from the root, of a socket whose gateway lends memory.
    Lent(PathBuf),
    /// A socket's path, from the root.
    Unix(PathBuf),
    /// `HOST:PORT`.
    Tls(String),
    /// `HOST:PORT`.
    Tcp(String),
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let after = |schemes: &[&str]| schemes.iter().find_map(|scheme| text.strip_prefix(scheme));
        let host =
            |schemes| after(schemes).map(|rest| rest.trim_end_matches('/')).filter(|rest| has_port(rest));
        if let Some(host_and_port) = host(TCP) {
            return Ok(Self::Tcp(host_and_port.to_owned()));
        }
        if let Some(host_and_port) = host(TLS) {
            return Ok(Self::Tls(host_and_port.to_owned()));
        }
        let path = |schemes| after(schemes).map(PathBuf::from).filter(|path| path.is_absolute());
        if let Some(path) = path(UNIX) {
            return Ok(Self::Unix(path));
        }
        if let Some(path) = path(LENT) {
            return Ok(Self::Lent(path));
        }
        Err(Error::new(
            Code::InvalidFeed,
            format!(
                "\"{text}\" is no address of a gateway: write grpc://HOST:PORT, grpc+tls://HOST:PORT, or grpc+unix:///PATH for one on this machine"
            ),
        ))
    }

    /// What an HTTP/2 client connects to.
    pub(crate) fn uri(&self) -> String {
        match self {
            Self::Lent(path) | Self::Unix(path) => format!("unix:{}", path.display()),
            Self::Tls(host_and_port) | Self::Tcp(host_and_port) => format!("http://{host_and_port}"),
        }
    }

    /// What a request says it is for.
    pub(crate) fn authority(&self) -> &str {
        match self {
            Self::Lent(_) | Self::Unix(_) => "localhost",
            Self::Tls(host_and_port) | Self::Tcp(host_and_port) => host_and_port,
        }
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
            Self::Lent(path) => write!(f, "{SCHEME}{}", path.display()),
            Self::Unix(path) => write!(f, "grpc+unix://{}", path.display()),
            Self::Tls(host_and_port) => write!(f, "grpc+tls://{host_and_port}"),
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
            ("grpc+tls://h:1", "grpc+tls://h:1"),
            ("unix:/run/g.sock", "grpc+unix:///run/g.sock"),
            ("penstock+memfd:///run/g.sock", "penstock+memfd:///run/g.sock"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(same));
        }
        for text in [
            "h:1",
            "grpc://h",
            "grpc://:1",
            "grpc://h:x",
            "grpc://h:0",
            "grpc+tls://h",
            "grpc://a/b:1",
            "grpc+unix://g.sock",
            "unix:",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }
}
