//! What a dataset holds at this moment.
//!
//! In: a name and a URI. Out: a [`Snapshot`]: sorted files, their parsed footers, one schema, the
//! blocks, and an id that is equal wherever these are. The promise: a footer is read once as long as its
//! file stays as it is, and whatever is broken, missing or unlike the rest is refused by name. It reads
//! no data page and knows no feed.

mod error;
mod estimate;
mod footer;
pub mod inspect;
mod listing;
mod location;
mod projection;
mod schema;
mod snapshot;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use tokio::sync::Mutex;

pub use self::error::DatasetError;
use self::footer::Footer;
use self::listing::Found;
pub use self::location::Location;
pub use self::projection::Projection;
pub use self::snapshot::{Block, File, Snapshot};

/// Footers read at once: enough to hide a store's latency, few enough to bound what is held.
const CONCURRENT_FOOTERS: usize = 16;

/// A named place that holds Parquet files.
pub struct Dataset {
    name: String,
    location: Location,
    store: Arc<dyn ObjectStore>,
    /// Held while looking, so that many who ask at once cause one listing.
    last: Mutex<Option<Last>>,
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
    /// Reads the URI; the place itself is not looked at before [`snapshot`](Self::snapshot).
    ///
    /// # Errors
    /// When the URI cannot be read, or is of a store that this release does not know.
    pub fn new(name: impl Into<String>, uri: &str) -> Result<Self, DatasetError> {
        Ok(Self {
            name: name.into(),
            location: Location::parse(uri)?,
            store: Arc::new(LocalFileSystem::new()),
            last: Mutex::new(None),
        })
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
    /// When nothing is there, or a file cannot be read, is no whole Parquet file, or has another schema
    /// than the first.
    pub async fn snapshot(&self) -> Result<Arc<Snapshot>, DatasetError> {
        let mut last = self.last.lock().await;
        let location = self.location.clone();
        let found = off_thread(move || listing::list(&location)).await?;
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
                        None => footer::read(self.store.as_ref(), &found.meta).await,
                    }
                }
            })
            .collect();
        let footers: Vec<Footer> =
            futures::stream::iter(reads).buffered(CONCURRENT_FOOTERS).try_collect().await?;
        let snapshot = Arc::new(Snapshot::new(&self.store, &found, &footers)?);
        *last = Some(Last { found, footers, snapshot: Arc::clone(&snapshot) });
        Ok(snapshot)
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
