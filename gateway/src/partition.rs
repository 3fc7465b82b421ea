//! What one rank reads: its share of every global batch.
//!
//! In: a plan, a world size and a rank. Out: for any step the positions of lanes, or of the remainder,
//! that are the rank's. The promise: the shares of all ranks, joined in rank order, are the global
//! batch, whatever the world size; every rank has the same number of steps; any step is found in time
//! that does not grow with it. It knows no rows: a partition is the same in every epoch.

#[cfg(test)]
mod tests;

use std::ops::Range;

use penstock_proto::{Rank, Remainder, WorldSize};

use crate::plan::{Cut, Plan};

/// Why a rank has no partition of a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartitionError {
    #[error(
        "the global batch of {batch_size} rows is smaller than the world of {world_size} ranks: raise \
         batch_size to at least {world_size}"
    )]
    BatchSmallerThanWorld { batch_size: u64, world_size: WorldSize },
    #[error("rank {rank} is not in a world of {world_size}: ranks count from 0")]
    RankOutsideWorld { rank: Rank, world_size: WorldSize },
}

/// One rank's share of every global batch: positions [⌊rB/W⌋, ⌊(r+1)B/W⌋).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    cut: Cut,
    /// The rank's positions in a global batch.
    share: Range<u64>,
    /// The lanes that lie in the share, in order; whole ones but for the first and the last.
    lanes: Vec<LaneShare>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct LaneShare {
    lane: u32,
    /// Rows of each of the lane's runs.
    width: u64,
    /// Which rows of each run are the rank's.
    part: Range<u64>,
}

/// What a rank reads of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepShare {
    /// A whole step: pieces of lanes, to be joined in this order. At least one.
    Lanes(Vec<Piece>),
    /// The last step, made of the remainder.
    Remainder(RemainderShare),
}

/// Neighbouring positions of one lane. From step to step they rise, so that a lane is read forwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub lane: u32,
    pub positions: Range<u64>,
}

/// A rank's share of the step that holds the remainder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemainderShare {
    /// The rank's positions in this global batch; cut short under `keep`.
    share: Range<u64>,
    /// Rows that the remainder has.
    available: u64,
}

impl Partition {
    /// # Errors
    /// When the world is larger than the global batch, or the rank is not in the world.
    pub fn new(plan: &Plan, world_size: WorldSize, rank: Rank) -> Result<Self, PartitionError> {
        let cut = plan.cut();
        let (batch_size, world, r) = (cut.batch_size, u64::from(world_size.get()), u64::from(rank.get()));
        if batch_size < world {
            return Err(PartitionError::BatchSmallerThanWorld { batch_size, world_size });
        }
        if r >= world {
            return Err(PartitionError::RankOutsideWorld { rank, world_size });
        }
        Ok(Self::of_share(plan, share_of(batch_size, world_size, rank)))
    }

    /// The same positions of every global batch, whoever's they are. At least one, and all in the batch.
    pub fn of_share(plan: &Plan, share: Range<u64>) -> Self {
        let cut = plan.cut();
        let lanes = (cut.lane_at(share.start)..=cut.lane_at(share.end - 1))
            .map(|lane| {
                let slice = cut.slice(lane);
                let part = share.start.max(slice.start) - slice.start..share.end.min(slice.end) - slice.start;
                LaneShare { lane, width: slice.end - slice.start, part }
            })
            .collect();
        Self { cut, share, lanes }
    }

    /// Steps of an epoch, the same for every rank.
    pub fn steps(&self) -> u64 {
        self.cut.steps()
    }

    /// Rows this rank gets of every whole step, and under `pad` of the last; at least one.
    pub fn rows_per_step(&self) -> u64 {
        self.share.end - self.share.start
    }

    /// Rows this rank gets in steps `from` to the epoch's end, padding included.
    pub fn rows_from(&self, from: u64) -> u64 {
        let whole = self.cut.whole_steps().saturating_sub(from) * self.rows_per_step();
        let has_last = from < self.steps() && self.steps() > self.cut.whole_steps();
        whole + if has_last { self.remainder_share().rows() } else { 0 }
    }

    /// The lanes this rank reads, in order.
    pub fn lanes(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.lanes.iter().map(|share| share.lane)
    }

