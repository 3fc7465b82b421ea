//! What footers hold of a gateway's memory.
//!
//! In: a budget, and footers as they are read. Out: a hold a footer, for as long as anybody has it. The promise: the
//! budget is smaller by what all footers take together, but for a little that is beside it; footers that would leave too
//! little for streams are refused before they are kept. It knows no file.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::gauge;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use penstock_daemon::{Aside, Budget};

use super::DatasetError;

/// Bytes of footers that are no part of the budget: they are most datasets'.
const BESIDE_BYTES: u64 = 16 << 20;
/// Set aside at a time, at least.
const CHUNK_BYTES: u64 = 1 << 20;

/// The memory that the footers of all datasets of a gateway share. Clones are the same.
#[derive(Clone)]
pub(crate) struct FooterMemory(Arc<Inner>);

struct Inner {
    budget: Budget,
    /// That of the budget when nothing was set aside.
    memory_bytes: u64,
    beside_bytes: u64,
    patience: Duration,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    bytes: u64,
    aside: Vec<Aside>,
}

/// A footer's bytes, counted.
pub(super) struct Hold {
    bytes: u64,
    of: FooterMemory,
}

impl FooterMemory {
    /// Whoever waits for memory does so for `patience`.
    pub(crate) fn new(budget: &Budget, patience: Duration) -> Self {
        Self::beside(budget, BESIDE_BYTES, patience)
    }

    pub(super) fn beside(budget: &Budget, beside_bytes: u64, patience: Duration) -> Self {
        let (budget, memory_bytes) = (budget.clone(), budget.total());
        Self(Arc::new(Inner { budget, memory_bytes, beside_bytes, patience, held: Mutex::default() }))
    }

    /// Takes in a footer.
    ///
    /// # Errors
    /// When all of them are too much, or memory does not become free.
    pub(super) async fn hold(&self, footer: &ArrowReaderMetadata) -> Result<Hold, DatasetError> {
        let bytes = bytes_of(footer);
        self.held().bytes += bytes;
        // Counted from here on, and given back if it comes to nothing.
        let hold = Hold { bytes, of: self.clone() };
        let Inner { budget, memory_bytes, beside_bytes, patience, .. } = self.0.as_ref();
        loop {
            let (wanted, aside) = {
                let held = self.held();
                (held.bytes.saturating_sub(*beside_bytes), held.aside_bytes())
            };
            if wanted > most(*memory_bytes) {
                return Err(DatasetError::Footers {
                    footers_mib: mib(wanted),
                    memory_mib: mib(*memory_bytes),
                    most_mib: mib(most(*memory_bytes)),
                });
            }
            if wanted <= aside {
                gauge!("penstock_gateway_footer_bytes").set(self.held().bytes as f64);
                return Ok(hold);
            }
            let more = (wanted - aside).max(CHUNK_BYTES.min(budget.total() / 4));
            let more = tokio::time::timeout(*patience, budget.set_aside(more)).await;
            let more = more.map_err(|_| DatasetError::NoRoom { seconds: patience.as_secs() })?;
            self.held().aside.push(more);
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn aside_bytes(&self) -> u64 {
        self.aside.iter().map(Aside::bytes).sum()
    }

    /// Gives back what is not needed any more, in whole pieces.
    fn settle(&mut self, beside_bytes: u64) {
        let mut spare = self.aside_bytes().saturating_sub(self.bytes.saturating_sub(beside_bytes));
        self.aside.retain(|aside| {
            let goes = aside.bytes() <= spare;
            spare -= if goes { aside.bytes() } else { 0 };
            !goes
        });
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.of.held();
        held.bytes -= self.bytes;
        held.settle(self.of.0.beside_bytes);
        gauge!("penstock_gateway_footer_bytes").set(held.bytes as f64);
    }
}

/// What streams do without, at most.
fn most(memory_bytes: u64) -> u64 {
    memory_bytes / 4 * 3
}

/// The footer as it lies in memory, and the schema that was made of it, in two forms.
fn bytes_of(footer: &ArrowReaderMetadata) -> u64 {
    (footer.metadata().memory_size() + 2 * footer.schema().fields().size()) as u64
}

fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}
