//! Where files lie.
//!
//! In: places as URIs name them, and how an operator says that they are reached. Out: object stores to
//! read from. The promise: all datasets of a cluster share one client. It knows no Parquet.

#[cfg(feature = "hdfs")]
pub mod hdfs;

#[cfg(feature = "hdfs")]
use std::collections::BTreeMap;
#[cfg(feature = "hdfs")]
use std::sync::{Mutex, PoisonError};

#[cfg(feature = "hdfs")]
use self::hdfs::{Hdfs, HdfsError};
use crate::config::HdfsConfig;

/// The stores that datasets of one process are read from.
pub struct Stores {
    #[cfg(feature = "hdfs")]
    hdfs: HdfsConfig,
    #[cfg(feature = "hdfs")]
    clusters: Mutex<BTreeMap<String, Hdfs>>,
}

impl Stores {
    #[cfg_attr(
        not(feature = "hdfs"),
        expect(clippy::needless_pass_by_value, reason = "a build without HDFS keeps nothing of it")
    )]
    pub fn new(hdfs: HdfsConfig) -> Self {
        #[cfg(not(feature = "hdfs"))]
        let _ = hdfs;
        Self {
            #[cfg(feature = "hdfs")]
            hdfs,
            #[cfg(feature = "hdfs")]
            clusters: Mutex::default(),
        }
    }

    /// The cluster behind a URI's authority; an empty one means the default file system.
    ///
    /// # Errors
    /// When the configuration cannot be read, or names no NameNode for it.
    #[cfg(feature = "hdfs")]
    pub(crate) fn cluster(&self, authority: &str) -> Result<Hdfs, HdfsError> {
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = clusters.get(authority) {
            return Ok(known.clone());
        }
        let cluster = Hdfs::new(authority, &self.hdfs)?;
        clusters.insert(authority.to_owned(), cluster.clone());
        Ok(cluster)
    }
}
