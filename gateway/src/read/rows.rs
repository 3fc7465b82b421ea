//! Rows of one stretch of an epoch's sequence, forwards, block after block.
//!
//! In: a lane or the remainder, and which of its positions. Out: record batches of those rows and no
//! others, in order. The promise: one block's compressed bytes and one batch are held, and of blocks to come no
//! more than there is room for; what lies before the first position is skipped, not decoded, as far as the file
//! allows. It does not know what the rows are for.

use std::ops::Range;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::errors::ParquetError;

use super::ahead::{Ahead, Block, Coming};
use super::decode::{Decoder, Next, Wanted, by_column};
use super::passing::selected;
use super::source::{Area, Place};
use super::{ReadError, Source, cpu, fetch};

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

    /// The rows that are wanted at a place whose first row lies at `position`, counted as the place counts;
    /// `None` wants all of them.
    fn select(&self, place: &Place, position: u64) -> Option<RowSelection> {
        let rows = place.rows.end - place.rows.start;
        if self.is_whole() && rows == place.of {
            return None;
        }
        let mut selectors = vec![RowSelector::skip(place.rows.start as usize)];
        if self.is_whole() {
            selectors.push(RowSelector::select(rows as usize));
            return Some(RowSelection::from(selectors));
        }
        let end = position + rows;
        let mut at = position;
        while at < end {
            let run = at - at % self.width;
            let (from, to) = ((run + self.part.start).clamp(at, end), (run + self.part.end).clamp(at, end));
            let next = (run + self.width).min(end);
            selectors.push(RowSelector::skip((from - at) as usize));
            selectors.push(RowSelector::select((to - from) as usize));
            selectors.push(RowSelector::skip((next - to) as usize));
            at = next;
        }
        Some(RowSelection::from(selectors))
    }
}

/// A reader of one stretch.
pub(crate) struct Rows {
    blocks: Blocks,
    area: Area,
    stripe: Stripe,
    /// Positions that are still to be opened.
    positions: Range<u64>,
    open: Option<Open>,
    ahead: Ahead,
}

/// What every block is read with. Apart from the open one, for that cannot be shared between threads.
struct Blocks {
    source: Arc<Source>,
    batch_rows: usize,
}

/// A block being read.
struct Open {
    decoder: Decoder,
    place: Place,
    /// Its first bytes, if they were sent for.
    coming: Option<Coming>,
    /// Rows that it was asked for.
    owed: u64,
    /// Rows that it gave.
    given: u64,
}

/// What stands in the way of a decoder.
enum Broken {
    /// What it decodes.
    Page(ParquetError),
    /// Something that says itself what.
    Elsewhere(ReadError),
}

impl Rows {
    /// Reads the positions of `area` that `stripe` wants.
    pub(crate) fn new(source: Arc<Source>, area: Area, positions: Range<u64>, stripe: Stripe) -> Self {
        let blocks = Blocks { batch_rows: source.need().batch_rows, source };
        Self { blocks, area, stripe, positions, open: None, ahead: Ahead::default() }
    }

    /// The next rows; never an empty batch.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>, ReadError> {
        loop {
            let mut open = match self.open.take() {
                Some(open) => open,
                None => match self.open_block().await? {
                    Some(open) => open,
                    None => return Ok(None),
                },
            };
            match self.blocks.advance(open.decoder, &open.place, open.coming.take(), true).await {
                Ok((decoder, Some(batch))) => {
                    open.decoder = decoder;
                    open.given += batch.num_rows() as u64;
                    self.blocks.adapt(&batch);
                    // Not before: the first rows of a stream are not to share the way with later ones.
                    self.send_ahead();
                    self.open = Some(open);
                    return Ok(Some(batch));
                }
                Ok((_, None)) if open.given == open.owed => {}
                Ok((_, None)) => {
                    return Err(ReadError::Rows {
                        file: self.blocks.source.file(&open.place).to_string(),
                        row_group: open.place.row_group,
                        expected: open.owed,
                        found: open.given,
                    });
                }
                Err(Broken::Elsewhere(error)) => return Err(error),
                Err(Broken::Page(error)) => return Err(self.blocks.blame(&open.place, error).await),
            }
        }
    }

    async fn open_block(&mut self) -> Result<Option<Open>, ReadError> {
        let sent_for = self.ahead.pop().map(|(block, coming)| (block, Some(coming)));
        let next = sent_for.or_else(|| Some((self.next_block()?, None)));
        let Some((Block { place, rows, owed }, coming)) = next else { return Ok(None) };
        let source = &self.blocks.source;
        let rows = match source.passing() {
            Some(passing) => Some(passing.locate(source.file(&place), &place, rows).await?),
            None => rows,
        };
        match self.blocks.decoder(source.wanted(&place, rows)).await {
            Ok(decoder) => Ok(Some(Open { decoder, place, coming, owed, given: 0 })),
            Err(error) => Err(self.blocks.blame(&place, error).await),
        }
    }

    /// Sends for the blocks to come, as far as there is room. Which rows pass a filter, and so which bytes they lie
    /// in, is found in a block's turn.
    fn send_ahead(&mut self) {
        while self.blocks.source.passing().is_none() && self.ahead.has_place() {
            let behind = self.positions.clone();
            let Some(block) = self.next_block() else { break };
            let source = &self.blocks.source;
            match source.share().room(source.stored_bytes(&block.place)) {
                Some(room) => self.ahead.push(source, room, block),
                None => {
                    self.positions = behind;
                    break;
                }
            }
        }
    }

    /// The next block that has rows which are wanted.
    fn next_block(&mut self) -> Option<Block> {
        loop {
            let position = self.positions.start;
            let place = self.blocks.source.first_place(self.area, self.positions.clone())?;
            self.positions.start += place.rows.end - place.rows.start;
            let rows = self.stripe.select(&place, position);
            let owed = rows.as_ref().map_or(place.of, |rows| rows.row_count() as u64);
            if owed > 0 {
                return Some(Block { place, rows, owed });
            }
        }
    }
}