    /// What it reads of some of its lanes, given in rising order, in whole steps, and nothing of the remainder;
    /// `None` unless they are its lanes.
    pub(crate) fn of_lanes(&self, lanes: &[u32]) -> Option<Self> {
        let is_chosen = |share: &&LaneShare| lanes.binary_search(&share.lane).is_ok();
        let chosen: Vec<LaneShare> = self.lanes.iter().filter(is_chosen).cloned().collect();
        if chosen.is_empty() || !chosen.iter().map(|share| share.lane).eq(lanes.iter().copied()) {
            return None;
        }
        let rows = chosen.iter().map(|share| share.part.end - share.part.start).sum();
        let cut = Cut { remainder: Remainder::Drop, ..self.cut };
        Some(Self { cut, share: 0..rows, lanes: chosen })
    }

    /// What it reads of the lane at a place of [`lanes`](Self::lanes) in a whole step, or would if there were
    /// one more.
    pub(crate) fn piece(&self, place: usize, step: u64) -> Piece {
        self.lanes[place].piece(step)
    }

    /// What this rank reads of a step; `None` from the epoch's end on.
    pub fn step(&self, step: u64) -> Option<StepShare> {
        if step >= self.steps() {
            return None;
        }
        if step == self.cut.whole_steps() {
            return Some(StepShare::Remainder(self.remainder_share()));
        }
        let pieces = self.lanes.iter().map(|share| share.piece(step)).collect();
        Some(StepShare::Lanes(pieces))
    }

    fn remainder_share(&self) -> RemainderShare {
        let available = self.cut.remainder_rows();
        let share = match self.cut.remainder {
            Remainder::Pad => self.share.clone(),
            Remainder::Keep | Remainder::Drop => {
                self.share.start.min(available)..self.share.end.min(available)
            }
        };
        RemainderShare { share, available }
    }
}

/// A rank's positions in every global batch.
pub fn share_of(batch_size: u64, world_size: WorldSize, rank: Rank) -> Range<u64> {
    let (rank, world) = (u128::from(rank.get()), u128::from(world_size.get()));
    let bound = |rank: u128| (rank * u128::from(batch_size) / world) as u64;
    bound(rank)..bound(rank + 1)
}

impl LaneShare {
    fn piece(&self, step: u64) -> Piece {
        let run = step * self.width;
        Piece { lane: self.lane, positions: run + self.part.start..run + self.part.end }
    }
}

impl StepShare {
    /// Rows of the share, padding included.
    pub fn rows(&self) -> u64 {
        match self {
            Self::Lanes(pieces) => pieces.iter().map(|p| p.positions.end - p.positions.start).sum(),
            Self::Remainder(share) => share.rows(),
        }
    }

    /// How many of the rows, counted from the first, are not padding.
    pub fn valid_rows(&self) -> u64 {
        match self {
            Self::Lanes(_) => self.rows(),
            Self::Remainder(share) => share.valid_rows(),
        }
    }
}

impl RemainderShare {
    /// Rows of the share, padding included; under `keep` perhaps none.
    pub fn rows(&self) -> u64 {
        self.share.end - self.share.start
    }

    /// How many of the rows, counted from the first, are not padding.
    pub fn valid_rows(&self) -> u64 {
        self.share.end.min(self.available).saturating_sub(self.share.start)
    }

    /// The positions of the remainder that must be read, to be located with
    /// [`EpochPlan::locate_remainder`](crate::plan::EpochPlan::locate_remainder).
    pub fn source(&self) -> Range<u64> {
        if self.share.is_empty() {
            return 0..0;
        }
        let (first, last) = (self.share.start / self.available, (self.share.end - 1) / self.available);
        if first == last {
            self.share.start % self.available..(self.share.end - 1) % self.available + 1
        } else {
            0..self.available
        }
    }

    /// For every row of the share, in order, which row of [`source`](Self::source) it is: the remainder
    /// is repeated from its first row as often as the batch needs.
    pub fn picks(&self) -> impl ExactSizeIterator<Item = u64> + use<> {
        let (start, available, source) = (self.share.start, self.available, self.source());
        let rows = usize::try_from(self.rows()).expect("a batch that fits memory");
        (0..rows).map(move |i| (start + i as u64) % available - source.start)
    }
}
