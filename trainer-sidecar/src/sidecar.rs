//! A sidecar from its configuration to its socket.

use std::fmt;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use penstock_daemon::tls::TlsError;
use penstock_daemon::{Budget, Drain};
use penstock_ring::Listener;

use crate::account::Accounts;
use crate::config::Config;
use crate::feed::{self, Deliveries, House};
use crate::gpu;
use crate::metrics;
use crate::subscribe::{Address, Trust};

/// The sidecar of a trainer.
#[derive(Debug)]
pub struct Sidecar;

/// A sidecar that takes connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// The socket, for this user alone.
    pub path: PathBuf,
}

/// A sidecar could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot start with that gateway")]
    Gateway(#[source] penstock_proto::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("cannot make the directory {} for the sidecar's socket", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("cannot listen on {}: another sidecar may, or the path is longer than 107 bytes; choose another with --listen", path.display())]
    Listen { path: PathBuf, source: io::Error },
}

impl Sidecar {
    /// Binds the socket and serves it until the drain begins. Feeds that are open then are told so and
    /// end. Call it inside a tokio runtime.
    ///
    /// # Errors
    /// The socket cannot be bound, a gateway's address is none, or a file of TLS is of no use.
    pub fn start(config: Config, drain: &Drain) -> Result<Bound, StartError> {
        let Config { listen: path, gateways, tls, memory, most_memory, gpus, deadlines } = config;
        let gateways = gateways.iter().map(|text| Address::parse(text)).collect::<Result<_, _>>();
        let gateways = gateways.map_err(StartError::Gateway)?;
        let trust = tls.map(|tls| Trust::read(&tls)).transpose()?.unwrap_or_default();
        let listener = bind(&path)?;
        metrics::register();
        let (budget, portion) = (Budget::new(most_memory.max(memory)), memory / 4);
        let (deliveries, accounts) = (Deliveries::default(), Accounts::default());
        if let Some(gpus) = gpus {
            drain.spawn("gpus", gpu::watch(gpus, accounts.clone(), drain.clone()));
        }
        let drained = drain.clone();
        let house =
            House { gateways, trust, deadlines, budget, portion, deliveries, accounts, drain: drained };
        drain.spawn("accept", feed::accept(listener, Arc::new(house)));
        Ok(Bound { path })
    }
}

fn bind(path: &Path) -> Result<tokio::io::unix::AsyncFd<Listener>, StartError> {
    let fail = |source| StartError::Listen { path: path.to_owned(), source };
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(parent);
        made.map_err(|source| StartError::Directory { path: parent.to_owned(), source })?;
    }
    let listener = Listener::bind(path).map_err(fail)?;
    // A feed's rows are its user's: nobody else may connect.
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(fail)?;
    feed::register(listener).map_err(fail)
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix:{}", self.path.display())
    }
}
