//! A budget in bytes: leases out, never more than the total; who asks for more waits in line.
//!
//! A budget bounds memory from where bytes are read to where they are handed on. The reader waits when
//! it is full, so a slow consumer slows its producer and holds only its own share. A lease larger than
//! the whole budget is granted when it can have all of it: it runs alone instead of never. What nobody leases
//! may be lent, to one who gives it back as soon as somebody does. What is set aside is no part of it meanwhile.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Leases are counted in units of this many bytes, so that a lease may span terabytes.
const UNIT: u64 = 1024;

/// Bytes to be shared. Clones share the same total. Waiters are served in the order they came.
#[derive(Clone)]
pub struct Budget {
    units: Arc<Semaphore>,
    total_units: Arc<AtomicU32>,
    loans: Arc<Loans>,
}

/// Bytes held; given back on drop.
pub struct Lease(OwnedSemaphorePermit);

/// Bytes that the budget is smaller by; given back on drop.
pub struct Aside {
    permit: OwnedSemaphorePermit,
    total_units: Arc<AtomicU32>,
}

/// Bytes held until somebody wants a lease of them; given back on drop.
pub struct Loan {
    permit: OwnedSemaphorePermit,
    loans: Arc<Loans>,
}

/// Who is lent what nobody leases.
pub trait Borrower: Send + Sync {
    /// Drops loans of at least so many bytes, or all there are. Returns whether any were dropped.
    ///
    /// It waits for whoever is taking a loan at this moment: a loan that is not found here, yet is kept, would
    /// keep a lease waiting.
    fn give_back(&self, bytes: u64) -> bool;
}

#[derive(Default)]
struct Loans {
    units: AtomicU64,
    /// Leases that are being asked for.
    wishes: AtomicU64,
    borrower: OnceLock<Weak<dyn Borrower>>,
}

/// A lease that is being asked for.
struct Wish<'a>(&'a Loans);

impl Budget {
    /// A budget of `bytes`, at least one unit of 1 KiB.
    pub fn new(bytes: u64) -> Self {
        let total_units = units(bytes);
        let units = Arc::new(Semaphore::new(total_units as usize));
        Self { units, total_units: Arc::new(AtomicU32::new(total_units)), loans: Arc::default() }
    }

    /// The whole budget in bytes, without what is set aside.
    pub fn total(&self) -> u64 {
        u64::from(self.total_units()) * UNIT
    }

    fn total_units(&self) -> u32 {
        self.total_units.load(Ordering::SeqCst)
    }

    /// Bytes leased at this moment. What is lent is as good as free.
    pub fn leased(&self) -> u64 {
        let free = (self.units.available_permits() as u64 + self.loans.units.load(Ordering::SeqCst)) * UNIT;
        self.total().saturating_sub(free)
    }

    /// Waits until `bytes` are free, in line behind those who asked before. Cancel-safe: a waiter that
    /// is dropped loses its place and nothing else.
    pub async fn lease(&self, bytes: u64) -> Lease {
        let wanted = units(bytes).min(self.total_units());
        // For as long as somebody waits nothing is lent.
        let wish = Wish::new(&self.loans);
        if let Some(permit) = self.take(wanted, &wish) {
            return Lease(permit);
        }
        let permit = Arc::clone(&self.units).acquire_many_owned(wanted).await;
        Lease(permit.expect("a budget's semaphore is never closed"))
    }

    /// A lease if the bytes are free now.
    pub fn try_lease(&self, bytes: u64) -> Option<Lease> {
        let wanted = units(bytes).min(self.total_units());
        self.take(wanted, &Wish::new(&self.loans)).map(Lease)
    }

    /// Waits, as for a lease, for bytes that are to be no part of the budget: what stays for long, and is nobody's
    /// share. Whoever waits for all there was meanwhile waits in vain, so nobody should without a deadline.
    pub async fn set_aside(&self, bytes: u64) -> Aside {
        let Lease(permit) = self.lease(bytes).await;
        self.total_units.fetch_sub(permit.num_permits() as u32, Ordering::SeqCst);
        Aside { permit, total_units: Arc::clone(&self.total_units) }
    }

    /// Names the one who is asked to give loans back; there is one for a budget's whole life.
    pub fn lends_to(&self, borrower: Weak<dyn Borrower>) {
        let first = self.loans.borrower.set(borrower);
        assert!(first.is_ok(), "a budget lends to one borrower");
    }

