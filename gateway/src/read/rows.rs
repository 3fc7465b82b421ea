//! Rows of one stretch of an epoch's sequence, forwards, block after block.
//!
//! In: a lane or the remainder, and which of its positions. Out: record batches of those rows and no
//! others, in order. The promise: one block's compressed bytes and one chunk of it are held, and of blocks to come
//! no more than there is room for; what lies before the first position's chunk is skipped, not decoded, as far as
//! the file allows. It does not know what the rows are for, nor who decoded them.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::compute::filter_record_batch;
use arrow::record_batch::RecordBatch;

use super::ahead::{Ahead, Block};
use super::cache::held_bytes;
use super::shared::Walk;
use super::source::{Area, Place};
use super::{ReadError, Source, cpu};

/// Positions p with p mod `width` in `part`: one rank's part of every run of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stripe {
    pub(crate) width: u64,
    pub(crate) part: Range<u64>,
}

impl Stripe {
    /// Everything.
    pub(crate) const WHOLE: Self = Self { width: 1, part: 0..1 };

    fn is_whole(&self) -> bool {
        self.part.end - self.part.start == self.width
    }

    /// Which of some positions are wanted, in rising ranges.
    fn of(&self, positions: Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        let Self { width, part } = self.clone();
        // Wider than any stretch where everything is wanted, so that it is one range.
        let (width, part) = if self.is_whole() { (u64::MAX, 0..u64::MAX) } else { (width, part) };
        let mut run = positions.start - positions.start % width;
        std::iter::from_fn(move || {
            while run < positions.end {
                let clamp = |offset: u64| run.saturating_add(offset).clamp(positions.start, positions.end);
                let wanted = clamp(part.start)..clamp(part.end);
                run = run.saturating_add(width);
                if !wanted.is_empty() {
                    return Some(wanted);
                }
            }
            None
        })
    }
}

/// A reader of one stretch.
pub(crate) struct Rows {
    source: Arc<Source>,
    area: Area,
    stripe: Stripe,
    /// Positions that are still to be opened.
    positions: Range<u64>,
    /// Rows of a chunk where this is the first to read a block.
    chunk_rows: u64,
    open: Option<Walked>,
    ahead: Ahead,
}

/// A block being read.
struct Walked {
    walk: Walk,
    place: Place,
    /// Rows of the place that are still to be read.
    rows: Range<u64>,
    /// Where the first of them lies in the stretch.
    position: u64,
}

impl Rows {
    /// Reads the positions of `area` that `stripe` wants.
    pub(crate) fn new(source: Arc<Source>, area: Area, positions: Range<u64>, stripe: Stripe) -> Self {
        let chunk_rows = source.need().batch_rows as u64;
        Self { source, area, stripe, positions, chunk_rows, open: None, ahead: Ahead::default() }
    }

    /// The next rows; never an empty batch.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>, ReadError> {
        loop {
            let mut open = match self.open.take() {
                Some(open) => open,
                None => match self.ahead.pop().or_else(|| self.next_block()) {
                    Some(block) => Walked::new(block),
                    None => return Ok(None),
                },
            };
            let Some(step) = open.step() else { continue };
            let wanted: Vec<Range<u64>> = self.stripe.of(step.positions.clone()).collect();
            if wanted.is_empty() {
                self.open = Some(open);
                continue;
            }
            let chunk = open.walk.chunk(&self.source, &open.place, step.chunk).await?;
            self.open = Some(open);
            self.adapt(&chunk);
            // Not before: the first rows of a stream are not to share the way with later ones.
            self.send_ahead();
            return step.cut(chunk, wanted).await.map(Some);
        }
    }

    /// Sends for the blocks to come, as far as there is room. Which rows pass a filter, and so which bytes they lie
    /// in, is found in a block's turn.
    fn send_ahead(&mut self) {
        while self.source.passing().is_none() && self.ahead.has_place() {
            let behind = self.positions.clone();
            let Some(block) = self.next_block() else { break };
            if !self.ahead.push(&self.source, block) {
                self.positions = behind;
                break;
            }
        }
    }

    /// The next block that has rows which are wanted.
    fn next_block(&mut self) -> Option<Block> {
        loop {
            let position = self.positions.start;
            let place = self.source.first_place(self.area, self.positions.clone())?;
            self.positions.start += place.rows.end - place.rows.start;
            if self.stripe.of(position..self.positions.start).next().is_some() {
                let open = self.source.open(&place, self.chunk_rows);
                return Some(Block { place, position, open });
            }
        }
    }

    /// Where rows turn out larger than the footer let expect, later blocks are read in smaller chunks. Of a few small
    /// ones nothing is learnt.
    fn adapt(&mut self, chunk: &RecordBatch) {
        let bytes = held_bytes(chunk);
        let row_bytes = (bytes / chunk.num_rows() as u64).max(1);
        let batch_bytes = self.source.need().batch_bytes;
        let fitting = (batch_bytes / row_bytes).max(1);
        if bytes > batch_bytes / 8 && fitting.saturating_mul(2) < self.chunk_rows {
            self.chunk_rows = fitting;
        }
    }
}

/// Neighbouring rows that are of one chunk.
struct Step {
    chunk: u64,
    /// The first of them in the chunk.
    first: u64,
    positions: Range<u64>,
}

impl Walked {
    fn new(block: Block) -> Self {
        let Block { place, position, open } = block;
        Self { walk: Walk::new(open), rows: place.rows.clone(), place, position }
    }

    /// The rows up to the end of a chunk or of the place.
    fn step(&mut self) -> Option<Step> {
        let Range { start, end } = self.rows;
        if start == end {
            return None;
        }
        let grid = self.walk.grid();
        let index = start / grid.chunk_rows;
        let chunk = grid.chunk(index);
        let count = end.min(chunk.end) - start;
        let positions = self.position..self.position + count;
        self.rows.start += count;
        self.position += count;
        Some(Step { chunk: index, first: start - chunk.start, positions })
    }
}

impl Step {
    /// The rows of the chunk that are wanted. Neighbours stay where they lie; others are copied, for they are few
    /// and would keep all.
    async fn cut(self, chunk: RecordBatch, wanted: Vec<Range<u64>>) -> Result<RecordBatch, ReadError> {
        let Self { first, positions, .. } = self;
        let here = |position: u64| (first + position - positions.start) as usize;
        if let [all] = wanted.as_slice()
            && *all == positions
        {
            let count = (positions.end - positions.start) as usize;
            return Ok(if count == chunk.num_rows() {
                chunk
            } else {
                chunk.slice(here(positions.start), count)
            });
        }
        let mut flags = vec![false; chunk.num_rows()];
        wanted.into_iter().for_each(|range| flags[here(range.start)..here(range.end)].fill(true));
        let copied = cpu::run(move || filter_record_batch(&chunk, &BooleanArray::from(flags))).await?;
        copied.map_err(ReadError::Gather)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stripe_chooses_its_part_of_every_run() {
        for (width, part) in [(1, 0..1), (4, 0..4), (4, 1..3), (5, 0..2), (7, 6..7)] {
            let stripe = Stripe { width, part: part.clone() };
            for positions in [0..20, 11..25, 6..7, 2..3, 7..7] {
                let expected: Vec<u64> =
                    positions.clone().filter(|position| part.contains(&(position % width))).collect();
                let chosen: Vec<u64> = stripe.of(positions.clone()).flatten().collect();
                assert_eq!(chosen, expected, "{stripe:?} {positions:?}");
            }
        }
    }
}
