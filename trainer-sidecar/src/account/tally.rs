//! What all steps of a feed together say. Pure.

use std::time::Duration;

use super::quantiles::Quantiles;
use super::waits::{Stage, Waits};

/// Of a feed's time, what a trainer may wait without being starved.
const TOLERABLE: f64 = 0.05;
/// GPUs that are less busy wait for something. As many looks at least: a feed's beginning says little.
const BUSY: f64 = 0.5;
const LOOKS: u32 = 3;

/// Steps handed out under one name, and the waits for them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    pub(crate) steps: u64,
    /// From the ring's being there to the trainer's last sign of life, all feeds of the name together.
    pub(crate) open: Duration,
    pub(crate) waited: Waits,
    quantiles: Quantiles,
    /// Feeds of the name that are open.
    open_feeds: u32,
    /// Sum of what was seen, and how often.
    gpus_busy: (f64, u32),
}

/// What a trainer lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    StarvedByFeed,
    /// Steps are there in time, and the GPUs are idle all the same.
    StarvedByHost,
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

    pub(super) fn opened(&mut self) {
        self.open_feeds += 1;
    }

    pub(super) fn ended(&mut self) {
        self.open_feeds -= 1;
    }

    pub(super) fn is_open(&self) -> bool {
        self.open_feeds > 0
    }

    pub(super) fn saw_gpus(&mut self, busy: f64) {
        self.gpus_busy.0 += busy;
        self.gpus_busy.1 += 1;
    }

    /// How busy the trainer's GPUs were while a feed was open, 0 to 1; unknown without a driver, and at the beginning.
    pub(crate) fn gpus_busy(&self) -> Option<f64> {
        let (sum, looks) = self.gpus_busy;
        (looks >= LOOKS).then(|| sum / f64::from(looks))
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let is_starved = self.waited.total() > self.open.mul_f64(TOLERABLE);
        // Who holds every slot and asks for more has only itself to wait for.
        if is_starved && self.waited.longest() != Stage::Trainer {
            Verdict::StarvedByFeed
        } else if self.gpus_busy().is_some_and(|busy| busy < BUSY) {
            Verdict::StarvedByHost
        } else {
            Verdict::NotStarved
        }
    }

    /// What the whole goes no faster than.
    pub(crate) fn slow_stage(&self) -> Stage {
        match self.verdict() {
            Verdict::StarvedByFeed => self.waited.longest(),
            Verdict::StarvedByHost | Verdict::NotStarved => Stage::Trainer,
        }
    }
}

impl Verdict {
    pub(crate) const ALL: [Self; 3] = [Self::StarvedByFeed, Self::StarvedByHost, Self::NotStarved];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::StarvedByFeed => "starved by the feed",
            Self::StarvedByHost => "starved by the host",
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
    fn idle_gpus_that_have_their_steps_are_starved_by_the_host() {
        for (waited, seen, verdict) in [
            (0, &[0.0, 0.0][..], Verdict::NotStarved),
            (0, &[0.0, 0.9, 0.3], Verdict::StarvedByHost),
            (0, &[0.9, 0.9, 0.3], Verdict::NotStarved),
            (50, &[0.0, 0.9, 0.3], Verdict::StarvedByFeed),
        ] {
            let mut tally = tally(waited, 0);
            seen.iter().for_each(|busy| tally.saw_gpus(*busy));
            assert_eq!(tally.verdict(), verdict, "{seen:?}");
        }
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
