//! A trainer's wait for a step, divided among the stages that the step was in meanwhile. Pure.

use std::time::Duration;

use penstock_proto::Effort;
use tokio::time::Instant;

/// Where a step can be late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The gateway waited for bytes of files.
    Store,
    /// The gateway decoded, shuffled and put together.
    Decode,
    /// On its way from the gateway, or no gateway served it.
    Network,
    /// Copied into its slot.
    Pack,
    /// Not at all: the trainer has no slot free, or is busy with the steps that it has.
    Trainer,
}

/// When a step was where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    /// It had come from the gateway whole.
    pub(crate) received: Instant,
    /// A slot was free for it.
    pub(crate) slot: Instant,
    /// It was the trainer's.
    pub(crate) handed_out: Instant,
}

/// Time by stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Waits([Duration; Stage::ALL.len()]);

impl Stage {
    pub(crate) const ALL: [Self; 5] = [Self::Store, Self::Decode, Self::Network, Self::Pack, Self::Trainer];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Decode => "decode",
            Self::Network => "network",
            Self::Pack => "pack",
            Self::Trainer => "trainer",
        }
    }
}

impl Waits {
    /// A wait `since` some moment; `None` where the step was there in time. What of the wait for a step's rows its
    /// gateway spent on them is told by `effort`; the rest is the way between.
    pub(crate) fn new(since: Option<Instant>, way: Way, effort: Effort) -> Self {
        let Some(since) = since else { return Self::default() };
        let from = |began: Instant, ended: Instant| ended.saturating_duration_since(began.max(since));
        let arrival = from(since, way.received);
        let gateway = effort.scaled_to(effort.total().min(arrival));
        let network = arrival.saturating_sub(gateway.total());
        let (trainer, pack) = (from(way.received, way.slot), from(way.slot, way.handed_out));
        Self([gateway.store, gateway.decode, network, pack, trainer])
    }

    pub(crate) fn of(&self, stage: Stage) -> Duration {
        self.0[stage as usize]
    }

    pub(crate) fn total(&self) -> Duration {
        self.0.iter().sum()
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, time)| *sum += time);
    }

    /// Where most of the time went.
    pub(super) fn longest(&self) -> Stage {
        Stage::ALL.into_iter().max_by_key(|stage| self.of(*stage)).unwrap_or(Stage::Trainer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A step that is received at 10, has a slot at 13 and is handed out at 15; its wait by stage.
    fn check(since: Option<u64>, (store, decode): (u64, u64), expected: [u64; 5]) {
        let start = Instant::now();
        let at = |moment: u64| start + seconds(moment);
        let way = Way { received: at(10), slot: at(13), handed_out: at(15) };
        let effort = Effort { store: seconds(store), decode: seconds(decode) };
        let waits = Waits::new(since.map(at), way, effort);
        assert_eq!(waits, Waits(expected.map(seconds)), "since {since:?}");
        assert_eq!(waits.total(), since.map_or(Duration::ZERO, |since| seconds(15 - since)), "without rest");
    }

    #[test]
    fn a_wait_is_divided_by_where_the_step_was() {
        check(None, (5, 5), [0; 5]);
        check(Some(0), (3, 1), [3, 1, 6, 2, 3]);
        // The gateway was at it before the trainer waited.
        check(Some(6), (12, 4), [3, 1, 0, 2, 3]);
        check(Some(12), (3, 1), [0, 0, 0, 2, 1]);
        check(Some(14), (3, 1), [0, 0, 0, 1, 0]);
    }

    #[test]
    fn the_longest_stage_is_the_slow_one() {
        let mut waits = Waits([1, 2, 3, 4, 0].map(seconds));
        assert_eq!(waits.longest(), Stage::Pack);
        waits.add(&Waits([5, 0, 0, 0, 0].map(seconds)));
        assert_eq!((waits.longest(), waits.total()), (Stage::Store, seconds(15)));
    }
}
