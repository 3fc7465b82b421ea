//! How many rows of every block pass a filter.
//!
//! In: a snapshot and a filter. Out: a number a block, from which the plan is as exact as without a filter. The
//! promise: the numbers are a pure function of snapshot and filter; only the filter's columns are read, within
//! the gateway's memory, and no block whose statistics decide; a pass that was given up goes on where it
//! stopped, and many who ask at once cause one. It knows no order and no rank. Beside it, which texts there are
//! in a column ([`vocabulary`]).

mod bloom;
mod bounds;
mod leaf;
mod nulls;
mod pages;
mod state;
#[cfg(test)]
mod tests;
mod vocabulary;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use penstock_daemon::{Budget, Lease};
use penstock_proto::{Code, Error, SnapshotId};
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;

pub use self::nulls::nulls;
pub(crate) use self::nulls::told_nulls;
use self::pages::Left;
pub use self::state::{State, StateError};
use crate::dataset::{Block, Filter, Snapshot};
use crate::read::{decoding_bytes, passing, selected};

/// Filters whose counts are kept: a few feeds in training.
const KEPT: usize = 32;
/// Files whose statistics are asked for at once, as many as footers.
const CONCURRENT_FILES: usize = 16;
/// What counting a block holds beside its bytes and pages: a decoded batch.
const BATCH_BYTES: u64 = 2 << 20;
/// No number of rows.
const UNKNOWN: u64 = u64::MAX;

/// Counts blocks, once for all who ask.
pub struct Counter {
    budget: Budget,
    /// How long a block waits for its share of the budget.
    patience: Duration,
    state: Option<State>,
    /// The latest last.
    kept: Mutex<VecDeque<Arc<Entry>>>,
    /// The latest last.
    vocabularies: vocabulary::Kept,
}

/// How many rows of every block of a snapshot pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// One a block, in the order of blocks.
    pub rows: Arc<[u64]>,
    /// SHA-256 of the numbers, in lower-case hex.
    pub digest: String,
}

/// How a block's number was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Blocks of which no row passes, as their statistics tell.
    pub none: u64,
    /// Blocks of which every row passes, as their statistics tell.
    pub all: u64,
    /// Blocks that were read, as far as statistics of their pages left anything open.
    pub read: u64,
    /// Rows of these that were decoded.
    pub decoded: u64,
}

/// A filter over a snapshot, being counted or counted.
struct Entry {
    snapshot: SnapshotId,
    filter: String,
    /// What is known so far, one a block.
    known: Vec<AtomicU64>,
    done: OnceCell<(Counts, Tally)>,
}

impl Counter {
    pub fn new(budget: Budget, patience: Duration, state: Option<State>) -> Self {
        Self { budget, patience, state, kept: Mutex::default(), vocabularies: Mutex::default() }
    }

    /// The counts of a filter over a snapshot, and what finding them took: nothing, where they were kept.
    ///
    /// # Errors
    /// When a block cannot be read, or no memory is free in time.
    pub async fn count(
        &self,
        snapshot: &Arc<Snapshot>,
        filter: &Arc<Filter>,
    ) -> Result<(Counts, Tally), Error> {
        let entry = self.entry(snapshot, filter);
        entry.done.get_or_try_init(|| self.find(&entry, snapshot, filter)).await.cloned()
    }

