//! Where files lie.
//!
//! In: places as URIs name them, and how an operator says that they are reached. Out: object stores to
//! read from. The promise: all datasets of a cluster or of a bucket share one client. It knows no Parquet.

#[cfg(feature = "cloud")]
pub mod cloud;
#[cfg(feature = "hdfs")]
pub mod hdfs;
pub(crate) mod legible;
pub(crate) mod local;

#[cfg(any(feature = "hdfs", feature = "cloud"))]
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::io;
#[cfg(any(feature = "hdfs", feature = "cloud"))]
use std::sync::{Mutex, PoisonError};

#[cfg(feature = "hdfs")]
use self::hdfs::{Hdfs, HdfsError};
use penstock_proto::Code;

#[cfg(feature = "cloud")]
use self::cloud::{Address, Bucket, CloudError};
use crate::config::{CloudConfig, HdfsConfig};

/// The stores that datasets of one process are read from.
pub struct Stores {
    #[cfg(feature = "hdfs")]
    hdfs: HdfsConfig,
    #[cfg(feature = "hdfs")]
    clusters: Mutex<BTreeMap<String, Hdfs>>,
    #[cfg(feature = "cloud")]
    cloud: CloudConfig,
    #[cfg(feature = "cloud")]
    buckets: Mutex<BTreeMap<Address, Bucket>>,
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
            #[cfg(feature = "cloud")]
            cloud: CloudConfig::default(),
            #[cfg(feature = "cloud")]
            buckets: Mutex::default(),
        }
    }

    /// Object stores are reached like that; without it no more is known of them than their URIs say.
    #[must_use]
    #[cfg_attr(
        not(feature = "cloud"),
        expect(
            unused_mut,
            unused_variables,
            clippy::needless_pass_by_value,
            reason = "a build without object stores keeps nothing of them"
        )
    )]
    pub fn with_cloud(mut self, cloud: CloudConfig) -> Self {
        #[cfg(feature = "cloud")]
        {
            self.cloud = cloud;
        }
        self
    }

    /// The bucket at an address.
    ///
    /// # Errors
    /// When its settings cannot be used.
    #[cfg(feature = "cloud")]
    pub(crate) fn bucket(&self, address: &Address) -> Result<Bucket, CloudError> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = buckets.get(address) {
            return Ok(known.clone());
        }
        let bucket = Bucket::new(address, &self.cloud)?;
        buckets.insert(address.clone(), bucket.clone());
        Ok(bucket)
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

/// What a store answered, in its own words alone: object_store's errors repeat them.
#[derive(Debug)]
pub struct StoreError(object_store::Error);

impl StoreError {
    /// The code under which it travels: a store may answer later, unless it says that it never will.
    pub(crate) fn code(&self) -> Code {
        use object_store::Error::{NotSupported, PermissionDenied};
        let mut cause: Option<&(dyn Error + 'static)> = Some(&self.0);
        while let Some(error) = cause {
            #[cfg(feature = "cloud")]
            if let Some(error) = error.downcast_ref::<CloudError>() {
                return error.code();
            }
            if error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
            {
                return Code::BadFile;
            }
            cause = error.source();
        }
        match &self.0 {
            PermissionDenied { .. } => Code::BadFile,
            NotSupported { .. } => Code::Unsupported,
            _ => Code::StoreUnavailable,
        }
    }
}

impl From<object_store::Error> for StoreError {
    fn from(error: object_store::Error) -> Self {
        Self(error)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The outermost says little but which store it was.
        let mut cause = self.0.source();
        let mut text = cause.map_or_else(|| self.0.to_string(), ToString::to_string);
        while let Some(error) = cause {
            let words = error.to_string();
            if !text.contains(&words) {
                text = format!("{text}: {words}");
            }
            cause = error.source();
        }
        f.write_str(&text)
    }
}

/// Without a source, whose words are told already.
impl Error for StoreError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forbidden_is_not_tried_again() {
        let error = |kind: io::ErrorKind| {
            StoreError(object_store::Error::Generic { store: "X", source: io::Error::from(kind).into() })
        };
        assert_eq!(error(io::ErrorKind::PermissionDenied).code(), Code::BadFile);
        assert_eq!(error(io::ErrorKind::TimedOut).code(), Code::StoreUnavailable);
        assert_eq!(error(io::ErrorKind::TimedOut).to_string(), "timed out");
    }
}
