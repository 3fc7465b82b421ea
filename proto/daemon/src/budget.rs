//! A budget in bytes: leases out, never more than the total; who asks for more waits in line.
//!
//! A budget bounds memory from where bytes are read to where they are handed on. The reader waits when
//! it is full, so a slow consumer slows its producer and holds only its own share. A lease larger than
//! the whole budget is granted when it can have all of it: it runs alone instead of never.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Leases are counted in units of this many bytes, so that a lease may span terabytes.
const UNIT: u64 = 1024;

/// Bytes to be shared. Clones share the same total. Waiters are served in the order they came.
#[derive(Clone)]
pub struct Budget {
    units: Arc<Semaphore>,
    total_units: u32,
}

/// Bytes held; given back on drop.
pub struct Lease(OwnedSemaphorePermit);

impl Budget {
    /// A budget of `bytes`, at least one unit of 1 KiB.
    pub fn new(bytes: u64) -> Self {
        let total_units = units(bytes);
        Self { units: Arc::new(Semaphore::new(total_units as usize)), total_units }
    }

    /// The whole budget in bytes.
    pub fn total(&self) -> u64 {
        u64::from(self.total_units) * UNIT
    }

    /// Bytes leased at this moment.
    pub fn leased(&self) -> u64 {
        self.total().saturating_sub(self.units.available_permits() as u64 * UNIT)
    }

    /// Waits until `bytes` are free, in line behind those who asked before. Cancel-safe: a waiter that
    /// is dropped loses its place and nothing else.
    pub async fn lease(&self, bytes: u64) -> Lease {
        let wanted = units(bytes).min(self.total_units);
        let permit = Arc::clone(&self.units).acquire_many_owned(wanted).await;
        Lease(permit.expect("a budget's semaphore is never closed"))
    }

    /// A lease if the bytes are free now.
    pub fn try_lease(&self, bytes: u64) -> Option<Lease> {
        let wanted = units(bytes).min(self.total_units);
        Arc::clone(&self.units).try_acquire_many_owned(wanted).ok().map(Lease)
    }
}

impl Lease {
    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.0.num_permits() as u64 * UNIT
    }

    /// Takes up to `bytes` out of this lease, to be given back on their own.
    pub fn split(&mut self, bytes: u64) -> Self {
        let wanted = (units(bytes) as usize).min(self.0.num_permits());
        Self(self.0.split(wanted).expect("no more is split off than is held"))
    }

    /// Gives back what is held beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        let spare = self.0.num_permits().saturating_sub(units(bytes) as usize);
        drop(self.0.split(spare));
    }
}

fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_leased_is_gone_until_it_is_given_back() {
        let budget = Budget::new(10 * UNIT);
        let mut lease = budget.lease(6 * UNIT).await;
        assert!(budget.try_lease(5 * UNIT).is_none());
        let part = lease.split(2 * UNIT);
        drop(lease);
        assert_eq!(budget.leased(), part.bytes());
        drop(part);
        assert_eq!(budget.leased(), 0);
    }

    #[tokio::test]
    async fn a_lease_beyond_the_total_runs_alone() {
        let budget = Budget::new(4 * UNIT);
        let small = budget.lease(UNIT).await;
        assert!(budget.try_lease(100 * UNIT).is_none());
        drop(small);
        let all = budget.lease(100 * UNIT).await;
        assert_eq!(all.bytes(), budget.total());
    }

    #[tokio::test]
    async fn shrinking_frees_the_rest() {
        let budget = Budget::new(4 * UNIT);
        let mut lease = budget.lease(4 * UNIT).await;
        lease.shrink_to(UNIT);
        assert!(budget.try_lease(3 * UNIT).is_some());
    }
}