    fn entry(&self, snapshot: &Snapshot, filter: &Filter) -> Arc<Entry> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_wanted = |entry: &Arc<Entry>| entry.snapshot == snapshot.id && entry.filter == filter.text();
        if let Some(entry) = kept.iter().find(|entry| is_wanted(entry)) {
            return Arc::clone(entry);
        }
        let entry = Arc::new(Entry {
            snapshot: snapshot.id.clone(),
            filter: filter.text().to_owned(),
            known: snapshot.blocks.iter().map(|_| AtomicU64::new(UNKNOWN)).collect(),
            done: OnceCell::new(),
        });
        kept.push_back(Arc::clone(&entry));
        if kept.len() > KEPT {
            kept.pop_front();
        }
        entry
    }

    async fn find(
        &self,
        entry: &Entry,
        snapshot: &Arc<Snapshot>,
        filter: &Arc<Filter>,
    ) -> Result<(Counts, Tally), Error> {
        if let Some(state) = &self.state
            && let Some(counts) = state.load(snapshot, filter).await
        {
            return Ok((counts, Tally::default()));
        }
        let tally = self.pass(entry, snapshot, filter).await?;
        let counts = Counts::new(entry.known.iter().map(|known| known.load(Ordering::Relaxed)).collect());
        tracing::info!(snapshot = %snapshot.id, filter = filter.text(), rows = counts.total(),
            of = snapshot.rows(), none = tally.none, all = tally.all, read = tally.read, "counted");
        if let Some(state) = &self.state {
            state.store(snapshot, filter, &counts).await;
        }
        Ok((counts, tally))
    }

    /// Statistics file by file, then the blocks that they left open.
    async fn pass(
        &self,
        entry: &Entry,
        snapshot: &Arc<Snapshot>,
        filter: &Arc<Filter>,
    ) -> Result<Tally, Error> {
        let mut tally = Tally::default();
        // Collected first: a stream that maps borrows is not seen to be `Send`.
        let looks: Vec<_> = blocks_by_file(&snapshot.blocks)
            .into_iter()
            .map(|blocks| async move { (blocks.clone(), bounds::look(snapshot, blocks, filter).await) })
            .collect();
        let mut looks = futures::stream::iter(looks).buffered(CONCURRENT_FILES);
        let mut open = Vec::new();
        while let Some((blocks, left)) = looks.next().await {
            for (block, left) in blocks.zip(left) {
                let Range { start, end } = snapshot.blocks[block].rows;
                if !left.rows.is_empty() {
                    open.push((block, left));
                    continue;
                }
                match left.certain {
                    0 => tally.none += 1,
                    certain if certain == end - start => tally.all += 1,
                    _ => tally.read += 1,
                }
                entry.known[block].store(left.certain, Ordering::Relaxed);
            }
        }
        let counts: Vec<_> = open
            .into_iter()
            .filter(|&(block, _)| entry.known[block].load(Ordering::Relaxed) == UNKNOWN)
            .map(|(block, left)| self.block(entry, snapshot, block, left, filter))
            .collect();
        let at_once = available_parallelism().map_or(4, |cores| 2 * cores.get());
        let counts: Vec<Tally> =
            futures::stream::iter(counts).buffer_unordered(at_once).try_collect().await?;
        for Tally { none, read, decoded, .. } in counts {
            tally.none += none;
            tally.read += read;
            tally.decoded += decoded;
        }
        Ok(tally)
    }

    /// Counts what is left of a block.
    async fn block(
        &self,
        entry: &Entry,
        snapshot: &Snapshot,
        block: usize,
        left: Left,
        filter: &Arc<Filter>,
    ) -> Result<Tally, Error> {
        let Block { file, row_group, .. } = &snapshot.blocks[block];
        let (file, row_group) = (&snapshot.files[*file as usize], *row_group as usize);
        let _lease = self.lease(snapshot, block, &filter.leaves(&file.footer), "the filter's rows").await?;
        if left.certain == 0 && bloom::rules_out(file, row_group, filter).await {
            entry.known[block].store(0, Ordering::Relaxed);
            return Ok(Tally { none: 1, ..Tally::default() });
        }
        let passes = passing(file, row_group, selected(&left.rows), filter).await;
        let passes = passes.map_err(|e| Error::chain(e.code(), &e))?;
        entry.known[block].store(left.certain + passes.count_set_bits() as u64, Ordering::Relaxed);
        Ok(Tally { read: 1, decoded: passes.len() as u64, ..Tally::default() })
    }

    /// What reading some leaf columns of a block takes.
    async fn lease(
        &self,
        snapshot: &Snapshot,
        block: usize,
        leaves: &[usize],
        what: &str,
    ) -> Result<Lease, Error> {
        let block = &snapshot.blocks[block];
        let footer = &snapshot.files[block.file as usize].footer;
        let row_group = block.row_group as usize;
        let held = leaves.iter().map(|&leaf| decoding_bytes(footer, row_group, leaf, &block.rows));
        let bytes = held.fold(BATCH_BYTES, u64::saturating_add);
        tokio::time::timeout(self.patience, self.budget.lease(bytes)).await.map_err(|_| {
            let seconds = self.patience.as_secs();
            let message = format!(
                "{what} must be counted, and too little memory became free for it within {seconds} s: \
                 try again, or give the gateway more --memory"
            );
            Error::new(Code::Busy, message)
        })
    }
}

impl Counts {
    fn new(rows: Arc<[u64]>) -> Self {
        let mut hash = Sha256::new_with_prefix("penstock counts 1");
        rows.iter().for_each(|rows| hash.update(rows.to_le_bytes()));
        let digest = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Self { rows, digest }
    }

    /// Rows that pass.
    pub fn total(&self) -> u64 {
        self.rows.iter().sum()
    }
}

/// Blocks lie in the order of files.
fn blocks_by_file(blocks: &[Block]) -> Vec<Range<usize>> {
    let mut start = 0;
    blocks
        .chunk_by(|a, b| a.file == b.file)
        .map(|chunk| {
            let range = start..start + chunk.len();
            start = range.end;
            range
        })
        .collect()
}
