//! A stream's share of the gateway's memory.
//!
//! In: what the stream needs. Out: leases that cover it, how many windows beyond they pay for, and room for bytes
//! that come before their turn. The promise: nothing is read before it is paid for; who cannot be served in time
//! is told the numbers. A stream of several datasets leases for all of them at once: one that held a part and
//! waited for the rest would wait for those that do the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::gauge;
use penstock_daemon::{Budget, Lease};
use penstock_proto::{Code, Error};

use super::Need;

/// Leases are rounded up to this.
const LEASE_UNIT: u64 = 1 << 10;
const LEASED: &str = "penstock_gateway_budget_bytes";

/// Room for bytes that come before their turn, beyond what was foreseen, or lent. Given back on drop.
pub(crate) struct Room {
    lease: Told,
    // Given back last: what a stream is said to hold is never less than what it holds.
    _counted: Counted,
}

/// A lease that metrics tell of for as long as it is held.
struct Told(Lease);

/// Bytes that count as the stream's.
struct Counted {
    bytes: u64,
    all: Arc<AtomicU64>,
}

/// What a stream may hold for one dataset. Given back on drop.
pub(crate) struct Share {
    leases: Vec<Told>,
    /// Bytes that the stream holds, for all its datasets and as room.
    held: Arc<AtomicU64>,
    budget: Budget,
    need: Need,
    /// Bytes that the stream cannot do without, for all its datasets.
    stream_bytes: u64,
    /// Bytes that it leaves to others where it can do without.
    left_bytes: u64,
    patience: Duration,
}

impl Share {
    /// Waits at most `patience` for what a stream cannot do without; takes windows to decode ahead only
    /// as far as others still find [room](left), and this one `spare` bytes. A share for every need.
    pub(crate) async fn lease(
        budget: &Budget,
        needs: &[Need],
        spare: u64,
        patience: Duration,
    ) -> Result<Vec<Self>, Error> {
        let stream_bytes = needs.iter().map(|need| need.bytes).fold(0, u64::saturating_add);
        let base = tokio::time::timeout(patience, budget.lease(stream_bytes)).await;
        let mut base = base.map_err(|_| busy(budget, stream_bytes, patience))?;
        let held = Arc::new(AtomicU64::new(0));
        let left_bytes = left(budget.total(), stream_bytes);
        let share = |need: &Need| Self {
            leases: vec![Told::new(base.split(need.bytes))],
            held: Arc::clone(&held),
            budget: budget.clone(),
            need: need.clone(),
            stream_bytes,
            left_bytes,
            patience,
        };
        let mut shares: Vec<Self> = needs.iter().map(share).collect();
        // One window each in turn, so that none is ahead of all others.
        let most = needs.iter().map(|need| need.lanes).max().unwrap_or(0);
        for ahead in 0..most {
            let behind = shares.iter_mut().filter(|share| ahead < share.need.lanes);
            behind.for_each(|share| share.lease_window(spare));
        }
        let all = shares.iter().flat_map(|share| &share.leases).map(|lease| lease.0.bytes()).sum();
        held.store(all, Ordering::SeqCst);
        Ok(shares)
    }

    /// Reading ahead must not keep others out.
    fn lease_window(&mut self, spare: u64) {
        let window = self.need.window_bytes;
        let free = self.budget.total() - self.budget.leased();
        if window > 0 && free >= self.left_bytes.saturating_add(window).saturating_add(spare) {
            self.leases.extend(self.budget.try_lease(window).map(Told::new));
        }
    }

    /// What a stream of one dataset cannot do without, without waiting, and only as far as another stream like it
    /// would still find room.
    pub(crate) fn spare(budget: &Budget, need: &Need, patience: Duration) -> Result<Self, Error> {
        let is_spare = budget.total() - budget.leased() >= need.bytes.saturating_mul(2);
        let base = is_spare.then(|| budget.try_lease(need.bytes)).flatten();
        let base = base.ok_or_else(|| busy(budget, need.bytes, Duration::ZERO))?;
        Ok(Self {
            held: Arc::new(AtomicU64::new(base.bytes())),
            leases: vec![Told::new(base)],
            budget: budget.clone(),
            need: need.clone(),
            stream_bytes: need.bytes,
            left_bytes: need.bytes,
            patience,
        })
    }

