//! What a dataset holds at this moment.
//!
//! In: a name and a URI. Out: a [`Snapshot`]: sorted files, their parsed footers, one schema, the
//! blocks, and an id that is equal wherever these are. The promise: a footer is read once as long as its
//! file stays as it is, and whatever is broken, missing or unlike the rest is refused by name. It reads
//! no data page and knows no feed.

mod aligned;
mod error;
mod estimate;
mod filter;
mod footer;
mod footers;
pub mod inspect;
mod listing;
mod location;
mod progress;
mod projection;
mod schema;
mod snapshot;
#[cfg(test)]
pub(crate) mod tests;
mod vocabulary;

use std::collections::HashSet;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use object_store::{ObjectMeta, ObjectStore};
use tokio::sync::Mutex;

use crate::config::{CloudConfig, HdfsConfig};
use crate::store::Stores;
use crate::store::local::LocalFiles;

pub use self::error::DatasetError;
pub(crate) use self::estimate::decoded_bytes;
pub use self::filter::Filter;
use self::footer::Footer;
pub(crate) use self::footer::{page_index, statistics};
pub(crate) use self::footers::FooterMemory;
use self::listing::Found;
pub use self::location::Location;
use self::location::Place;
use self::progress::Counting;
pub use self::progress::Progress;
pub use self::projection::Projection;
pub use self::snapshot::{Block, File, Snapshot};
pub use self::vocabulary::Vocabulary;
pub(crate) use self::vocabulary::views;

/// Footers read at once: enough to hide a store's latency, few enough to bound what is held.
const CONCURRENT_FOOTERS: usize = 16;
/// Of object stores, where an answer takes longer; the store's own pace bounds it further.
#[cfg(feature = "cloud")]
const CONCURRENT_CLOUD_FOOTERS: usize = 64;

/// A named place that holds Parquet files.
pub struct Dataset {
    name: String,
    location: Location,
    origin: Origin,
    /// What footers are counted in, if in anything.
    memory: Option<FooterMemory>,
    /// Held while looking, so that many who ask at once cause one listing.
    last: Mutex<Option<Last>>,
}

/// The store that a dataset's files lie in.
#[derive(Clone)]
struct Origin {
    store: Arc<dyn ObjectStore>,
    /// What stands before a file's location where people read it.
    root: Arc<str>,
}

/// What the last look found. Footers of files that are gone are not kept.
struct Last {
    /// Sorted by name.
    found: Vec<Found>,
    /// One for each file found.
    footers: Vec<Footer>,
    snapshot: Arc<Snapshot>,
}