    /// A loan if the bytes are free and nobody waits for a lease.
    pub fn lend(&self, bytes: u64) -> Option<Loan> {
        if bytes > self.total() || self.loans.wishes.load(Ordering::SeqCst) > 0 {
            return None;
        }
        let permit = Arc::clone(&self.units).try_acquire_many_owned(units(bytes)).ok()?;
        self.loans.units.fetch_add(permit.num_permits() as u64, Ordering::SeqCst);
        Some(Loan { permit, loans: Arc::clone(&self.loans) })
    }

    /// Takes what is free, calling in loans until that is enough or there are none.
    fn take(&self, wanted: u32, _: &Wish<'_>) -> Option<OwnedSemaphorePermit> {
        loop {
            if let Ok(permit) = Arc::clone(&self.units).try_acquire_many_owned(wanted) {
                return Some(permit);
            }
            let missing = u64::from(wanted).saturating_sub(self.units.available_permits() as u64);
            let borrower = self.loans.borrower.get().and_then(Weak::upgrade)?;
            if !borrower.give_back(missing * UNIT) {
                // Another may just have given back.
                return Arc::clone(&self.units).try_acquire_many_owned(wanted).ok();
            }
        }
    }
}

impl Aside {
    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.permit.num_permits() as u64 * UNIT
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.total_units.fetch_add(self.permit.num_permits() as u32, Ordering::SeqCst);
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

impl Drop for Loan {
    fn drop(&mut self) {
        self.loans.units.fetch_sub(self.permit.num_permits() as u64, Ordering::SeqCst);
    }
}

impl<'a> Wish<'a> {
    fn new(loans: &'a Loans) -> Self {
        loans.wishes.fetch_add(1, Ordering::SeqCst);
        Self(loans)
    }
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        self.0.wishes.fetch_sub(1, Ordering::SeqCst);
    }
}

fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Loans of one unit each.
    #[derive(Default)]
    struct Hoard(Mutex<Vec<Loan>>);

    impl Hoard {
        fn fill(&self, budget: &Budget) -> usize {
            let mut held = self.0.lock().unwrap();
            held.extend(std::iter::from_fn(|| budget.lend(UNIT)));
            held.len()
        }
    }

    impl Borrower for Hoard {
        fn give_back(&self, bytes: u64) -> bool {
            let mut held = self.0.lock().unwrap();
            let kept = held.len().saturating_sub(bytes.div_ceil(UNIT) as usize);
            !held.split_off(kept).is_empty()
        }
    }

    #[tokio::test]
    async fn what_is_lent_is_there_for_whoever_wants_a_lease() {
        let budget = Budget::new(8 * UNIT);
        let hoard = Arc::new(Hoard::default());
        let borrower: Weak<dyn Borrower> = Arc::<Hoard>::downgrade(&hoard);
        budget.lends_to(borrower);
        let first = budget.lease(2 * UNIT).await;
        assert_eq!(hoard.fill(&budget), 6);
        assert_eq!(budget.leased(), 2 * UNIT);
        let second = budget.try_lease(4 * UNIT).unwrap();
        assert_eq!((hoard.fill(&budget), budget.leased()), (2, 6 * UNIT));

        // Whoever waits is not kept waiting by what is lent while it does.
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.lease(5 * UNIT).await }
        });
        while budget.loans.wishes.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(hoard.fill(&budget), 0);
        drop(first);
        assert_eq!(hoard.fill(&budget), 0);
        drop(second);
        assert_eq!(waiting.await.unwrap().bytes(), 5 * UNIT);
    }

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
    async fn what_is_set_aside_is_no_part_of_it() {
        let budget = Budget::new(10 * UNIT);
        let lease = budget.lease(3 * UNIT).await;
        let aside = budget.set_aside(5 * UNIT).await;
        assert_eq!((aside.bytes(), budget.total(), budget.leased()), (5 * UNIT, 5 * UNIT, 3 * UNIT));
        assert!(budget.try_lease(3 * UNIT).is_none());
        drop(lease);
        // All there is.
        assert_eq!(budget.lease(100 * UNIT).await.bytes(), 5 * UNIT);
        drop(aside);
        assert_eq!((budget.total(), budget.leased()), (10 * UNIT, 0));
        assert_eq!(budget.lease(100 * UNIT).await.bytes(), 10 * UNIT);
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
