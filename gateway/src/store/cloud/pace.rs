//! How many requests a store is asked at once.
//!
//! In: who wants to ask, and what the store said of those before. Out: turns. The promise: additive increase,
//! multiplicative decrease (Jacobson, Congestion avoidance and control, 1988): a store that asks to slow down
//! halves the number, once for all requests that were under way; every round of successes adds one; and
//! nobody asks before the time that the store named. Turns are given in the order of coming.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

/// Requests at first: enough to fill a link of 10 Gbit/s with 8 MiB each.
const FIRST: usize = 16;
/// Beyond this a machine gains nothing and others lose.
const MOST: usize = 64;

/// The pace of one store.
pub(super) struct Pace {
    turns: Arc<Semaphore>,
    /// Where the limit is told.
    told: Gauge,
    state: Mutex<State>,
}

struct State {
    limit: usize,
    /// Turns that were given and end with whoever has them.
    owed: usize,
    /// Since the limit changed.
    successes: usize,
    /// Counts halvings, so that what was under way at one does not cause another.
    era: u64,
    /// Nobody asks before.
    resume: Instant,
}

/// Leave to ask once. Ends when dropped.
pub(super) struct Turn {
    pace: Arc<Pace>,
    permit: Option<OwnedSemaphorePermit>,
    era: u64,
}

impl Pace {
    /// Tells its limit by `told`.
    pub(super) fn new(told: Gauge) -> Self {
        told.set(FIRST as f64);
        let state = State { limit: FIRST, owed: 0, successes: 0, era: 0, resume: Instant::now() };
        Self { turns: Arc::new(Semaphore::new(FIRST)), told, state: Mutex::new(state) }
    }

    /// Waits behind those who came before.
    pub(super) async fn turn(self: &Arc<Self>) -> Turn {
        let permit = Arc::clone(&self.turns).acquire_owned().await.expect("the semaphore is never closed");
        loop {
            let (resume, era) = {
                let state = self.state();
                (state.resume, state.era)
            };
            if resume <= Instant::now() {
                return Turn { pace: Arc::clone(self), permit: Some(permit), era };
            }
            sleep_until(resume).await;
        }
    }

    /// Whether one more would not have to wait.
    pub(super) fn has_room(&self) -> bool {
        self.turns.available_permits() > 0 && self.state().resume <= Instant::now()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// The store answered.
    pub(super) fn succeeded(&self) {
        let mut state = self.pace.state();
        state.successes += 1;
        if state.successes >= state.limit && state.limit < MOST {
            state.successes = 0;
            state.limit += 1;
            self.pace.told.set(state.limit as f64);
            match state.owed.checked_sub(1) {
                Some(owed) => state.owed = owed,
                None => self.pace.turns.add_permits(1),
            }
        }
    }

    /// The store asked to slow down, and perhaps until when. Tells the new limit where it changed.
    pub(super) fn throttled(&self, pause: Option<Duration>) -> Option<usize> {
        let mut state = self.pace.state();
        if let Some(pause) = pause {
            state.resume = state.resume.max(Instant::now() + pause);
        }
        if self.era != state.era {
            return None;
        }
        state.era += 1;
        state.successes = 0;
        let fewer = state.limit / 2;
        state.limit -= fewer;
        self.pace.told.set(state.limit as f64);
        let withdrawn = self.pace.turns.forget_permits(fewer);
        state.owed += fewer - withdrawn;
        Some(state.limit)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.pace.state();
        if let Some(owed) = state.owed.checked_sub(1) {
            state.owed = owed;
            if let Some(permit) = self.permit.take() {
                permit.forget();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn turns(pace: &Arc<Pace>, count: usize) -> Vec<Turn> {
        let mut turns = Vec::new();
        for _ in 0..count {
            turns.push(pace.turn().await);
        }
        turns
    }

    #[tokio::test]
    async fn one_complaint_of_many_requests_halves_once() {
        let pace = Arc::new(Pace::new(Gauge::noop()));
        let under_way = turns(&pace, FIRST).await;
        assert!(!pace.has_room());
        assert_eq!(under_way[0].throttled(None), Some(FIRST / 2));
        assert_eq!(under_way[1].throttled(None), None);
        drop(under_way);
        let fewer = turns(&pace, FIRST / 2).await;
        assert!(!pace.has_room());
        assert_eq!(fewer[0].throttled(None), Some(FIRST / 4));
        drop(fewer);
        // Idle turns are withdrawn at once.
        assert_eq!(pace.turns.available_permits(), FIRST / 4);
    }

    #[tokio::test]
    async fn it_never_stops_and_it_recovers() {
        let pace = Arc::new(Pace::new(Gauge::noop()));
        for _ in 0..20 {
            pace.turn().await.throttled(None);
        }
        assert_eq!(pace.turns.available_permits(), 1);
        for _ in 0..MOST * MOST {
            pace.turn().await.succeeded();
        }
        assert_eq!(pace.turns.available_permits(), MOST);
    }

    #[tokio::test]
    async fn nobody_asks_before_the_time_that_was_named() {
        let pace = Arc::new(Pace::new(Gauge::noop()));
        let began = Instant::now();
        pace.turn().await.throttled(Some(Duration::from_millis(50)));
        assert!(!pace.has_room());
        pace.turn().await;
        assert!(began.elapsed() >= Duration::from_millis(50));
    }
}
