//! The datasets that a gateway serves, and what they held.
//!
//! In: names and URIs. Out: snapshots, the newest or one that a ticket names. The promise: a stream that
//! was promised a snapshot finds it for as long as it is in use, and the last few beyond that.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use penstock_proto::{Code, Error, SnapshotId};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::dataset::{Dataset, DatasetError, FooterMemory, Progress, Snapshot};
use crate::store::Stores;

/// What a gateway saw when it began is for whoever asks first, if that is soon: who starts one asks at once.
const FRESH: Duration = Duration::from_secs(2);
/// Snapshots kept though nobody reads them.
const KEPT: usize = 4;

/// All datasets by name.
pub(crate) struct Catalog(BTreeMap<String, Shelf>);

struct Shelf {
    dataset: Dataset,
    seen: Mutex<Seen>,
}

/// What was seen of a dataset.
struct Seen {
    /// When the latest listing began.
    at: Instant,
    /// Nobody has asked since the gateway began.
    is_unasked: bool,
    /// The newest last.
    kept: VecDeque<Arc<Snapshot>>,
    /// Those that only streams keep.
    older: Vec<Weak<Snapshot>>,
}

/// A dataset cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    #[error("no dataset is named: add --dataset NAME=URI")]
    Empty,
    #[error("dataset {name:?} is named twice: names must differ")]
    Twice { name: String },
    #[error("a dataset's name is empty: write NAME=URI")]
    Unnamed,
    #[error("dataset {name:?}")]
    Dataset { name: String, source: DatasetError },
}

impl Catalog {
    /// Looks at every dataset once, so that a wrong path is known before anyone asks. Tells how far it is.
    pub(crate) async fn open(
        datasets: &[(String, String)],
        stores: &Stores,
        memory: &FooterMemory,
        tell: fn(&str),
    ) -> Result<Self, CatalogError> {
        if datasets.is_empty() {
            return Err(CatalogError::Empty);
        }
        let mut shelves = BTreeMap::new();
        for (name, uri) in datasets {
            if name.is_empty() {
                return Err(CatalogError::Unnamed);
            }
            let broken = |source| CatalogError::Dataset { name: name.clone(), source };
            let dataset = Dataset::open(name.as_str(), uri, stores).map_err(broken)?.within(memory.clone());
            let at = Instant::now();
            let say = |Progress { read, files }| tell(&format!("reading {name}: {read} of {files} files"));
            let snapshot = dataset.look(say).await.map_err(broken)?;
            tracing::info!(dataset = %name, location = %dataset.location(), files = snapshot.files.len(),
                rows = snapshot.rows(), snapshot = %snapshot.id, "serving");
            let seen = Seen { at, is_unasked: true, kept: VecDeque::from([snapshot]), older: Vec::new() };
            if shelves.insert(name.clone(), Shelf { dataset, seen: Mutex::new(seen) }).is_some() {
                return Err(CatalogError::Twice { name: name.clone() });
            }
        }
        Ok(Self(shelves))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The snapshot of that id, or what is there now: listed after this was asked, once for all who ask meanwhile.
    pub(crate) async fn snapshot(&self, name: &str, id: Option<&SnapshotId>) -> Result<Arc<Snapshot>, Error> {
        let shelf = self.shelf(name)?;
        let asked = Instant::now();
        let mut seen = shelf.seen.lock().await;
        if let Some(known) = id.and_then(|id| seen.find(id)) {
            return Ok(known);
        }
        let is_first = std::mem::take(&mut seen.is_unasked);
        if seen.at <= asked && !(is_first && seen.at.elapsed() < FRESH) {
            let at = Instant::now();
            let snapshot = shelf.dataset.snapshot().await;
            seen.add(snapshot.map_err(|e| Error::chain(e.code(), &e))?, at);
        }
        match id {
            None => Ok(seen.newest()),
            Some(id) => seen.find(id).ok_or_else(|| gone(name, id)),
        }
    }

    fn shelf(&self, name: &str) -> Result<&Shelf, Error> {
        self.0.get(name).ok_or_else(|| {
            let known: Vec<String> = self.names().map(|name| format!("{name:?}")).collect();
            let message = format!("no dataset {name:?} is served here: there is {}", known.join(", "));
            Error::new(Code::UnknownDataset, message)
        })
    }
}

impl Seen {
    fn newest(&self) -> Arc<Snapshot> {
        Arc::clone(self.kept.back().expect("a catalog opens with a snapshot of everything"))
    }

    fn find(&self, id: &SnapshotId) -> Option<Arc<Snapshot>> {
        let older = self.older.iter().filter_map(Weak::upgrade);
        self.kept.iter().map(Arc::clone).chain(older).find(|snapshot| snapshot.id == *id)
    }

    fn add(&mut self, snapshot: Arc<Snapshot>, at: Instant) {
        self.at = at;
        if self.newest().id == snapshot.id {
            return;
        }
        tracing::info!(snapshot = %snapshot.id, files = snapshot.files.len(), "the dataset has changed");
        self.kept.push_back(snapshot);
        if self.kept.len() > KEPT {
            self.older.extend(self.kept.pop_front().map(|old| Arc::downgrade(&old)));
        }
        self.older.retain(|old| old.strong_count() > 0);
    }
}

fn gone(name: &str, id: &SnapshotId) -> Error {
    let message = format!(
        "snapshot {id} of dataset {name:?} is not there any more, its files have changed: ask for the feed \
         again, without a snapshot, to read them as they are now"
    );
    Error::new(Code::SnapshotGone, message)
}
