//! Where a gateway listens.

use std::fmt;
use std::io;
use std::time::Duration;

use penstock_proto::{Code, Error};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::wire::Socket;

/// Schemes of Flight over plain TCP.
const SCHEMES: &[&str] = &["grpc://", "grpc+tcp://"];

/// `HOST:PORT` of a gateway.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Address(String);

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let rest = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme));
        let host_and_port = rest.map(|rest| rest.trim_end_matches('/')).filter(|rest| has_port(rest));
        host_and_port.map(|rest| Self(rest.to_owned())).ok_or_else(|| {
            Error::new(
                Code::InvalidFeed,
                format!("\"{text}\" is no address of a gateway: write grpc://HOST:PORT"),
            )
        })
    }

    /// What an HTTP/2 client connects to.
    pub(crate) fn uri(&self) -> String {
        format!("http://{}", self.0)
    }

    /// What a request says it is for.
    pub(crate) fn authority(&self) -> &str {
        &self.0
    }

    /// Connects.
    ///
    /// # Errors
    /// Nobody listens, or nobody answers in time.
    pub(crate) async fn dial(&self, patience: Duration) -> Result<Socket, Error> {
        let connected = async {
            let stream = TcpStream::connect(&self.0).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let connected: io::Result<_> =
            timeout(patience, connected).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let stream = connected.map_err(|error| Error::chain(Code::Unreachable, &error))?;
        Ok(Socket::Tcp(stream))
    }
}

fn has_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "grpc://{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        let shown = |text| Address::parse(text).map(|address| address.to_string()).ok();
        assert_eq!(shown("grpc://h:1/"), Some("grpc://h:1".to_owned()));
        assert_eq!(shown("grpc+tcp://[::1]:80"), Some("grpc://[::1]:80".to_owned()));
        for text in
            ["h:1", "grpc://h", "grpc://:1", "grpc://h:x", "grpc://h:0", "grpc+tls://h:1", "grpc://a/b:1"]
        {
            assert_eq!(shown(text), None, "{text}");
        }
    }
}
