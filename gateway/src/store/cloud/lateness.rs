//! When a range is late.
//!
//! In: how long ranges took. Out: after how long another is asked for a second time, and whether it may be.
//! The promise: no more than one of twenty requests is made twice (Dean and Barroso, The tail at scale, 2013),
//! so that a store that is slow as a whole is not asked twice for everything.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Ranges that are remembered of each size.
const REMEMBERED: usize = 128;
/// With fewer nothing can be said.
const FEWEST: usize = 20;
/// What is late as long as nothing can be said.
const UNKNOWN: Duration = Duration::from_secs(2);
/// Nothing is late earlier.
const EARLIEST: Duration = Duration::from_millis(200);
/// Larger ranges are compared with each other, and smaller ones.
const LARGE_BYTES: u64 = 1 << 20;
/// Requests that pay for one made twice.
const PRICE: u32 = 20;
/// What can be saved up.
const MOST_CREDIT: u32 = 8 * PRICE;

/// How long the ranges of one store take.
pub(super) struct Lateness(Mutex<State>);

struct State {
    small: VecDeque<Duration>,
    large: VecDeque<Duration>,
    credit: u32,
}

impl Lateness {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State { small: VecDeque::new(), large: VecDeque::new(), credit: MOST_CREDIT / 2 }))
    }

    /// A range came whole.
    pub(super) fn record(&self, bytes: u64, took: Duration) {
        let mut state = self.state();
        state.credit = (state.credit + 1).min(MOST_CREDIT);
        let times = state.of(bytes);
        if times.len() == REMEMBERED {
            times.pop_front();
        }
        times.push_back(took);
    }

    /// 19 of 20 ranges of that size come earlier.
    pub(super) fn late(&self, bytes: u64) -> Duration {
        let mut state = self.state();
        let times = state.of(bytes);
        if times.len() < FEWEST {
            return UNKNOWN;
        }
        let mut sorted: Vec<_> = times.iter().copied().collect();
        sorted.sort_unstable();
        sorted[(sorted.len() * 19).div_ceil(20) - 1].max(EARLIEST)
    }

    /// Pays for a second request. Who cannot has waited, which counts as much as a request: when all that come
    /// are late, somebody is helped in the end.
    pub(super) fn pay(&self) -> bool {
        let mut state = self.state();
        let left = state.credit.checked_sub(PRICE);
        state.credit = left.unwrap_or(state.credit + 1);
        left.is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn of(&mut self, bytes: u64) -> &mut VecDeque<Duration> {
        if bytes < LARGE_BYTES { &mut self.small } else { &mut self.large }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_is_what_most_are_not() {
        let lateness = Lateness::new();
        assert_eq!(lateness.late(1), UNKNOWN);
        for millis in 1..=100 {
            lateness.record(1, Duration::from_millis(10 * millis));
        }
        assert_eq!(lateness.late(1), Duration::from_millis(950));
        assert_eq!(lateness.late(LARGE_BYTES), UNKNOWN);
        (0..REMEMBERED).for_each(|_| lateness.record(1, Duration::from_millis(1)));
        assert_eq!(lateness.late(1), EARLIEST);
    }

    #[test]
    fn one_of_twenty_is_made_twice() {
        let lateness = Lateness::new();
        let paid = |lateness: &Lateness| std::iter::from_fn(|| lateness.pay().then_some(())).count();
        assert_eq!(paid(&lateness), 4);
        (0..38).for_each(|_| lateness.record(1, EARLIEST));
        assert_eq!(paid(&lateness), 1);
        // Asking in vain has made the 19 that were left a whole price.
        assert_eq!((0..PRICE).filter(|_| lateness.pay()).count(), 1);
    }
}
