//! What a feed holds of the sidecar's memory.

use penstock_daemon::{Budget, Lease};
use penstock_proto::{Code, Error};
use tokio::time::timeout;

use super::House;
use crate::metrics;

/// How a sidecar gets more, for messages.
pub(super) const RAISE: &str = "give the sidecar more by --memory, or by PENSTOCK_SIDECAR_MEMORY in the environment before penstock.feed or penstock run starts it";
/// A feed that finds so much free begins with it; one that finds less waits.
const LEAST: u64 = 1 << 20;

/// Bytes leased; given back on drop.
pub(super) struct Leased {
    bytes: u64,
    leases: Vec<Lease>,
    budget: Budget,
}

impl Leased {
    /// Waits for bytes that others hold, as long as the deadline allows.
    ///
    /// # Errors
    /// More than the sidecar has, or the deadline is over.
    pub(super) async fn new(house: &House, bytes: u64) -> Result<Self, Error> {
        let mut leased = Self { bytes: 0, leases: Vec::new(), budget: house.budget.clone() };
        leased.grow_to(house, bytes).await?;
        Ok(leased)
    }

    /// As many of `bytes` as are free; waits, as long as the deadline allows, where these are too few to begin with.
    ///
    /// # Errors
    /// As [`Leased::new`].
    pub(super) async fn up_to(house: &House, bytes: u64) -> Result<Self, Error> {
        let free = house.budget.total() - house.budget.leased();
        let (most, least) = (bytes.min(free), bytes.min(LEAST));
        if most >= least
            && let Some(lease) = house.budget.try_lease(most)
        {
            let mut leased = Self { bytes: 0, leases: Vec::new(), budget: house.budget.clone() };
            leased.add(lease, most);
            return Ok(leased);
        }
        Self::new(house, least).await
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Leases what is missing up to `bytes`, if another feed would still find a quarter of all.
    pub(super) fn grow_if_free(&mut self, bytes: u64) {
        let missing = bytes.saturating_sub(self.bytes);
        let free = self.budget.total() - self.budget.leased();
        if missing == 0 || free < missing.saturating_add(self.budget.total() / 4) {
            return;
        }
        if let Some(lease) = self.budget.try_lease(missing) {
            self.add(lease, bytes);
        }
    }

    /// Leases what is missing up to `bytes`.
    ///
    /// # Errors
    /// As [`Leased::new`].
    pub(super) async fn grow_to(&mut self, house: &House, bytes: u64) -> Result<(), Error> {
        let missing = bytes.saturating_sub(self.bytes);
        let (total, held) = (self.budget.total(), self.budget.leased());
        let busy = || {
            Error::new(
                Code::Busy,
                format!(
                    "the feed needs {missing} bytes more, and of the sidecar's {total} feeds hold {held}: close some, give them less with memory=, or {RAISE}"
                ),
            )
        };
        if missing == 0 {
            return Ok(());
        }
        // A lease beyond the total would wait for all of it and get no more.
        if bytes > total {
            return Err(busy());
        }
        let lease = timeout(house.deadlines.memory, self.budget.lease(missing)).await.map_err(|_| busy())?;
        self.add(lease, bytes);
        Ok(())
    }

    /// With this lease it has `bytes`.
    fn add(&mut self, lease: Lease, bytes: u64) {
        self.leases.push(lease);
        self.bytes = bytes;
        metrics::memory(self.budget.leased());
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        self.leases.clear();
        metrics::memory(self.budget.leased());
    }
}
