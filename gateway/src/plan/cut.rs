//! How a sequence of rows is cut into steps, lanes and windows, whatever the rows are.

use std::ops::Range;

use penstock_proto::{Remainder, Shuffle};

use super::{BlockShape, Order, PlanError};

/// More lanes than this make a batch of crumbs; a feed may still ask for them.
const MAX_CHOSEN_LANES: u64 = 64;
/// What a row costs in a window beside its own bytes: its place in the window's permutation.
const PLACE_BYTES: u128 = 4;

/// The numbers of a plan that hold for every epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// N, all rows of the sequence.
    pub(crate) rows: u64,
    /// B, rows of a global batch; at least 1.
    pub(crate) batch_size: u64,
    /// L, from 1 to B.
    pub(crate) lanes: u32,
    /// `None` unless rows are shuffled; else at least 1 and below 2^32.
    pub(crate) window_rows: Option<u64>,
    pub(crate) remainder: Remainder,
}

impl Cut {
    pub(super) fn new(blocks: &[BlockShape], order: Order) -> Result<Self, PlanError> {
        if order.batch_size == 0 {
            return Err(PlanError::EmptyBatch);
        }
        if u32::try_from(blocks.len()).is_err() {
            return Err(PlanError::TooLarge);
        }
        let rows = blocks
            .iter()
            .try_fold(0u64, |sum, block| sum.checked_add(block.rows))
            .ok_or(PlanError::TooLarge)?;
        let lanes = match order.lanes {
            None => chosen_lanes(blocks, order),
            Some(lanes) if lanes == 0 || u64::from(lanes) > order.batch_size => {
                return Err(PlanError::Lanes { lanes, batch_size: order.batch_size });
            }
            Some(lanes) if lanes > 1 && order.shuffle == Shuffle::None => {
                return Err(PlanError::LanesInFileOrder { lanes });
            }
            Some(lanes) => lanes,
        };
        let window_rows =
            (order.shuffle == Shuffle::Rows).then(|| chosen_window(blocks, rows, lanes, order.shuffle_bytes));
        Ok(Self { rows, batch_size: order.batch_size, lanes, window_rows, remainder: order.remainder })
    }

    /// S, the steps that every lane has a run in.
    pub(crate) fn whole_steps(&self) -> u64 {
        self.rows / self.batch_size
    }

    /// N mod B.
    pub(crate) fn remainder_rows(&self) -> u64 {
        self.rows % self.batch_size
    }

    pub(crate) fn steps(&self) -> u64 {
        let has_remainder = self.remainder_rows() > 0 && self.remainder != Remainder::Drop;
        self.whole_steps() + u64::from(has_remainder)
    }

    pub(crate) fn dropped(&self) -> u64 {
        if self.remainder == Remainder::Drop { self.remainder_rows() } else { 0 }
    }

    /// The positions of every whole global batch that are lane `lane`'s: [q(ℓ), q(ℓ+1)). Never empty.
    pub(crate) fn slice(&self, lane: u32) -> Range<u64> {
        let q = |lane: u64| (u128::from(lane) * u128::from(self.batch_size) / u128::from(self.lanes)) as u64;
        q(u64::from(lane))..q(u64::from(lane) + 1)
    }

    /// The lane that owns a position of a whole global batch.
    pub(crate) fn lane_at(&self, position: u64) -> u32 {
        // The largest ℓ with ⌊ℓB/L⌋ ≤ p, that is with ℓB < (p + 1)L.
        let above = (u128::from(position) + 1) * u128::from(self.lanes);
        (above.div_ceil(u128::from(self.batch_size)) - 1) as u32
    }

    /// Where lane `lane` lies in the epoch's sequence without the remainder.
    pub(crate) fn stretch(&self, lane: u32) -> Range<u64> {
        let slice = self.slice(lane);
        self.whole_steps() * slice.start..self.whole_steps() * slice.end
    }
}

/// min(B, 64, blocks that hold rows, ⌊`shuffle_bytes` / median bytes of those blocks⌋), at least 1. Of an even
/// number of blocks the median is the lower of the middle two.
fn chosen_lanes(blocks: &[BlockShape], order: Order) -> u32 {
    if order.shuffle == Shuffle::None {
        return 1;
    }
    let mut bytes: Vec<u64> = blocks.iter().filter(|block| block.rows > 0).map(|block| block.bytes).collect();
    if bytes.is_empty() {
        return 1;
    }
    let middle = (bytes.len() - 1) / 2;
    let median = *bytes.select_nth_unstable(middle).1;
    let windows = order.shuffle_bytes.checked_div(median).unwrap_or(u64::MAX);
    let lanes = order.batch_size.min(MAX_CHOSEN_LANES).min(bytes.len() as u64).min(windows).max(1);
    u32::try_from(lanes).expect("64 lanes at most")
}

/// ⌊`shuffle_bytes` · N / (L · (bytes of all blocks + 4N))⌋: an even share for every lane, divided by what a
/// mean row and its place cost. At least 1, and at most what 32-bit places can tell apart.
fn chosen_window(blocks: &[BlockShape], rows: u64, lanes: u32, shuffle_bytes: u64) -> u64 {
    let bytes: u128 = blocks.iter().map(|block| u128::from(block.bytes)).sum();
    let cost = bytes.saturating_add(PLACE_BYTES * u128::from(rows)).saturating_mul(u128::from(lanes));
    let window = (u128::from(shuffle_bytes) * u128::from(rows)).checked_div(cost).unwrap_or(0);
    window.clamp(1, u128::from(u32::MAX)) as u64
}
