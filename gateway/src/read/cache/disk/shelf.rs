//! What is on disk by name, and what waits to be.
//!
//! In: chunks to be written, one after the other on a thread that may wait for the disk. Out: for a name, where the
//! chunk lies, or the chunk that waits. The promise: a name is never without its chunk on its way from memory to disk;
//! no lock is held while a disk is waited for; what goes wrong is said in the log once.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use metrics::{counter, gauge};
use penstock_daemon::Lease;
use tokio::task::JoinError;

use super::format;
use super::space::rounded;
use super::store::{LostError, Piece, Store};
use crate::read::cache::Key;
use crate::read::cache::table::{Grid, Named, Table};
use crate::read::cpu::Panicked;

pub(super) struct Shelf {
    store: Arc<Store>,
    state: Mutex<State>,
    /// A chunk counts as no less, so that names are bounded, too.
    least_bytes: u64,
    /// A write failed, and none is tried again.
    is_shut: AtomicBool,
    /// A chunk did not come back, and it was said.
    has_lost: AtomicBool,
}

struct State {
    table: Table<Arc<Piece>>,
    waiting: HashMap<(Key, u64), Waiting>,
}

/// A chunk that waits to be written.
struct Waiting {
    grid: Grid,
    batch: RecordBatch,
    // Given back last.
    _lease: Lease,
}

/// Where a chunk is.
pub(super) enum Shelved {
    Waits(RecordBatch),
    Lies(Arc<Piece>),
}

/// Why a chunk is not on disk, or no longer.
#[derive(Debug, thiserror::Error)]
pub(super) enum ShelfError {
    #[error("cannot write a chunk")]
    Write(#[source] io::Error),
    #[error("a chunk does not come back")]
    Lost(#[from] LostError),
    #[error("a chunk is no batch")]
    Batch(#[from] ArrowError),
    #[error("reading a chunk was broken off")]
    Broken(#[from] JoinError),
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl Shelf {
    pub(super) fn new(store: Arc<Store>, bytes: u64, least_bytes: u64) -> Self {
        Self {
            store,
            state: Mutex::new(State { table: Table::new(bytes), waiting: HashMap::new() }),
            least_bytes,
            is_shut: AtomicBool::new(false),
            has_lost: AtomicBool::new(false),
        }
    }

    pub(super) fn want(&self, key: Key) {
        self.state().table.want(key);
    }

    pub(super) fn grid(&self, key: &Key) -> Option<Grid> {
        self.state().table.grid(key)
    }

    pub(super) fn has(&self, key: &Key, index: u64) -> bool {
        let state = self.state();
        state.table.get(key, index).is_some() || state.waiting.contains_key(&(*key, index))
    }

    pub(super) fn has_rest(&self, key: &Key, index: u64) -> bool {
        self.state().table.has_rest(key, index)
    }

    /// A chunk of a block that is cut so: what waited when the block was opened may be cut in another way.
    pub(super) fn find(&self, key: &Key, grid: Grid, index: u64) -> Option<Shelved> {
        let state = self.state();
        if let Some(waiting) = state.waiting.get(&(*key, index)) {
            return (waiting.grid == grid).then(|| Shelved::Waits(waiting.batch.clone()));
        }
        let lies = state.table.get(key, index).filter(|_| state.table.grid(key) == Some(grid));
        lies.map(|piece| Shelved::Lies(Arc::clone(piece)))
    }

    /// Whether a chunk that holds so many bytes is worth being written.
    pub(super) fn wants(&self, chunk: &Named<RecordBatch>, bytes: u64) -> bool {
        let mut state = self.state();
        let is_here = state.waiting.contains_key(&(chunk.key, chunk.index));
        !self.is_shut.load(Ordering::Relaxed)
            && !is_here
            && state.table.get(&chunk.key, chunk.index).is_none()
            && state.table.is_worth(&chunk.key, self.counted(bytes))
    }

    /// Lets a chunk wait; false if it does already.
    pub(super) fn wait(&self, chunk: Named<RecordBatch>, lease: Lease) -> bool {
        let Named { key, grid, index, content: batch } = chunk;
        let waiting = Waiting { grid, batch, _lease: lease };
        let mut state = self.state();
        let is_new = !state.waiting.contains_key(&(key, index));
        if is_new {
            state.waiting.insert((key, index), waiting);
        }
        is_new
    }

    /// Writes what waits by the names that come, one after the other.
    pub(super) fn keep_all(&self, names: &mpsc::Receiver<(Key, u64)>) {
        for (key, index) in names {
            let found =
                self.state().waiting.get(&(key, index)).map(|found| (found.grid, found.batch.clone()));
            if let Some((grid, content)) = found
                && !self.is_shut.load(Ordering::Relaxed)
            {
                match self.keep(&Named { key, grid, index, content }) {
                    Ok(()) => {}
                    Err(ShelfError::Write(error)) => self.shut(&error),
                    Err(error) => self.lose(key, &error),
                }
            }
            let waited = self.state().waiting.remove(&(key, index));
            drop(waited);
        }
    }

    fn keep(&self, chunk: &Named<RecordBatch>) -> Result<(), ShelfError> {
        let buffers = format::encode(&chunk.content)?;
        let bytes = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        if !self.make_room(&chunk.key, bytes) {
            return Ok(());
        }
        // There is none where a piece that left is still being read.
        let Some(piece) = self.store.write(&buffers).map_err(ShelfError::Write)? else { return Ok(()) };
        counter!("penstock_gateway_cache_disk_written_bytes_total").increment(bytes);
        let Named { key, grid, index, .. } = *chunk;
        // Nobody but this thread takes room.
        self.change(|table| table.put(key, grid, index, self.counted(bytes), Arc::new(piece)));
        Ok(())
    }

    /// Others may have come since a chunk was worth it.
    fn make_room(&self, key: &Key, bytes: u64) -> bool {
        let bytes = self.counted(bytes);
        self.change(|table| table.is_worth(key, bytes) && table.make_room(bytes))
    }

    /// What is here stays, and nothing comes to it.
    fn shut(&self, error: &io::Error) {
        counter!("penstock_gateway_cache_disk_failures_total").increment(1);
        self.is_shut.store(true, Ordering::Relaxed);
        let error = error as &dyn std::error::Error;
        tracing::warn!(
            error,
            "the decoded cache writes no more to --cache-dir: make room there or mend it, and start the gateway again"
        );
    }

    /// A block is not to be had from here. Said of the first, for others will follow.
    pub(super) fn lose(&self, key: Key, error: &ShelfError) {
        counter!("penstock_gateway_cache_disk_failures_total").increment(1);
        if !self.has_lost.swap(true, Ordering::Relaxed) {
            let error = error as &dyn std::error::Error;
            tracing::warn!(error, "blocks that --cache-dir does not give back are decoded again");
        }
        self.change(|table| table.forget(key));
    }

    fn change<T>(&self, change: impl FnOnce(&mut Table<Arc<Piece>>) -> T) -> T {
        let mut state = self.state();
        let changed = change(&mut state.table);
        drop(state.table.take_left());
        gauge!("penstock_gateway_cache_disk_bytes").set(state.table.bytes() as f64);
        changed
    }

    fn counted(&self, bytes: u64) -> u64 {
        rounded(bytes.max(self.least_bytes))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl Shelf {
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// How many chunks there may be by so many bytes.
    pub(super) fn most_chunks(&self, bytes: u64) -> u64 {
        bytes / self.counted(1)
    }
}
