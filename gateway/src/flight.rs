//! The gateway as a server: datasets over Arrow Flight.
//!
//! In: a configuration. Out: a bound address, behind which any Flight client lists, plans and reads. The
//! promise: what is wrong with the configuration is said before the port opens; nothing is kept between
//! calls that a ticket does not say, or that is not told again until it is not needed any more, so any
//! gateway of a fleet answers for any other; a gateway told to leave takes no new readers and hands its
//! streams over.

mod action;
mod body;
mod catalog;
mod compose;
mod deliveries;
mod info;
mod lend;
mod listener;
mod memory;
mod metrics;
mod mixed;
mod owned;
mod places;
mod plans;
mod prepared;
mod presence;
mod queue;
mod resolve;
mod rope;
mod running;
mod served;
mod server;
mod service;
mod stream;
#[cfg(test)]
mod tests;
mod tls;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use penstock_daemon::tls::connector;
use penstock_daemon::{Budget, Drain};
use penstock_proto::{Code, Error};

use self::catalog::Catalog;
pub use self::catalog::CatalogError;
use self::deliveries::Deliveries;
use self::listener::Peer;
use self::memory::Said;
use self::owned::Lent;
use self::places::Places;
use self::plans::Plans;
pub use self::prepared::serve_batches;
use self::running::Running;
use self::service::Answers;
pub use self::tls::TlsError;
use crate::config::{Config, DiskConfig};
use crate::count::{Counter, State, StateError};
use crate::dataset::FooterMemory;
use crate::fleet::{Fleet, FleetError, Puller, Shares, Trust};
use crate::read::{Disk, Shared};
use crate::store::Stores;

/// Serves datasets.
pub struct Gateway {
    config: Config,
    catalog: Catalog,
    plans: Plans,
    deliveries: Deliveries,
    fleet: Fleet,
    shares: Shares,
    puller: Arc<Puller>,
    lent: Lent,
    budget: Budget,
    said: Said,
    running: Running,
    drain: Drain,
}

/// A gateway that serves.
#[derive(Debug, Clone)]
pub struct Bound {
    /// What was bound, if that is a TCP port; tells it where 0 was asked for.
    pub address: Option<SocketAddr>,
    /// The same as a location: `grpc://HOST:PORT`, `grpc+tls://HOST:PORT` or `grpc+unix://PATH`.
    pub bound: String,
    /// The location that clients are told.
    pub location: String,
}

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Fleet(#[from] FleetError),
    #[error("cannot listen at {address}, which is in use: choose another --listen, or port 0 for a free one")]
    InUse { address: String },
    #[error("cannot listen at {address}: give HOST:PORT, where the host is one of this machine's")]
    Listen { address: String, source: io::Error },
    #[error("another gateway serves at {}: choose another path", path.display())]
    SocketInUse { path: PathBuf },
    #[error("cannot make a Unix socket at {}: give a path of at most 107 bytes in a directory that may be written", path.display())]
    Socket { path: PathBuf, source: io::Error },
}

impl Gateway {
    /// Looks at the datasets, opens the port and serves until the drain begins and the streams are handed
    /// over.
    ///
    /// # Errors
    /// When a dataset cannot be read, or the port cannot be opened.
    pub async fn start(config: Config, drain: &Drain) -> Result<Bound, StartError> {
        metrics::describe();
        let state = config.state.as_deref().map(State::open).transpose()?;
        let stores = Stores::new(config.hdfs.clone()).with_cloud(config.cloud.clone());
        let disk = config.cache_disk.as_ref().and_then(|disk| open_disk(disk, config.memory_bytes));
        // What a disk needs in memory is a part of it.
        let disk_memory_bytes = disk.as_ref().map_or(0, Disk::memory_bytes);
        let budget = Budget::new(config.memory_bytes - disk_memory_bytes);
        let footers = FooterMemory::new(&budget, config.patience);
        let catalog = Catalog::open(&config.datasets, &stores, &footers, config.tell).await?;
        let places = Places::open(&config).await?;
        let fleet =
            Fleet::open(places.own, places.address, places.nearby, &config.fleet, places.scheme).await?;
        fleet.watch(config.fleet_interval, drain);
        let location = fleet.own().to_owned();
        let trust = match (&config.fleet_ca, &config.tls) {
            (Some(ca), Some(own)) => {
                let own = (own.certificate.as_path(), own.key.as_path());
                Trust(Some(connector(ca, Some(own)).map_err(TlsError::Client)?))
            }
            (None, Some(_)) if !config.fleet.is_empty() => {
                tracing::info!("without --fleet-ca gateways of the fleet decode nothing for each other");
                Trust::default()
            }
            _ => Trust::default(),
        };
        let puller = Arc::new(Puller::new(trust, config.fleet_patience, drain.clone()));
        let cache_bytes = config.cache_bytes();
        let shared = Shared::new(&budget, cache_bytes, disk);
        tracing::info!(
            memory_bytes = config.memory_bytes,
            cache_bytes,
            disk_memory_bytes,
            "the decoded cache takes what streams leave"
        );
        let running = Running::default();
        let counter = Counter::new(budget.clone(), config.patience, state);
        let (plans, deliveries) = (Plans::new(counter, shared), Deliveries::default());
        let (running_here, drain_here) = (running.clone(), drain.clone());
        let gateway = Self {
            config,
            catalog,
            plans,
            deliveries,
            fleet,
            shares: Shares::default(),
            puller,
            lent: Lent::default(),
            budget,
            said: Said::default(),
            running: running_here,
            drain: drain_here,
        };

        let answers = Answers::new(gateway);
        for (name, listener) in places.listeners {
            drain.spawn(name, server::serve(listener, answers.clone(), drain.clone()));
        }
        Ok(Bound { address: places.address, bound: places.bound, location })
    }

    /// Refuses new readers while leaving.
    fn serving(&self) -> Result<(), Error> {
        if self.drain.has_begun() {
            return Err(Error::new(Code::Draining, "this gateway is leaving: ask another of the fleet"));
        }
        Ok(())
    }
}

/// A gateway does without a disk that cannot be used.
fn open_disk(config: &DiskConfig, memory_bytes: u64) -> Option<Disk> {
    Disk::open(config, memory_bytes)
        .inspect_err(|error| {
            let error = error as &dyn std::error::Error;
            let directory = config.directory.display();
            tracing::warn!(error, %directory, "no file can be made in --cache-dir: the decoded cache does without a disk");
        })
        .ok()
}

/// What IPC cannot write was not fit to be read.
fn unwritable(error: &arrow::error::ArrowError) -> Error {
    Error::chain(Code::Internal, error)
}
