//! Decoded blocks, kept for whoever wants them next.
//!
//! In: chunks of blocks as streams decode them. Out: the same chunks, to every stream of the same content. The
//! promise: exact, for a name stands for a snapshot's rows under one projection and filter; what it holds is lent
//! by the gateway's budget, and given back as soon as a stream wants it. What memory does not keep goes to a disk, where
//! there is one. It decodes nothing, and waits for nothing but what a disk gives back.

mod disk;
mod frequency;
mod size;
mod table;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use penstock_daemon::{Borrower, Budget, Loan};
use sha2::{Digest as _, Sha256};

pub(crate) use self::disk::Disk;
pub(super) use self::size::held_bytes;
pub(super) use self::table::Grid;
use self::table::{Named, Table};

/// Rows of a snapshot as a feed sees them: columns, computed columns, filter.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Content([u8; 16]);

/// A block's name in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) content: Content,
    /// Its number in the snapshot.
    pub(super) block: u32,
    /// The power of two below the rows of a chunk: streams whose batches differ much do not share.
    pub(super) class: u8,
}

pub(super) struct Cache {
    budget: Budget,
    table: Mutex<Table<Held>>,
    disk: Option<Disk>,
}

/// A chunk and the memory it is in.
struct Held {
    batch: RecordBatch,
    // Given back last.
    _loan: Loan,
}

/// Says once what the names mean.
pub(crate) fn describe() {
    describe_counter!("penstock_gateway_cache_hits_total", Unit::Count, "Batches found decoded");
    describe_counter!("penstock_gateway_cache_misses_total", Unit::Count, "Batches that had to be decoded");
    describe_counter!(
        "penstock_gateway_cache_shared_total",
        Unit::Count,
        "Batches that another stream was decoding, and that were waited for"
    );
    describe_gauge!(
        "penstock_gateway_decode_cpu_seconds_total",
        Unit::Seconds,
        "CPU seconds that decoding took, computed columns included"
    );
    describe_gauge!(
        "penstock_gateway_cache_bytes",
        Unit::Bytes,
        "Bytes of --memory that hold decoded blocks; streams that want them get them"
    );
    describe_gauge!(
        "penstock_gateway_cache_disk_bytes",
        Unit::Bytes,
        "Bytes of --cache-disk that hold decoded blocks"
    );
    describe_counter!("penstock_gateway_cache_disk_hits_total", Unit::Count, "Batches found on disk");
    describe_counter!(
        "penstock_gateway_cache_disk_written_bytes_total",
        Unit::Bytes,
        "Bytes of decoded blocks written to disk"
    );
    describe_counter!(
        "penstock_gateway_cache_disk_dropped_total",
        Unit::Count,
        "Batches that were not written because the disk was behind"
    );
    describe_counter!(
        "penstock_gateway_cache_disk_failures_total",
        Unit::Count,
        "Batches that could not be written to disk, or did not come back as they were"
    );
}

impl Content {
    /// `text` says all that there is to know of the rows.
    pub(crate) fn of(text: &str) -> Self {
        let hash = Sha256::digest(text);
        let mut short = [0; 16];
        short.copy_from_slice(&hash[..16]);
        Self(short)
    }
}

impl Key {
    /// The names under which a block may be cut into chunks of about so many rows, the best first.
    pub(super) fn near(content: Content, block: u32, chunk_rows: u64) -> impl Iterator<Item = Self> {
        let own = chunk_rows.max(1).ilog2();
        let classes = [Some(own), own.checked_sub(1), Some(own + 1)];
        classes.into_iter().flatten().map(move |class| Self { content, block, class: class as u8 })
    }
}

impl Cache {
    /// A cache of at most so many bytes of the budget's, and of a disk.
    pub(super) fn new(budget: &Budget, bytes: u64, disk: Option<Disk>) -> Arc<Self> {
        let cache = Arc::new(Self { budget: budget.clone(), table: Mutex::new(Table::new(bytes)), disk });
        let borrower: Weak<dyn Borrower> = Arc::<Self>::downgrade(&cache);
        budget.lends_to(borrower);
        cache
    }

    /// Streams begin to read a block together.
    pub(super) fn want(&self, key: Key) {
        self.table().want(key);
        self.disk.iter().for_each(|disk| disk.want(key));
    }

    /// How a block is cut, if any of it is here.
    pub(super) fn grid(&self, key: &Key) -> Option<Grid> {
        let grid = self.table().grid(key);
        grid.or_else(|| self.disk.as_ref()?.grid(key))
    }

    pub(super) fn has(&self, key: &Key, index: u64) -> bool {
        let is_in_memory = self.table().get(key, index).is_some();
        is_in_memory || self.disk.as_ref().is_some_and(|disk| disk.has(key, index))
    }

    /// A chunk that is in memory.
    pub(super) fn get(&self, key: &Key, index: u64) -> Option<RecordBatch> {
        let found = self.table().get(key, index).map(|held| held.batch.clone());
        if found.is_some() {
            counter!("penstock_gateway_cache_hits_total").increment(1);
        }
        found
    }

    /// A chunk that is on disk. Who has a decoder that stands before it decodes on, unless it would be left for good.
    pub(super) async fn read(
        &self,
        key: Key,
        grid: Grid,
        index: u64,
        schema: &SchemaRef,
        has_decoder: bool,
    ) -> Option<RecordBatch> {
        let disk = self.disk.as_ref()?;
        if has_decoder && !disk.has_rest(&key, index) {
            return None;
        }
        disk.read(key, grid, index, schema).await
    }

    /// Keeps a chunk as far as there is room. The batch must own its memory: what it shares is counted as its own.
    pub(super) fn put(&self, key: Key, grid: Grid, index: u64, batch: &RecordBatch) {
        let bytes = held_bytes(batch);
        // Loans are taken under the lock alone, so that whoever calls them in finds them.
        let mut table = self.table();
        if table.get(&key, index).is_some() {
            return;
        }
        let content = batch.clone();
        if let Some(loan) = self.borrow(&mut table, bytes) {
            table.put(key, grid, index, bytes, Held { batch: content, _loan: loan });
        } else if let Some(disk) = &self.disk {
            disk.offer(Named { key, grid, index, content });
        }
        tell(&table);
    }

    /// Newer blocks for older ones; what streams hold is not the cache's to have.
    fn borrow(&self, table: &mut Table<Held>, bytes: u64) -> Option<Loan> {
        let has_room = table.make_room(bytes);
        self.let_go(table);
        if !has_room {
            return None;
        }
        self.budget.lend(bytes).or_else(|| {
            let gave = table.shrink(bytes);
            self.let_go(table);
            gave.then(|| self.budget.lend(bytes)).flatten()
        })
    }

    /// Gives back the memory of what left, and offers that to the disk.
    fn let_go(&self, table: &mut Table<Held>) {
        for Named { key, grid, index, content: Held { batch, _loan } } in table.take_left() {
            if let Some(disk) = &self.disk {
                disk.offer(Named { key, grid, index, content: batch });
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table<Held>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl Cache {
    pub(super) fn disk(&self) -> &Disk {
        self.disk.as_ref().unwrap()
    }
}

impl Borrower for Cache {
    fn give_back(&self, bytes: u64) -> bool {
        let mut table = self.table();
        let gave = table.shrink(bytes);
        self.let_go(&mut table);
        tell(&table);
        gave
    }
}

fn tell(table: &Table<Held>) {
    gauge!("penstock_gateway_cache_bytes").set(table.bytes() as f64);
}
