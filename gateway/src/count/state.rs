//! Counts kept below a directory, for gateways that start anew and for a whole fleet.
//!
//! A file holds the counts of one snapshot under one filter; its name is a hash of both. It is written by
//! conditional create, so that of many who counted one writes. A file that is not whole, or of another release's
//! format, is counted anew and written over.

use std::path::PathBuf;
use std::sync::Arc;

use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Counts;
use crate::dataset::{Filter, Snapshot};

/// Of the format, and of what filters mean: counts of another are not read.
const VERSION: u32 = 1;

/// A place for counts.
#[derive(Clone)]
pub struct State {
    store: Arc<dyn ObjectStore>,
}

/// A place for counts that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("--state {uri:?} is no directory's name: give a path, or file:///absolute/path")]
    Place { uri: String },
    #[error("cannot make the directory {} of --state", path.display())]
    Create { path: PathBuf, source: std::io::Error },
    #[error("cannot use the directory {} of --state", path.display())]
    Open { path: PathBuf, source: object_store::Error },
}

#[derive(Serialize, Deserialize)]
struct Kept {
    version: u32,
    snapshot: String,
    filter: String,
    digest: String,
    rows: Vec<u64>,
}

/// What a look for counts found.
enum Found {
    Whole(Counts),
    Broken,
    Nothing,
}

impl State {
    /// A directory, made where it is not there.
    ///
    /// # Errors
    /// When the URI is of another kind, or the directory cannot be made.
    pub fn open(uri: &str) -> Result<Self, StateError> {
        let path = match uri.split_once("://") {
            None => PathBuf::from(uri),
            Some(("file", path)) if path.starts_with('/') => PathBuf::from(path),
            Some(_) => return Err(StateError::Place { uri: uri.to_owned() }),
        };
        std::fs::create_dir_all(&path).map_err(|source| StateError::Create { path: path.clone(), source })?;
        match LocalFileSystem::new_with_prefix(&path) {
            Ok(store) => Ok(Self { store: Arc::new(store) }),
            Err(source) => Err(StateError::Open { path, source }),
        }
    }

    /// The counts of a filter, if they are there and whole.
    pub(super) async fn load(&self, snapshot: &Snapshot, filter: &Filter) -> Option<Counts> {
        match self.look(snapshot, filter).await {
            Found::Whole(counts) => Some(counts),
            Found::Broken | Found::Nothing => None,
        }
    }

    async fn look(&self, snapshot: &Snapshot, filter: &Filter) -> Found {
        let path = path(snapshot, filter);
        let bytes = match self.store.get(&path).await {
            Ok(found) => found.bytes().await,
            Err(error) => Err(error),
        };
        match bytes {
            Ok(bytes) => match Kept::read(&bytes, snapshot, filter) {
                Some(counts) => Found::Whole(counts),
                None => {
                    tracing::warn!(%path, "kept counts are not whole: counting anew");
                    Found::Broken
                }
            },
            Err(object_store::Error::NotFound { .. }) => Found::Nothing,
            Err(error) => {
                tracing::warn!(%path, %error, "kept counts cannot be read: counting anew");
                Found::Nothing
            }
        }
    }

    /// Keeps counts. Where that fails they are counted again next time, so it is said and goes on.
    pub(super) async fn store(&self, snapshot: &Snapshot, filter: &Filter, counts: &Counts) {
        let mode = match self.look(snapshot, filter).await {
            Found::Whole(_) => return,
            Found::Broken => PutMode::Overwrite,
            Found::Nothing => PutMode::Create,
        };
        let kept = Kept {
            version: VERSION,
            snapshot: snapshot.id.to_string(),
            filter: filter.text().to_owned(),
            digest: counts.digest.clone(),
            rows: counts.rows.to_vec(),
        };
        let payload = PutPayload::from(serde_json::to_vec(&kept).expect("texts and numbers are written"));
        let options = PutOptions { mode, ..PutOptions::default() };
        match self.store.put_opts(&path(snapshot, filter), payload, options).await {
            // Another gateway was quicker, with the same numbers.
            Ok(_) | Err(object_store::Error::AlreadyExists { .. }) => {}
            Err(error) => tracing::warn!(%error, "counts cannot be kept below --state"),
        }
    }
}

impl Kept {
    fn read(bytes: &[u8], snapshot: &Snapshot, filter: &Filter) -> Option<Counts> {
        let kept: Self = serde_json::from_slice(bytes).ok()?;
        let is_for = kept.version == VERSION
            && kept.snapshot == snapshot.id.as_str()
            && kept.filter == filter.text()
            && kept.rows.len() == snapshot.blocks.len();
        let fits = |(rows, block): (&u64, &crate::dataset::Block)| *rows <= block.rows.end - block.rows.start;
        if !is_for || !kept.rows.iter().zip(&snapshot.blocks).all(fits) {
            return None;
        }
        let counts = Counts::new(kept.rows.into());
        (counts.digest == kept.digest).then_some(counts)
    }
}

fn path(snapshot: &Snapshot, filter: &Filter) -> Path {
    let mut hash = Sha256::new_with_prefix(format!("penstock counts {VERSION}\n{}\n", snapshot.id));
    hash.update(filter.text());
    let name: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Path::from(format!("counts/{name}.json"))
}
