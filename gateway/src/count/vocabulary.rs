//! The different texts of columns.
//!
//! In: a snapshot and some of its columns. Out: a vocabulary of each. The promise: it is a pure function of the
//! snapshot, whatever filter, order or rank asks, so that codes are the same for all; every block of the columns is
//! read once, within the gateway's memory; more texts than are comfortable to hand on are refused by name.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;

use arrow::array::RecordBatch;
use futures::{StreamExt as _, TryStreamExt as _};
use penstock_proto::{Code, Error, SnapshotId, sql_name};
use tokio::sync::OnceCell;

use super::{Counter, selected};
use crate::dataset::{Block, Projection, Snapshot, Vocabulary, views};
use crate::read::{ReadError, scan};

/// Sets of vocabularies that are kept: of a few feeds in training.
const KEPT: usize = 4;
/// Bytes of one feed's vocabularies, which it is told when it begins, and which are held beside the gateway's memory.
const MOST_BYTES: usize = 8 << 20;
/// What a text takes beside its letters.
const BESIDE: usize = 8;

/// Vocabularies of a snapshot, being made or made.
pub(super) struct Entry {
    snapshot: SnapshotId,
    name: String,
    made: OnceCell<Arc<[Arc<Vocabulary>]>>,
}

pub(super) type Kept = Mutex<VecDeque<Arc<Entry>>>;

/// What was found of every column so far.
#[derive(Default)]
struct Found {
    texts: Vec<HashSet<String>>,
    bytes: usize,
}

impl Counter {
    /// The vocabularies of columns of texts, in their order. `name` tells these columns of a snapshot from others.
    ///
    /// # Errors
    /// When there are too many texts, a block cannot be read, or no memory is free in time.
    pub(crate) async fn vocabularies(
        &self,
        snapshot: &Arc<Snapshot>,
        name: String,
        columns: Projection,
    ) -> Result<Arc<[Arc<Vocabulary>]>, Error> {
        let entry = self.vocabularies_of(snapshot, name);
        entry.made.get_or_try_init(|| self.collect(snapshot, columns)).await.cloned()
    }

    fn vocabularies_of(&self, snapshot: &Snapshot, name: String) -> Arc<Entry> {
        let mut kept = self.vocabularies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = kept.iter().find(|entry| entry.snapshot == snapshot.id && entry.name == name) {
            return Arc::clone(entry);
        }
        let entry = Arc::new(Entry { snapshot: snapshot.id.clone(), name, made: OnceCell::new() });
        kept.push_back(Arc::clone(&entry));
        if kept.len() > KEPT {
            kept.pop_front();
        }
        entry
    }

    async fn collect(
        &self,
        snapshot: &Arc<Snapshot>,
        columns: Projection,
    ) -> Result<Arc<[Arc<Vocabulary>]>, Error> {
        let names: Vec<String> = columns.schema().fields().iter().map(|field| field.name().clone()).collect();
        let columns = Arc::new(columns);
        let texts = vec![HashSet::new(); names.len()];
        let found = Arc::new(Mutex::new(Found { texts, bytes: 0 }));
        let blocks: Vec<_> = (0..snapshot.blocks.len())
            .map(|block| self.texts_of(snapshot, block, Arc::clone(&columns), Arc::clone(&found)))
            .collect();
        let at_once = available_parallelism().map_or(4, |cores| 2 * cores.get());
        futures::stream::iter(blocks).buffer_unordered(at_once).try_collect::<()>().await?;
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        let Found { texts, bytes } = std::mem::take(&mut *found);
        if bytes > MOST_BYTES {
            return Err(too_many(&names, &texts));
        }
        tracing::info!(snapshot = %snapshot.id, columns = names.len(), bytes, "vocabularies made");
        Ok(texts.into_iter().map(|texts| Arc::new(Vocabulary::of(texts))).collect())
    }

    /// Adds the texts of a block.
    async fn texts_of(
        &self,
        snapshot: &Snapshot,
        block: usize,
        columns: Arc<Projection>,
        found: Arc<Mutex<Found>>,
    ) -> Result<(), Error> {
        if found.lock().unwrap_or_else(PoisonError::into_inner).bytes > MOST_BYTES {
            return Ok(());
        }
        let Block { file, row_group, rows } = &snapshot.blocks[block];
        let file = &snapshot.files[*file as usize];
        let _lease = self.lease(snapshot, block, &columns.leaves(&file.footer), "the texts of codes").await?;
        let rows = selected(std::slice::from_ref(rows));
        let (mask, of, row_group) = (columns.mask(&file.footer), file.clone(), *row_group as usize);
        let look = move |(): &mut (), decoded: &RecordBatch| -> Result<(), ReadError> {
            let texts = columns.arrange(decoded);
            let texts = texts.map_err(|error| ReadError::computed(&of, row_group, error))?;
            for (place, column) in texts.columns().iter().enumerate() {
                let column = views(column).map_err(ReadError::Gather)?;
                // Most rows repeat a text of their own batch: others are held up for few.
                let different: HashSet<&str> = column.iter().flatten().collect();
                found.lock().unwrap_or_else(PoisonError::into_inner).add(place, &different);
            }
            Ok(())
        };
        let scanned = scan(file, row_group, mask, rows, (), look).await;
        scanned.map_err(|e| Error::chain(e.code(), &e))
    }
}

impl Found {
    /// Adds texts of a column, unless there are too many already.
    fn add(&mut self, place: usize, texts: &HashSet<&str>) {
        for &text in texts {
            if self.bytes > MOST_BYTES {
                return;
            }
            if !self.texts[place].contains(text) {
                self.texts[place].insert(text.to_owned());
                self.bytes += text.len() + BESIDE;
            }
        }
    }
}

/// Names the column with most of them.
fn too_many(names: &[String], texts: &[HashSet<String>]) -> Error {
    let bytes = |texts: &HashSet<String>| texts.iter().map(|text| text.len() + BESIDE).sum::<usize>();
    let most = names.iter().zip(texts).max_by_key(|(_, texts)| bytes(texts));
    let (name, texts) = most.map_or(("", 0), |(name, texts)| (name.as_str(), texts.len()));
    let written = sql_name(name);
    let message = format!(
        "the texts of codes={names:?} are more than the {} MiB that a feed is told, {texts} and more of them in \
         column {name:?}: leave it out of codes, or make numbers of it with \
         select=['hash_bucket({written}, 100000) AS {written}']",
        MOST_BYTES >> 20
    );
    Error::new(Code::InvalidFeed, message)
}
