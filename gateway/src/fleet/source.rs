//! Where a list of gateways is found.
//!
//! In: what an operator wrote. Out: the addresses of gateways as they are now. The promise: it answers within a
//! deadline, and an answer is the whole list; it remembers nothing.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::timeout;

/// For names to be known.
pub(super) const LOOK_UP: Duration = Duration::from_secs(5);

/// A part of the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// `HOST:PORT`, or a location.
    One(String),
    /// Every address of a name is a gateway: `NAME:PORT`.
    Name(String),
    /// One `HOST:PORT` a line; empty lines and those that begin with `#` do not count.
    File(PathBuf),
}

/// The fleet is not known.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    #[error(
        "{text:?} names no gateways: give HOST:PORT, dns:NAME:PORT for all addresses of a name, or file:PATH for a \
         file of one HOST:PORT a line"
    )]
    Source { text: String },
    #[error("cannot read the list of gateways {}: give a file of one HOST:PORT a line", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("the name of the fleet, {name}, has no address: is it right, and does this machine know it?")]
    Unknown { name: String, source: io::Error },
}

impl Source {
    pub(super) fn parse(text: &str) -> Result<Self, FleetError> {
        let text = text.trim();
        let unknown = || FleetError::Source { text: text.to_owned() };
        if let Some(path) = text.strip_prefix("file:") {
            return if path.is_empty() { Err(unknown()) } else { Ok(Self::File(path.into())) };
        }
        if let Some(name) = text.strip_prefix("dns:") {
            return has_port(name).then(|| Self::Name(name.to_owned())).ok_or_else(unknown);
        }
        let is_address = text.contains("://") || has_port(text);
        is_address.then(|| Self::One(text.to_owned())).ok_or_else(unknown)
    }

    /// Whether it is the same at any time.
    pub(super) fn is_fixed(&self) -> bool {
        matches!(self, Self::One(_))
    }

    /// The addresses now.
    pub(super) async fn look_up(&self) -> Result<Vec<String>, FleetError> {
        match self {
            Self::One(address) => Ok(vec![address.clone()]),
            Self::Name(name) => {
                let found = timeout(LOOK_UP, tokio::net::lookup_host(name)).await;
                let found = found.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                let found = found.map_err(|source| FleetError::Unknown { name: name.clone(), source })?;
                Ok(found.map(|address| address.to_string()).collect())
            }
            Self::File(path) => {
                let broken = |source| FleetError::File { path: path.clone(), source };
                let text = tokio::fs::read_to_string(path).await.map_err(broken)?;
                let lines =
                    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
                lines
                    .map(|line| match Self::parse(line)? {
                        Self::One(address) => Ok(address),
                        Self::Name(_) | Self::File(_) => Err(FleetError::Source { text: line.to_owned() }),
                    })
                    .collect()
            }
        }
    }
}

fn has_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}
