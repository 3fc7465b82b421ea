//! Rows of one stretch of an epoch's sequence, forwards, block after block.
//!
//! In: a lane or the remainder, and which of its positions. Out: record batches of those rows and no
//! others, in order. The promise: one block's compressed bytes and one chunk of it are held, and of blocks to come
//! no more than there is room for. It does not know what the rows are for, nor who decoded them.

use std::ops::Range;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;

use super::ahead::{Ahead, Block, Turn};
use super::source::Area;
use super::walked::{Chunk, Walked};
use super::{ReadError, Source};

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
    pub(super) fn of(&self, positions: Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
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
    current: Option<Turn>,
    ahead: Ahead,
}

impl Rows {
    /// Reads the positions of `area` that `stripe` wants.
    pub(crate) fn new(source: Arc<Source>, area: Area, positions: Range<u64>, stripe: Stripe) -> Self {
        let chunk_rows = source.need().batch_rows as u64;
        let ahead = Ahead::new(source.need().lanes);
        Self { source, area, stripe, positions, chunk_rows, current: None, ahead }
    }

    /// The next rows; never an empty batch.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>, ReadError> {
        loop {
            let turn = match self.current.take().or_else(|| self.ahead.pop()) {
                Some(turn) => turn,
                None => match self.next_block() {
                    Some(block) => Turn::Now(Walked::new(block)),
                    None => return Ok(None),
                },
            };
            let (turn, chunk) = turn.next(&self.source, &self.stripe).await?;
            let Some(chunk) = chunk else { continue };
            self.current = Some(turn);
            self.adapt(&chunk);
            // Not before: the first rows of a stream are not to share the way with later ones.
            self.send_ahead();
            return Ok(Some(chunk.rows));
        }
    }

    /// Sends for the blocks to come and decodes them, as far as there is room. Which rows pass a filter, and so which bytes they lie
    /// in, is found in a block's turn.
    fn send_ahead(&mut self) {
        if self.source.passing().is_some() {
            return;
        }
        while self.ahead.has_place() {
            let behind = self.positions.clone();
            let Some(block) = self.next_block() else { break };
            if !self.ahead.push(&self.source, block) {
                self.positions = behind;
                break;
            }
        }
        self.ahead.decode(&self.source, &self.stripe);
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
    fn adapt(&mut self, chunk: &Chunk) {
        let bytes = chunk.bytes;
        let row_bytes = (bytes / chunk.of.max(1)).max(1);
        let batch_bytes = self.source.need().batch_bytes;
        let fitting = (batch_bytes / row_bytes).max(1);
        if bytes > batch_bytes / 8 && fitting.saturating_mul(2) < self.chunk_rows {
            self.chunk_rows = fitting;
        }
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
