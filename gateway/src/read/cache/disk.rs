//! Decoded chunks on a local disk, behind those in memory.
//!
//! In: chunks that memory does not keep. Out: the same, to whoever is about to decode them. The promise: exact, for what
//! does not come back as it was written is forgotten; nobody waits for a write, and what waits to be written is bounded
//! in bytes; a disk that fails is said once and missed by nobody. Nothing outlives the process.
//!
//! Which chunks stay is decided as for memory ([`Table`]), but before they are written: a disk is worn by what it is
//! given, so a chunk that would drive out what is wanted as often is not.

mod format;
mod shelf;
mod space;
mod store;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::{Arc, mpsc};
use std::thread;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use metrics::counter;
use penstock_daemon::Budget;
use tokio::task::spawn_blocking;

use self::shelf::{Shelf, ShelfError, Shelved};
use self::store::{Piece, Store};
use super::Key;
use super::size::held_bytes;
use super::table::{Grid, Named};
use crate::config::DiskConfig;
use crate::read::cpu;

/// The part of the gateway's memory that chunks may take while they wait to be written, and as much that their names may.
const MEMORY_PART: u64 = 16;
const MOST_QUEUE_BYTES: u64 = 64 << 20;
/// Bytes of disk for one byte of names: a chunk of 320 KiB and more is as large as it is.
const DISK_PART: u64 = 1 << 10;
const LEAST_NAMES_BYTES: u64 = 1 << 20;
/// What a chunk and its part of a block take in memory, about.
const NAME_BYTES: u64 = 320;

/// Chunks on disk, and on their way there.
pub(crate) struct Disk {
    shelf: Arc<Shelf>,
    /// Bytes that may wait; who finds no room is not written.
    queue: Budget,
    /// To the thread that writes. It ends when nothing can come any more.
    writer: mpsc::Sender<(Key, u64)>,
    memory_bytes: u64,
}

impl Disk {
    /// Room on disk for a gateway of so much memory.
    ///
    /// # Errors
    /// When no file can be made in the directory.
    pub(crate) fn open(config: &DiskConfig, memory_bytes: u64) -> io::Result<Self> {
        let part = memory_bytes / MEMORY_PART;
        let names_bytes = (config.bytes / DISK_PART).max(LEAST_NAMES_BYTES).min(part);
        let least_bytes = config.bytes.div_ceil((names_bytes / NAME_BYTES).max(1));
        let store = Store::open(&config.directory, config.bytes)?;
        let mut disk = Self::over(store, config.bytes, least_bytes, part.min(MOST_QUEUE_BYTES))?;
        disk.memory_bytes += names_bytes;
        Ok(disk)
    }

    fn over(store: Arc<Store>, bytes: u64, least_bytes: u64, queue_bytes: u64) -> io::Result<Self> {
        let shelf = Arc::new(Shelf::new(store, bytes, least_bytes));
        let (writer, names) = mpsc::channel();
        let here = Arc::clone(&shelf);
        // A thread of its own, for a write may stand still.
        thread::Builder::new().name("cache-disk".to_owned()).spawn(move || here.keep_all(&names))?;
        Ok(Self { shelf, queue: Budget::new(queue_bytes), writer, memory_bytes: queue_bytes })
    }

    /// What it takes of the gateway's memory, whatever is on disk.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// Streams begin to read a block together.
    pub(super) fn want(&self, key: Key) {
        self.shelf.want(key);
    }

    /// How a block is cut, if any of it is on disk.
    pub(super) fn grid(&self, key: &Key) -> Option<Grid> {
        self.shelf.grid(key)
    }

    pub(super) fn has(&self, key: &Key, index: u64) -> bool {
        self.shelf.has(key, index)
    }

    /// Whether a block is on disk from a chunk on to its end.
    pub(super) fn has_rest(&self, key: &Key, index: u64) -> bool {
        self.shelf.has_rest(key, index)
    }

    /// A chunk that is here.
    pub(super) async fn read(
        &self,
        key: Key,
        grid: Grid,
        index: u64,
        schema: &SchemaRef,
    ) -> Option<RecordBatch> {
        let read = match self.shelf.find(&key, grid, index)? {
            Shelved::Waits(batch) => Ok(batch),
            Shelved::Lies(piece) => read(piece, SchemaRef::clone(schema)).await,
        };
        match read {
            Ok(batch) => {
                counter!("penstock_gateway_cache_disk_hits_total").increment(1);
                Some(batch)
            }
            Err(error) => {
                self.shelf.lose(key, &error);
                None
            }
        }
    }

    /// Has a chunk written if it is worth it, and if there is room to wait in: nobody waits for that.
    pub(super) fn offer(&self, chunk: Named<RecordBatch>) {
        let bytes = held_bytes(&chunk.content);
        if !self.shelf.wants(&chunk, bytes) {
            return;
        }
        // A lease beyond the total would be granted.
        let fits = bytes <= self.queue.total();
        let Some(lease) = fits.then(|| self.queue.try_lease(bytes)).flatten() else {
            counter!("penstock_gateway_cache_disk_dropped_total").increment(1);
            return;
        };
        let name = (chunk.key, chunk.index);
        if self.shelf.wait(chunk, lease) {
            // Where the thread is gone the queue fills, and nothing is kept.
            let _unwritten = self.writer.send(name);
        }
    }
}

/// Waits for the disk on a thread that may wait. Memory is taken, and the batch made of it, on the CPU pool: what idle
/// threads took is not given back to the system for long.
async fn read(piece: Arc<Piece>, schema: SchemaRef) -> Result<RecordBatch, ShelfError> {
    let held = Arc::clone(&piece);
    let bytes = cpu::run(move || held.allocate()).await?;
    let held = Arc::clone(&piece);
    let bytes = spawn_blocking(move || held.read(bytes)).await??;
    let made = cpu::run(move || {
        piece.prove(&bytes)?;
        Ok(format::decode(&bytes, &schema)?)
    });
    made.await?
}

#[cfg(test)]
impl Disk {
    /// One in a file of its own, whose names are not counted.
    pub(crate) fn of(bytes: u64, queue_bytes: u64) -> Self {
        Self::over(Store::over(tempfile::tempfile().unwrap(), bytes), bytes, 1, queue_bytes).unwrap()
    }

    /// One that nothing can be written to.
    pub(crate) fn full(bytes: u64, queue_bytes: u64) -> Self {
        let full = std::fs::File::options().read(true).write(true).open("/dev/full").unwrap();
        Self::over(Store::over(full, bytes), bytes, 1, queue_bytes).unwrap()
    }

    pub(crate) fn damage(&self) {
        self.shelf.store().damage();
    }

    pub(crate) fn cut(&self) {
        self.shelf.store().cut();
    }

    /// Waits until nothing waits to be written.
    pub(crate) async fn settled(&self) {
        self.queue.lease(self.queue.total()).await;
    }
}