    /// The sizes that were leased for.
    pub(crate) fn need(&self) -> &Need {
        &self.need
    }

    /// Windows that lanes may decode ahead.
    pub(crate) fn spare_windows(&self) -> usize {
        self.leases.len() - 1
    }

    /// Room to send for bytes before their turn, as far as others still find [room](left).
    pub(crate) fn room(&self, bytes: u64) -> Option<Room> {
        let free = self.budget.total() - self.budget.leased();
        if free < self.left_bytes.saturating_add(bytes) {
            return None;
        }
        self.try_room(bytes)
    }

    /// Room to lend bytes to the stream's reader, unless that alone would keep out another stream like this one.
    pub(crate) fn room_to_lend(&self, bytes: u64) -> Option<Room> {
        let free = self.budget.total() - self.budget.leased();
        let keeps_out = (self.stream_bytes..self.stream_bytes.saturating_add(bytes)).contains(&free);
        if free < bytes || keeps_out { None } else { self.try_room(bytes) }
    }

    /// Room for what a window turned out to hold beyond what footers told. A stream that runs alone may
    /// go beyond the budget, as it may from its beginning.
    pub(crate) async fn excess(&self, window_bytes: u64) -> Result<Option<Room>, Error> {
        // A window's first and last batch may reach beyond it.
        let told = self.need.window_bytes.saturating_add(2 * self.need.batch_bytes);
        let excess = window_bytes.saturating_sub(told);
        if excess == 0 {
            return Ok(None);
        }
        if let Some(room) = self.try_room(excess) {
            return Ok(Some(room));
        }
        if self.held.load(Ordering::SeqCst) >= self.budget.leased() {
            return Ok(None);
        }
        let waited = tokio::time::timeout(self.patience, self.budget.lease(excess)).await;
        let lease = waited.map_err(|_| {
            let message = format!(
                "a shuffle window holds {} where the footers told {}, and others hold the rest of the {}: try \
                 again, lower shuffle_bytes, or give the gateway more --memory",
                mib(window_bytes),
                mib(told),
                mib(self.budget.total())
            );
            Error::new(Code::Busy, message)
        })?;
        let counted = Counted::new(lease.bytes(), &self.held);
        Ok(Some(Room { lease: Told::new(lease), _counted: counted }))
    }

    fn try_room(&self, bytes: u64) -> Option<Room> {
        let bytes = bytes.max(1).next_multiple_of(LEASE_UNIT);
        // Counted first: who asks meanwhile whether the stream is alone must not take this for another's.
        let counted = Counted::new(bytes, &self.held);
        Some(Room { lease: Told::new(self.budget.try_lease(bytes)?), _counted: counted })
    }
}

impl Room {
    pub(crate) fn bytes(&self) -> u64 {
        self.lease.0.bytes()
    }
}

impl Counted {
    fn new(bytes: u64, all: &Arc<AtomicU64>) -> Self {
        all.fetch_add(bytes, Ordering::SeqCst);
        Self { bytes, all: Arc::clone(all) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

impl Told {
    fn new(lease: Lease) -> Self {
        gauge!(LEASED).increment(lease.bytes() as f64);
        Self(lease)
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        gauge!(LEASED).decrement(self.0.bytes() as f64);
    }
}

/// What a stream leaves to others of what it could go ahead with: enough for another one like it, which waits for this one to
/// end otherwise; or where there is no room for two, half of the rest.
fn left(total: u64, stream_bytes: u64) -> u64 {
    let rest = total.saturating_sub(stream_bytes);
    if stream_bytes <= rest { stream_bytes } else { rest / 2 }
}

fn busy(budget: &Budget, bytes: u64, patience: Duration) -> Error {
    let message = format!(
        "the stream needs {} but {} of {} are held by others, and too few became free within {} s: try again, \
         lower shuffle_bytes, or give the gateway more --memory",
        mib(bytes),
        mib(budget.leased()),
        mib(budget.total()),
        patience.as_secs()
    );
    Error::new(Code::Busy, message)
}

/// As people read it.
pub(crate) fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_stream_finds_room_or_half_of_what_one_alone_does_not_need() {
        let total = 100;
        for (stream, others) in [(10, 10), (50, 50), (51, 24), (80, 10), (100, 0), (130, 0)] {
            assert_eq!(left(total, stream), others, "{stream}");
        }
    }
}
