//! A stream's share of the gateway's memory.
//!
//! In: what the stream needs. Out: leases that cover it, and how many windows beyond they pay for. The
//! promise: nothing is read before it is paid for; who cannot be served in time is told the numbers.

use std::time::Duration;

use penstock_daemon::{Budget, Lease};
use penstock_proto::{Code, Error};

use super::Need;

/// What a stream may hold. Given back on drop.
pub(crate) struct Share {
    leases: Vec<Lease>,
    budget: Budget,
    /// Windows that lanes may decode ahead.
    spare_windows: usize,
}

impl Share {
    /// Waits at most `patience` for what a stream cannot do without; takes windows to decode ahead only
    /// as far as another stream like this one would still find room.
    pub(crate) async fn lease(budget: &Budget, need: &Need, patience: Duration) -> Result<Self, Error> {
        let base = tokio::time::timeout(patience, budget.lease(need.bytes)).await;
        let mut leases = vec![base.map_err(|_| busy(budget, need, patience))?];
        // Reading ahead must not keep the next such stream out.
        let has_room =
            || budget.total() - budget.leased() >= need.bytes.saturating_add(need.spare_window_bytes);
        while need.spare_window_bytes > 0 && leases.len() as u64 <= need.lanes && has_room() {
            match budget.try_lease(need.spare_window_bytes) {
                Some(window) => leases.push(window),
                None => break,
            }
        }
        let share = Self { spare_windows: leases.len() - 1, leases, budget: budget.clone() };
        share.tell();
        Ok(share)
    }

    pub(crate) fn spare_windows(&self) -> usize {
        self.spare_windows
    }

    fn tell(&self) {
        metrics::gauge!("penstock_gateway_budget_bytes").set(self.budget.leased() as f64);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.leases.clear();
        self.tell();
    }
}

fn busy(budget: &Budget, need: &Need, patience: Duration) -> Error {
    const MIB: u64 = 1 << 20;
    let (wanted, held, total) =
        (need.bytes.div_ceil(MIB), budget.leased().div_ceil(MIB), budget.total().div_ceil(MIB));
    let message = format!(
        "the stream needs {wanted} MiB but {held} of {total} MiB are held by others, and too few became free \
         within {} s: try again, lower shuffle_bytes, or give the gateway more --memory",
        patience.as_secs()
    );
    Error::new(Code::Busy, message)
}
