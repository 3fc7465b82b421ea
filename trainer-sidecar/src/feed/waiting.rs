//! Since when a trainer waits for its next step. Knows no slots: how many it holds is said.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// A trainer waits when it has asked for a step that is not handed out yet and holds one at most: with more, it
/// has something to go on with.
#[derive(Default)]
pub(super) struct Waiting(Mutex<State>);

#[derive(Default)]
struct State {
    handed_out: u64,
    /// It asked for the step after those.
    is_asked: bool,
    since: Option<Instant>,
}

impl Waiting {
    /// The trainer, which has received so many steps and holds `held`, asks for the next.
    pub(super) fn ask(&self, received: u64, held: u32) {
        let mut state = self.state();
        // Otherwise the step is on its way to it already.
        state.is_asked = received == state.handed_out;
        state.look(held);
    }

    /// Whether it asked for a step that is not handed out.
    pub(super) fn is_asked(&self) -> bool {
        self.state().is_asked
    }

    /// The trainer holds `held` steps from now on.
    pub(super) fn hold(&self, held: u32) {
        self.state().look(held);
    }

    /// A step is handed out; gives since when it was waited for.
    pub(super) fn hand_out(&self) -> Option<Instant> {
        let mut state = self.state();
        state.handed_out += 1;
        state.is_asked = false;
        state.since.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn look(&mut self, held: u32) {
        if self.is_asked && held <= 1 {
            self.since.get_or_insert_with(Instant::now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_begins_when_it_is_asked_and_nothing_else_is_there() {
        let (waiting, start) = (Waiting::default(), Instant::now());
        assert_eq!(waiting.hand_out(), None, "nobody asked");
        waiting.ask(0, 1);
        assert_eq!(waiting.hand_out(), None, "the first was on its way when it was asked for");
        waiting.ask(2, 2);
        assert!(waiting.is_asked());
        advance(Duration::from_secs(1)).await;
        assert_eq!(waiting.hand_out(), None, "there was another to go on with");
        waiting.ask(3, 3);
        waiting.hold(2);
        advance(Duration::from_secs(1)).await;
        waiting.hold(1);
        advance(Duration::from_secs(1)).await;
        waiting.hold(0);
        assert_eq!(waiting.hand_out(), Some(start + Duration::from_secs(2)), "since it held one");
        assert_eq!(waiting.hand_out(), None, "a wait is of one step");
    }
}
