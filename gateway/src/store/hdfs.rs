//! HDFS, as far as reading goes.
//!
//! In: a cluster's name and its configuration. Out: an [`ObjectStore`](object_store::ObjectStore) of its
//! files. The promise: nothing hangs, whoever falls silent; a NameNode that is lost is replaced by the
//! other, a DataNode by the next replica; bytes are of the version that was asked for. It writes nothing.

mod blocks;
mod configuration;
mod connection;
mod datanodes;
mod error;
mod files;
mod namenodes;
mod object;
mod packet;
mod read;
mod rpc;
mod shortcircuit;
mod tokens;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hdfs_native::client::FileStatus;
use tokio::sync::Semaphore;

use self::configuration::{Configuration, Patience};
use self::datanodes::DataNodes;
pub use self::error::HdfsError;
use self::files::Files;
use self::namenodes::{Line, NameNodes};
use crate::config::HdfsConfig;

/// Ranges read at once: enough to fill a fast link from many disks, few enough to leave DataNodes threads
/// for others. Who comes later waits here. Where the crate reads, it queues at most 6.4 MB of each beside the
/// buffer that is filled.
const CONCURRENT_RANGES: usize = 16;
/// Second attempts beside slow ones: a cluster that is slow as a whole must not be asked twice for everything.
const CONCURRENT_HEDGES: usize = 4;
/// A listing ends with this, however large the directory; a NameNode's silence ends it sooner.
const LONGEST_LISTING: Duration = Duration::from_mins(10);

/// A client of one cluster. Cloning shares it.
#[derive(Clone)]
pub struct Hdfs(Arc<Shared>);

struct Shared {
    namenodes: NameNodes,
    datanodes: DataNodes,
    files: Files,
    patience: Patience,
    /// Whether DataNodes are called by their names.
    uses_hostnames: bool,
    ranges: Arc<Semaphore>,
    hedges: Arc<Semaphore>,
}

impl Hdfs {
    /// Reads the configuration; nobody is asked before something is read.
    ///
    /// # Errors
    /// When the configuration cannot be read, or names no NameNode of the cluster.
    pub fn new(authority: &str, config: &HdfsConfig) -> Result<Self, HdfsError> {
        let configuration = Configuration::read(config)?;
        let mut cluster = configuration.cluster(authority)?;
        if let Some(path) = &config.tokens
            && configuration.is_secure()
        {
            let tokens =
                std::fs::read(path).map_err(|source| HdfsError::Tokens { path: path.clone(), source })?;
            cluster.readdress(|address| tokens::address_with_token(address, &tokens));
        }
        let patience = configuration.patience();
        Ok(Self(Arc::new(Shared {
            namenodes: NameNodes::new(cluster, &configuration, config),
            datanodes: DataNodes::new(patience.step, configuration.short_circuit()),
            files: Files::default(),
            patience,
            uses_hostnames: configuration.uses_hostnames(),
            ranges: Arc::new(Semaphore::new(CONCURRENT_RANGES)),
            hedges: Arc::new(Semaphore::new(CONCURRENT_HEDGES)),
        })))
    }

    /// `hdfs://NAMESERVICE` or `hdfs://HOST:PORT`.
    pub fn url(&self) -> &str {
        self.0.namenodes.url()
    }

    async fn stat(&self, path: &str) -> Result<FileStatus, HdfsError> {
        let wanted = path.to_owned();
        let stat = move |line: Line| {
            let path = wanted.clone();
            async move { line.client.get_file_info(&path).await }
        };
        self.0.namenodes.ask(path, self.0.patience.answer, stat).await
    }

    /// What is in a directory; of a file, the file itself.
    async fn children(&self, path: &str) -> Result<Vec<FileStatus>, HdfsError> {
        let (wanted, answer) = (path.to_owned(), self.0.patience.answer);
        let list = move |line: Line| {
            let pages = line.client.list_status_iter(&wanted, false);
            async move {
                let mut found = Vec::new();
                // Page by page, for a large directory takes longer than an answer may.
                while let Some(entry) = namenodes::within(answer, pages.next()).await? {
                    found.push(entry?);
                }
                Ok(found)
            }
        };
        self.0.namenodes.ask(path, LONGEST_LISTING, list).await
    }
}

impl fmt::Display for Hdfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url())
    }
}

impl fmt::Debug for Hdfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hdfs").field(&self.url()).finish()
    }
}
