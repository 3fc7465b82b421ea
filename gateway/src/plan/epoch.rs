//! One epoch of a plan: from a position in a lane to rows of blocks.

use std::ops::Range;

use penstock_proto::Shuffle;

use super::random::{Domain, draw, permutation};
use super::{Cut, Plan};

/// The order of one epoch. Made in O(blocks), asked in O(log blocks) at any position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochPlan {
    cut: Cut,
    seed: u64,
    epoch: u64,
    /// Blocks that hold rows, in this epoch's order.
    blocks: Vec<u32>,
    /// Where the block at the same place ends in the sequence: strictly rising, the last is N.
    ends: Vec<u64>,
    /// Where the remainder begins in the sequence, which is a ring to it.
    remainder_start: u64,
}

/// Some neighbouring rows of one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockRange {
    pub block: u32,
    /// Rows counted from the block's first.
    pub rows: Range<u64>,
}

/// A stretch of a lane inside which rows change places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Positions of the lane that the window covers, before and after the permutation.
    pub positions: Range<u64>,
    /// At position `positions.start + i` comes the row that lay at `positions.start + permutation[i]`.
    /// `None` where rows keep their order.
    pub permutation: Option<Vec<u32>>,
}

impl EpochPlan {
    pub(super) fn new(plan: &Plan, epoch: u64) -> Self {
        let count = u32::try_from(plan.blocks.len()).expect("the plan counted its blocks");
        let places = match plan.shuffle {
            Shuffle::None => (0..count).collect(),
            Shuffle::Blocks | Shuffle::Rows => permutation(Domain::Blocks, &[plan.seed, epoch], count),
        };
        let mut end = 0;
        let (blocks, ends) = places
            .into_iter()
            .map(|place| {
                let (block, rows) = plan.blocks[place as usize];
                end += rows;
                (block, end)
            })
            .unzip();
        let remainder_start = if plan.drops_others_every_epoch() {
            draw(Domain::Remainder, &[plan.seed, epoch], plan.cut.rows)
        } else {
            plan.cut.rows - plan.cut.remainder_rows()
        };
        Self { cut: plan.cut, seed: plan.seed, epoch, blocks, ends, remainder_start }
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Rows of a lane. Its positions count from 0 to this.
    pub fn lane_rows(&self, lane: u32) -> u64 {
        let stretch = self.cut.stretch(lane);
        stretch.end - stretch.start
    }

    /// The positions of a lane that a whole step takes.
    pub fn run(&self, lane: u32, step: u64) -> Range<u64> {
        let slice = self.cut.slice(lane);
        let width = slice.end - slice.start;
        step * width..(step + 1) * width
    }

    /// The number of the window that holds a position of a lane.
    pub fn window_at(&self, position: u64) -> u64 {
        self.cut.window_rows.map_or(0, |rows| position / rows)
    }

    /// A window of a lane; where rows keep their order the lane is one window. Its cost is its rows', not
    /// its index's. Beyond the lane's end it covers nothing.
    pub fn window(&self, lane: u32, index: u64) -> Window {
        let end = self.lane_rows(lane);
        let Some(rows) = self.cut.window_rows else {
            let start = if index == 0 { 0 } else { end };
            return Window { positions: start..end, permutation: None };
        };
        let start = index.saturating_mul(rows).min(end);
        let positions = start..start.saturating_add(rows).min(end);
        let len = u32::try_from(positions.end - positions.start).expect("a window is below 2^32 rows");
        let key = [self.seed, self.epoch, u64::from(lane), index];
        Window { positions, permutation: Some(permutation(Domain::Window, &key, len)) }
    }

    /// The rows that lie at some positions of a lane before windows are permuted, in order.
    ///
    /// # Panics
    /// When the positions reach beyond the lane.
    pub fn locate(&self, lane: u32, positions: Range<u64>) -> impl Iterator<Item = BlockRange> + '_ {
        let stretch = within(self.cut.stretch(lane), positions);
        // Rows of the remainder that lie at the ring's beginning come before all lanes.
        let head = self.remainder_head();
        let gap = self.remainder_start;
        let behind = self.cut.remainder_rows() - head;
        let (start, end) = (stretch.start + head, stretch.end + head);
        let before = start.min(gap)..end.min(gap);
        let after = start.max(gap)..end.max(gap);
        self.find(before).chain(self.find(after.start + behind..after.end + behind))
    }

    /// The rows that lie at some positions of the remainder, in order; positions count from 0 to N mod B.
    ///
    /// # Panics
    /// When the positions reach beyond the remainder.
    pub fn locate_remainder(&self, positions: Range<u64>) -> impl Iterator<Item = BlockRange> + '_ {
        let Range { start, end } = within(0..self.cut.remainder_rows(), positions);
        let before = self.cut.remainder_rows() - self.remainder_head();
        let tail = self.remainder_start + start.min(before)..self.remainder_start + end.min(before);
        self.find(tail).chain(self.find(start.max(before) - before..end.max(before) - before))
    }

    /// How many of the remainder's rows lie at the sequence's beginning, its others being the last.
    fn remainder_head(&self) -> u64 {
        self.cut.remainder_rows().saturating_sub(self.cut.rows - self.remainder_start)
    }

    /// The rows that lie at some places of the sequence, in order.
    fn find(&self, Range { start: mut at, end }: Range<u64>) -> impl Iterator<Item = BlockRange> + '_ {
        let mut place = self.ends.partition_point(|&block_end| block_end <= at);
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let block_start = if place == 0 { 0 } else { self.ends[place - 1] };
            let until = end.min(self.ends[place]);
            let found = BlockRange { block: self.blocks[place], rows: at - block_start..until - block_start };
            at = until;
            place += 1;
            Some(found)
        })
    }
}

/// Some positions of a stretch, counted as the stretch is.
fn within(stretch: Range<u64>, positions: Range<u64>) -> Range<u64> {
    assert!(
        positions.start <= positions.end && positions.end <= stretch.end - stretch.start,
        "positions {positions:?} are not in a stretch of {} rows",
        stretch.end - stretch.start
    );
    stretch.start + positions.start..stretch.start + positions.end
}
