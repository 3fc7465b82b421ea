//! All places where a gateway is reached, and what clients are told of them.
//!
//! In: the configuration. Out: open listeners, and the locations that go into endpoints. The promise: what
//! cannot be listened at is said before anything is served.

use std::net::SocketAddr;
use std::path::{self, Path};

use super::listener::Listener;
use super::{StartError, tls};
use crate::config::Config;
use crate::fleet::{Scheme, advertised, lending_location, socket_location};

/// What stands before the path of a Unix socket in `listen`.
const UNIX: &str = "unix:";

/// Where a gateway is reached.
pub(super) struct Places {
    /// By the names of their tasks.
    pub(super) listeners: Vec<(String, Listener)>,
    /// Of the TCP port, if there is one.
    pub(super) address: Option<SocketAddr>,
    /// What was bound, as a location.
    pub(super) bound: String,
    /// The location that any client is told.
    pub(super) own: String,
    /// The locations that clients on this machine are told as well.
    pub(super) nearby: Vec<String>,
    pub(super) scheme: Scheme,
}

impl Places {
    pub(super) async fn open(config: &Config) -> Result<Self, StartError> {
        let tls = config.tls.as_ref().map(tls::acceptor).transpose()?;
        let scheme = if tls.is_some() { Scheme::Tls } else { Scheme::Plain };
        let advertise = config.advertise.as_deref().map(|address| scheme.location(address));
        if let Some(path) = config.listen.strip_prefix(UNIX) {
            let Socket { name, listener, location, lending } = unix(Path::new(path)).await?;
            return Ok(Self {
                listeners: vec![(name, listener)],
                address: None,
                own: advertise.unwrap_or_else(|| location.clone()),
                bound: location,
                nearby: vec![lending],
                scheme,
            });
        }
        let (listener, address) = Listener::tcp(&config.listen, tls, config.reader_timeout).await?;
        let own = advertise.unwrap_or_else(|| scheme.location(&advertised(address, hostname)));
        let mut listeners = vec![(format!("flight server {address}"), listener)];
        let mut nearby = Vec::new();
        if let Some(path) = &config.unix_socket {
            let Socket { name, listener, location, lending } = unix(path).await?;
            listeners.push((name, listener));
            nearby.extend([location, lending]);
        }
        let bound = scheme.location(&address.to_string());
        Ok(Self { listeners, address: Some(address), bound, own, nearby, scheme })
    }
}

/// A Unix socket; its locations are good from any directory.
struct Socket {
    name: String,
    listener: Listener,
    location: String,
    /// Where it lends memory.
    lending: String,
}

async fn unix(path: &Path) -> Result<Socket, StartError> {
    let whole = path::absolute(path).map_err(|source| StartError::Socket { path: path.into(), source })?;
    let listener = Listener::unix(&whole).await?;
    Ok(Socket {
        name: format!("flight server {}", whole.display()),
        listener,
        location: socket_location(&whole),
        lending: lending_location(&whole),
    })
}

fn hostname() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}
