//! A block being read, as far as it is wanted.
//!
//! In: a block in its turn, and which positions are wanted. Out: batches of those rows and no others, in order. The
//! promise: what lies before the first wanted row's chunk is skipped, not decoded, as far as the file allows; neighbours
//! stay where they lie. It does not know what comes behind the block.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::compute::filter_record_batch;
use arrow::record_batch::RecordBatch;

use super::ahead::Block;
use super::cache::held_bytes;
use super::rows::Stripe;
use super::shared::Walk;
use super::source::Place;
use super::{ReadError, Source, cpu};

/// A block being read.
pub(super) struct Walked {
    walk: Walk,
    place: Place,
    /// Rows of the place that are still to be read.
    rows: Range<u64>,
    /// Where the first of them lies in the stretch.
    position: u64,
}

/// Wanted rows of one chunk.
pub(super) struct Chunk {
    pub(super) rows: RecordBatch,
    /// Bytes and rows of the whole chunk.
    pub(super) bytes: u64,
    pub(super) of: u64,
}

impl Walked {
    pub(super) fn new(block: Block) -> Self {
        let Block { place, position, open } = block;
        Self { walk: Walk::new(open), rows: place.rows.clone(), place, position }
    }

    /// The next rows that `stripe` wants; never an empty batch.
    pub(super) async fn next(
        &mut self,
        source: &Arc<Source>,
        stripe: &Stripe,
    ) -> Result<Option<Chunk>, ReadError> {
        while let Some(step) = self.step() {
            let wanted: Vec<Range<u64>> = stripe.of(step.positions.clone()).collect();
            if wanted.is_empty() {
                continue;
            }
            let chunk = self.walk.chunk(source, &self.place, step.chunk).await?;
            let (bytes, of) = (held_bytes(&chunk), chunk.num_rows() as u64);
            return Ok(Some(Chunk { rows: step.cut(chunk, wanted).await?, bytes, of }));
        }
        Ok(None)
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

/// Neighbouring rows that are of one chunk.
struct Step {
    chunk: u64,
    /// The first of them in the chunk.
    first: u64,
    positions: Range<u64>,
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