impl Dataset {
    /// As [`open`](Self::open), in stores that are reached as the environment says.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn new(name: impl Into<String>, uri: &str) -> Result<Self, DatasetError> {
        let stores = Stores::new(HdfsConfig::from_environment()).with_cloud(CloudConfig::from_environment());
        Self::open(name, uri, &stores)
    }

    /// Reads the URI; the place itself is not looked at before [`snapshot`](Self::snapshot).
    ///
    /// # Errors
    /// When the URI cannot be read, is of a store that this release does not know, or names a cluster that the
    /// configuration does not.
    pub fn open(name: impl Into<String>, uri: &str, stores: &Stores) -> Result<Self, DatasetError> {
        let location = Location::parse(uri)?;
        let origin = Origin::of(&location, stores)?;
        Ok(Self { name: name.into(), location, origin, memory: None, last: Mutex::new(None) })
    }

    /// The same, whose footers are counted.
    pub(crate) fn within(self, memory: FooterMemory) -> Self {
        Self { memory: Some(memory), ..self }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Lists the files and reads the footers that are new. As long as nothing changed, the same snapshot
    /// is returned.
    ///
    /// # Errors
    /// When nothing is there, or a file cannot be read, is no whole Parquet file, or has two columns of one name.
    pub async fn snapshot(&self) -> Result<Arc<Snapshot>, DatasetError> {
        let log = |Progress { read, files }| {
            tracing::info!(dataset = %self.name, read, files, "reading footers");
        };
        self.look(log).await
    }

    /// As [`snapshot`](Self::snapshot); tells how far it is, at most once a second, instead of logging it.
    ///
    /// # Errors
    /// Those of [`snapshot`](Self::snapshot).
    pub async fn look(&self, mut tell: impl FnMut(Progress) + Send) -> Result<Arc<Snapshot>, DatasetError> {
        let mut last = self.last.lock().await;
        let found = self.list().await?;
        if let Some(last) = &*last
            && last.found == found
        {
            return Ok(Arc::clone(&last.snapshot));
        }
        // Collected first: a stream that maps borrows is not seen to be `Send`.
        let reads: Vec<_> = found
            .iter()
            .map(|found| {
                let known = last.as_ref().and_then(|last| last.footer_of(found)).cloned();
                async move {
                    match known {
                        Some(footer) => Ok(footer),
                        None => footer::read(&self.origin, &found.meta, self.memory.as_ref()).await,
                    }
                }
            })
            .collect();
        let mut counting = Counting::new(reads.len());
        let said = |_: &Footer| {
            if let Some(progress) = counting.count() {
                tell(progress);
            }
        };
        let reads = futures::stream::iter(reads).buffered(self.concurrent_footers());
        let footers: Vec<Footer> = reads.inspect_ok(said).try_collect().await?;
        let mut snapshot = Snapshot::new(&self.origin, &found, &footers)?;
        if let Some(memory) = &self.memory {
            snapshot.hold(memory).await?;
        }
        if let Some(refusal) = snapshot.first_unlike() {
            tracing::warn!(dataset = %self.name, %refusal, "not every column can be fed");
        }
        let snapshot = Arc::new(snapshot);
        *last = Some(Last { found, footers, snapshot: Arc::clone(&snapshot) });
        Ok(snapshot)
    }

    fn concurrent_footers(&self) -> usize {
        match &self.location.place {
            #[cfg(feature = "cloud")]
            Place::Cloud { .. } => CONCURRENT_CLOUD_FOOTERS,
            _ => CONCURRENT_FOOTERS,
        }
    }

    /// The files of all places; of several they come in the order of these, and are named so.
    async fn list(&self) -> Result<Vec<Found>, DatasetError> {
        let Location { place, more, .. } = &self.location;
        if more.is_empty() {
            return self.list_place(place).await;
        }
        let lists: Vec<_> = std::iter::once(place).chain(more).map(|place| self.list_place(place)).collect();
        let lists = futures::stream::iter(lists).buffered(self.concurrent_footers());
        let lists: Vec<_> = lists.try_collect().await?;
        let mut known = HashSet::new();
        let mut found = Vec::new();
        for (number, list) in lists.into_iter().enumerate() {
            for mut file in list {
                if !known.insert(file.meta.location.clone()) {
                    return Err(DatasetError::FileTwice { file: self.origin.shown(&file.meta) });
                }
                // Sorted, names are in the order of places.
                file.name = format!("{number:06}/{}", file.name);
                found.push(file);
            }
        }
        Ok(found)
    }

    async fn list_place(&self, place: &Place) -> Result<Vec<Found>, DatasetError> {
        match place {
            Place::Local(path) => {
                let path = path.clone();
                off_thread(move || listing::list(&path)).await
            }
            #[cfg(feature = "hdfs")]
            Place::Hdfs { path, .. } => {
                listing::remote::list(self.origin.store.as_ref(), &self.origin.root, path, false).await
            }
            #[cfg(feature = "cloud")]
            Place::Cloud { address, paths } => {
                let (store, root) = (self.origin.store.as_ref(), &self.origin.root);
                match paths.as_slice() {
                    [path] => listing::remote::list(store, root, path, address.is_flat()).await,
                    files => listing::remote::named(store, root, files).await,
                }
            }
        }
    }
}

impl Origin {
    #[cfg_attr(
        not(any(feature = "hdfs", feature = "cloud")),
        expect(unused_variables, reason = "without others there is one store")
    )]
    fn of(location: &Location, stores: &Stores) -> Result<Self, DatasetError> {
        Ok(match &location.place {
            Place::Local(_) => Self { store: Arc::new(LocalFiles), root: "/".into() },
            #[cfg(feature = "hdfs")]
            Place::Hdfs { authority, .. } => {
                let cluster = stores.cluster(authority)?;
                let root = format!("{cluster}/").into();
                Self { store: Arc::new(cluster), root }
            }
            #[cfg(feature = "cloud")]
            Place::Cloud { address, .. } => {
                Self { store: Arc::new(stores.bucket(address)?), root: address.root.as_str().into() }
            }
        })
    }

    /// A file's full name, for people.
    fn shown(&self, meta: &ObjectMeta) -> String {
        format!("{}{}", self.root, meta.location)
    }
}

impl Last {
    /// The footer of a file that is as it was.
    fn footer_of(&self, now: &Found) -> Option<&Footer> {
        let place = self.found.binary_search_by(|then| then.name.cmp(&now.name)).ok()?;
        (self.found[place] == *now).then(|| &self.footers[place])
    }
}

/// Runs what blocks or computes away from the async threads.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DatasetError> + Send + 'static,
) -> Result<T, DatasetError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| Err(DatasetError::Worker { source: e }))
}
