//! Object stores, as far as reading goes.
//!
//! In: a bucket's address and how an operator says that it is reached. Out: an
//! [`ObjectStore`](object_store::ObjectStore) of its files. The promise: nothing hangs, whatever the store or
//! the network does; a store that asks to slow down is asked less; bytes are of the version that was listed
//! and whole. It writes nothing, and tells no secret to logs or errors.

mod address;
mod connection;
mod error;
mod fault;
mod lateness;
mod metrics;
mod object;
mod pace;
mod patience;
mod profile;
mod provider;
mod read;
mod version;

use std::fmt;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path;

pub(crate) use self::address::{Address, Kind};
use self::connection::Connector;
use self::error::Asked;
pub use self::error::CloudError;
use self::lateness::Lateness;
use self::metrics::StoreMetrics;
use self::pace::Pace;
use self::patience::Patience;
use crate::config::CloudConfig;

/// A client of one bucket. Cloning shares it.
#[derive(Clone)]
pub(crate) struct Bucket(Arc<Shared>);

struct Shared {
    address: Address,
    client: Arc<dyn ObjectStore>,
    pace: Arc<Pace>,
    lateness: Lateness,
    patience: Patience,
    metrics: Arc<StoreMetrics>,
}

impl Bucket {
    /// Reads settings and profiles; nobody is asked before something is read.
    ///
    /// # Errors
    /// When a setting is unknown or cannot be used.
    pub(crate) fn new(address: &Address, config: &CloudConfig) -> Result<Self, CloudError> {
        check(config)?;
        let mut patience = Patience::OF_A_STORE;
        if let Some(longest) = provider::retry_timeout(config)? {
            patience.longest = longest;
        }
        let metrics = Arc::new(StoreMetrics::new(address.root.trim_end_matches('/')));
        let pace = Arc::new(Pace::new(metrics.limit.clone()));
        let connector = Connector::new(Arc::clone(&pace), Arc::clone(&metrics), patience);
        let client = provider::client(address, config, connector)?;
        let (address, lateness) = (address.clone(), Lateness::new());
        Ok(Self(Arc::new(Shared { address, client, pace, lateness, patience, metrics })))
    }

    fn asked<'a>(&'a self, location: &'a Path) -> Asked<'a> {
        Asked { kind: self.0.address.kind, root: &self.0.address.root, path: location.as_ref() }
    }
}

/// Refuses settings that no family of stores knows.
///
/// # Errors
/// Names the first of them.
pub fn check(config: &CloudConfig) -> Result<(), CloudError> {
    provider::check_options(config)
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.address.root.trim_end_matches('/'))
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.0.address.root).finish()
    }
}
