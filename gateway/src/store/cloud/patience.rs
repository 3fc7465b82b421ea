//! How long a store is asked again.
//!
//! In: one fault after the other. Out: the pause before the next attempt, or that there is none. The promise:
//! whatever a store does, asking ends. It waits for nobody itself.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use tokio::time::Instant;

use super::fault::Fault;

/// How much is borne.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// Faults in a row; those of a store that asks to slow down do not count.
    pub(super) faults: u32,
    /// From the first attempt to the last.
    pub(super) longest: Duration,
}

impl Patience {
    /// For what a dataset is read with.
    pub(super) const OF_A_STORE: Self = Self { faults: 6, longest: Duration::from_secs(120) };
    /// For what gives credentials: mostly it is there, or is not.
    pub(super) const OF_CREDENTIALS: Self = Self { faults: 1, longest: Duration::from_secs(10) };

    /// How long so many bytes may take, with a second request that is borne as long as the first.
    pub(super) fn longest_of(&self, bytes: u64) -> Duration {
        self.longest * 2 + Duration::from_secs(bytes / SLOWEST_BYTES_PER_SECOND)
    }
}

/// Who gives less is given up, though something comes.
const SLOWEST_BYTES_PER_SECOND: u64 = 64 << 10;

/// The pause after the first fault, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// One thing that is tried.
pub(super) struct Trying {
    patience: Patience,
    began: Instant,
    attempts: u32,
    faults: u32,
    pauses: u32,
}

impl Trying {
    pub(super) fn new(patience: Patience) -> Self {
        Self { patience, began: Instant::now(), attempts: 0, faults: 0, pauses: 0 }
    }

    /// The pause before it is tried again; `None` when it is to be given up.
    pub(super) fn after(&mut self, fault: &Fault) -> Option<Duration> {
        self.attempts += 1;
        self.pauses += 1;
        if !fault.is_throttling() {
            self.faults += 1;
        }
        let doubled = FIRST_PAUSE.saturating_mul(1 << (self.pauses - 1).min(16)).min(LONGEST_PAUSE);
        // Whom the store sent away together shall not come back together.
        let pause = doubled.mul_f64(0.5 + 0.5 * share()).max(fault.retry_after().unwrap_or_default());
        let is_in_time = self.began.elapsed() + pause < self.patience.longest;
        (fault.may_pass() && self.faults <= self.patience.faults && is_in_time).then_some(pause)
    }

    /// Something came: faults before it do not count.
    pub(super) fn progressed(&mut self) {
        self.faults = 0;
        self.pauses = 0;
    }

    /// The last fault, with how often it was tried.
    pub(super) fn given_up(&self, fault: Fault) -> Fault {
        match self.attempts {
            0 | 1 => fault,
            attempts => Fault::Lasting { fault: Box::new(fault), attempts, after: self.began.elapsed() },
        }
    }
}

/// A number from 0 to 1, another each time: every hasher of the standard library has keys of its own.
fn share() -> f64 {
    f64::from(RandomState::new().build_hasher().finish() as u32) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn refused(status: u16, retry_after: Option<u64>) -> Fault {
        Fault::Refused {
            status: StatusCode::from_u16(status).unwrap(),
            code: String::new(),
            message: String::new(),
            region: None,
            retry_after: retry_after.map(Duration::from_secs),
        }
    }

    #[test]
    fn faults_are_borne_until_there_are_too_many_in_a_row() {
        let mut trying = Trying::new(Patience { faults: 2, longest: Duration::from_secs(60) });
        assert!(trying.after(&refused(500, None)).is_some());
        assert!(trying.after(&refused(500, None)).is_some());
        trying.progressed();
        assert!(trying.after(&refused(500, None)).is_some());
        assert!(trying.after(&refused(500, None)).is_some());
        assert!(trying.after(&refused(500, None)).is_none());
        assert!(matches!(trying.given_up(refused(500, None)), Fault::Lasting { attempts: 5, .. }));
    }

    #[test]
    fn a_store_that_is_busy_is_waited_for_as_long_as_it_asks() {
        let mut trying = Trying::new(Patience { faults: 0, longest: Duration::from_secs(60) });
        for _ in 0..50 {
            assert!(trying.after(&refused(503, None)).unwrap() <= LONGEST_PAUSE);
        }
        assert_eq!(trying.after(&refused(429, Some(30))), Some(Duration::from_secs(30)));
        assert_eq!(trying.after(&refused(429, Some(600))), None);
    }

    #[test]
    fn what_cannot_pass_is_not_tried_again() {
        let mut trying = Trying::new(Patience::OF_A_STORE);
        assert!(trying.after(&refused(403, None)).is_none());
    }
}
