//! Decoded blocks, kept for whoever wants them next.
//!
//! In: chunks of blocks as streams decode them. Out: the same chunks, to every stream of the same content. The
//! promise: exact, for a name stands for a snapshot's rows under one projection and filter; what it holds is lent
//! by the gateway's budget, and given back as soon as a stream wants it. It decodes nothing and waits for nobody.

mod frequency;
mod size;
mod table;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arrow::record_batch::RecordBatch;
use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use penstock_daemon::{Borrower, Budget, Loan};
use sha2::{Digest as _, Sha256};

use self::size::held_bytes;
pub(super) use self::table::Grid;
use self::table::Table;

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
    /// A cache of at most so many bytes of the budget's.
    pub(super) fn new(budget: &Budget, bytes: u64) -> Arc<Self> {
        let cache = Arc::new(Self { budget: budget.clone(), table: Mutex::new(Table::new(bytes)) });
        let borrower: Weak<dyn Borrower> = Arc::<Self>::downgrade(&cache);
        budget.lends_to(borrower);
        cache
    }

    /// Streams begin to read a block together.
    pub(super) fn want(&self, key: Key) {
        self.table().want(key);
    }

    /// How a block is cut, if any of it is here.
    pub(super) fn grid(&self, key: &Key) -> Option<Grid> {
        self.table().grid(key)
    }

    pub(super) fn has(&self, key: &Key, index: u64) -> bool {
        self.table().get(key, index).is_some()
    }

    pub(super) fn get(&self, key: &Key, index: u64) -> Option<RecordBatch> {
        let found = self.table().get(key, index).map(|held| held.batch.clone());
        if found.is_some() {
            counter!("penstock_gateway_cache_hits_total").increment(1);
        }
        found
    }

    /// Keeps a chunk as far as there is room. The batch must own its memory: what it shares is counted as its own.
    pub(super) fn put(&self, key: Key, grid: Grid, index: u64, batch: &RecordBatch) {
        let bytes = held_bytes(batch);
        // Loans are taken under the lock alone, so that whoever calls them in finds them.
        let mut table = self.table();
        if table.get(&key, index).is_some() || !table.make_room(bytes) {
            return;
        }
        let lent = self.budget.lend(bytes).or_else(|| {
            // Newer blocks for older ones; what streams hold is not the cache's to have.
            table.shrink(bytes).then(|| self.budget.lend(bytes)).flatten()
        });
        if let Some(loan) = lent {
            table.put(key, grid, index, bytes, Held { batch: batch.clone(), _loan: loan });
        }
        tell(&table);
    }

    fn table(&self) -> MutexGuard<'_, Table<Held>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Borrower for Cache {
    fn give_back(&self, bytes: u64) -> bool {
        let mut table = self.table();
        let gave = table.shrink(bytes);
        tell(&table);
        gave
    }
}

fn tell(table: &Table<Held>) {
    gauge!("penstock_gateway_cache_bytes").set(table.bytes() as f64);
}
