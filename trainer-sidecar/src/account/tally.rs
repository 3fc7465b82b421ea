//! What all steps of a feed together say. Pure.

use std::time::Duration;

use super::quantiles::Quantiles;
use super::waits::{Stage, Waits};

/// Of a feed's time, what a trainer may wait without being starved.
const TOLERABLE: f64 = 0.05;

/// Steps handed out under one name, and the waits for them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    pub(crate) steps: u64,
    /// From the ring's being there to the trainer's last sign of life, all feeds of the name together.
    pub(crate) open: Duration,
    pub(crate) waited: Waits,
    quantiles: Quantiles,
}

/// Whether a feed kept its trainer waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    StarvedByFeed,
    NotStarved,
}

impl Tally {
    pub(super) fn add(&mut self, waits: &Waits) {
        self.steps += 1;
        self.waited.add(waits);
        self.quantiles.add(waits.total());
    }

    /// Below which waits so large a share of all steps had; a step that was there in time has none.
    pub(crate) fn wait_at(&self, share: f64) -> Duration {
        self.quantiles.at(share)
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let is_starved = self.waited.total() > self.open.mul_f64(TOLERABLE);
        // Who holds every slot and asks for more has only itself to wait for.
        if is_starved && self.waited.longest() != Stage::Trainer {
            Verdict::StarvedByFeed
        } else {
            Verdict::NotStarved
        }
    }

    /// What the whole goes no faster than.
    pub(crate) fn slow_stage(&self) -> Stage {
        match self.verdict() {
            Verdict::StarvedByFeed => self.waited.longest(),
            Verdict::NotStarved => Stage::Trainer,
        }
    }
}

impl Verdict {
    pub(crate) const ALL: [Self; 2] = [Self::StarvedByFeed, Self::NotStarved];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::StarvedByFeed => "starved by the feed",
            Self::NotStarved => "not starved",
        }
    }
}

#[cfg(test)]
mod tests {
    use penstock_proto::Effort;
    use tokio::time::Instant;

    use super::super::waits::Way;
    use super::*;

    /// A hundred seconds, of which a trainer waited for the store, and for slots that it held.
    fn tally(store: u64, slots: u64) -> Tally {
        let now = Instant::now();
        let (store, slots) = (Duration::from_secs(store), Duration::from_secs(slots));
        let received = now + store;
        let way = Way { received, slot: received + slots, handed_out: received + slots };
        let effort = Effort { store, ..Effort::default() };
        let mut tally = Tally { open: Duration::from_secs(100), ..Tally::default() };
        tally.add(&Waits::new(Some(now), way, effort));
        tally
    }

    #[test]
    fn a_trainer_that_waits_is_starved_unless_it_waits_for_itself() {
        for (tally, verdict, slow) in [
            (tally(4, 0), Verdict::NotStarved, Stage::Trainer),
            (tally(6, 0), Verdict::StarvedByFeed, Stage::Store),
            (tally(30, 20), Verdict::StarvedByFeed, Stage::Store),
            (tally(20, 30), Verdict::NotStarved, Stage::Trainer),
            (Tally::default(), Verdict::NotStarved, Stage::Trainer),
        ] {
            assert_eq!((tally.verdict(), tally.slow_stage()), (verdict, slow), "{tally:?}");
        }
    }
}