impl Blocks {
    async fn decoder(&self, wanted: Wanted) -> Result<Decoder, ParquetError> {
        let batch_rows = self.batch_rows;
        cpu::run(move || Decoder::new(wanted, batch_rows)).await.map_err(panicked)?
    }

    /// Decodes until there is a batch, or the block ends. The batch is `arranged` as the
    /// source wants it, or left as decoded.
    async fn advance(
        &self,
        mut decoder: Decoder,
        place: &Place,
        mut coming: Option<Coming>,
        arranged: bool,
    ) -> Result<(Decoder, Option<RecordBatch>), Broken> {
        loop {
            let source = arranged.then(|| Arc::clone(&self.source));
            let job = cpu::run(move || {
                let next = decoder.next();
                let next = match (next, source) {
                    (Ok(Next::Rows(batch)), Some(source)) => {
                        source.arrange(&batch).map(Next::Rows).map_err(ParquetError::from)
                    }
                    (next, _) => next,
                };
                (decoder, next)
            });
            let (returned, next) = job.await.map_err(|panic| Broken::Page(panicked(panic)))?;
            decoder = returned;
            match next.map_err(Broken::Page)? {
                Next::Needs(ranges) => {
                    let came = match coming.take() {
                        Some(coming) => coming.take(&ranges).await,
                        None => None,
                    };
                    let bytes = match came {
                        Some(came) => came,
                        None => fetch(self.source.file(place), &ranges).await,
                    };
                    let bytes = bytes.map_err(Broken::Elsewhere)?;
                    decoder.push(ranges, bytes).map_err(Broken::Page)?;
                }
                Next::Rows(batch) if batch.num_rows() == 0 => {}
                Next::Rows(batch) => return Ok((decoder, Some(batch))),
                Next::Done => return Ok((decoder, None)),
            }
        }
    }

    /// Where rows turn out larger than the footer let expect, later blocks are read in smaller batches.
    fn adapt(&mut self, batch: &RecordBatch) {
        let bytes: usize = batch.columns().iter().map(|column| column.get_buffer_memory_size()).sum();
        let row_bytes = (bytes / batch.num_rows()).max(1) as u64;
        let fitting = (self.source.need().batch_bytes / row_bytes).max(1);
        if fitting.saturating_mul(2) < self.batch_rows as u64 {
            self.batch_rows = fitting as usize;
        }
    }

    /// Finds the column that cannot be decoded by decoding each alone. Slow, and only on the way out.
    async fn blame(&self, place: &Place, error: ParquetError) -> ReadError {
        let all = self.source.wanted(place, Some(selected(std::slice::from_ref(&place.block_rows))));
        let mut found = (None, error);
        for (column, alone) in by_column(&all) {
            match self.read_through(place, alone).await {
                Ok(()) => {}
                Err(Broken::Page(error)) => {
                    found = (Some(column), error);
                    break;
                }
                Err(Broken::Elsewhere(error)) => return error,
            }
        }
        ReadError::decode(self.source.file(place).to_string(), place.row_group, found.0, found.1)
    }

    async fn read_through(&self, place: &Place, wanted: Wanted) -> Result<(), Broken> {
        let mut decoder = self.decoder(wanted).await.map_err(Broken::Page)?;
        loop {
            let (returned, batch) = self.advance(decoder, place, None, false).await?;
            if batch.is_none() {
                return Ok(());
            }
            decoder = returned;
        }
    }
}

fn panicked(panic: cpu::Panicked) -> ParquetError {
    ParquetError::General(panic.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(stripe: &Stripe, rows: Range<u64>, position: u64) -> Vec<u64> {
        let place = Place { file: 0, row_group: 0, block: 0, block_rows: 0..20, rows, of: 20 };
        let Some(selection) = stripe.select(&place, position) else {
            return (0..20).collect();
        };
        let mut at = 0;
        let mut chosen = Vec::new();
        for selector in selection.iter() {
            let end = at + selector.row_count as u64;
            if !selector.skip {
                chosen.extend(at..end);
            }
            at = end;
        }
        chosen
    }

    #[test]
    fn a_stripe_chooses_its_part_of_every_run() {
        for (width, part) in [(1, 0..1), (4, 0..4), (4, 1..3), (5, 0..2), (7, 6..7)] {
            let stripe = Stripe { width, part: part.clone() };
            for (rows, position) in [(0..20, 0), (3..17, 11), (0..1, 6), (19..20, 2)] {
                let expected: Vec<u64> = rows
                    .clone()
                    .filter(|row| part.contains(&((row - rows.start + position) % width)))
                    .collect();
                assert_eq!(chosen(&stripe, rows.clone(), position), expected, "{stripe:?} {rows:?}");
            }
        }
    }
}
