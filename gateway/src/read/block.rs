//! One block, decoded from some chunk on.
//!
//! In: a place of a block, and which of its chunks comes first. Out: chunk after chunk as batches of the source's
//! schema that own their memory. The promise: the block's compressed bytes and one chunk are held; what cannot be
//! decoded is named by file, row group and column. It does not know who wants the rows, nor how many do.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow::compute::concat_batches;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use metrics::gauge;
use parquet::errors::ParquetError;
use penstock_proto::Effort;
use rustix::time::{ClockId, clock_gettime};

use super::ahead::Coming;
use super::cache::Grid;
use super::decode::{Decoder, Next, Wanted, by_column};
use super::passing::selected;
use super::source::Place;
use super::{ReadError, Source, cpu, fetch};
use crate::compact::compact;
use crate::expression::Uncast;

/// A block being decoded.
pub(super) struct Reader {
    decoder: Decoder,
    grid: Grid,
    /// The next chunk.
    index: u64,
    /// Its first bytes, if they were sent for.
    coming: Option<Coming>,
    /// Rows beyond the last chunk, where a decoder gave others than were asked for.
    left: Option<RecordBatch>,
    /// What it waited for since that was taken last.
    effort: Effort,
}

/// What stands in the way of a decoder.
enum Broken {
    /// What it decodes.
    Page(ParquetError),
    /// Something that says itself what.
    Elsewhere(ReadError),
}

impl Broken {
    /// A value is not what is to be made of it; anything else comes of a page.
    fn computed(source: &Source, place: &Place, error: ArrowError) -> Self {
        match Uncast::of(&error) {
            Some(_) => Self::Elsewhere(ReadError::computed(source.file(place), place.row_group, error)),
            None => Self::Page(error.into()),
        }
    }
}

/// Rows of a chunk, as a decoder gives them.
struct Pieces {
    batches: Vec<RecordBatch>,
    rows: u64,
    /// How many there are to be.
    wanted: u64,
    /// Nothing is behind them.
    is_last: bool,
}

impl Reader {
    /// A reader of the chunks from `index` on.
    pub(super) async fn open(
        source: &Source,
        place: &Place,
        grid: Grid,
        index: u64,
        coming: Option<Coming>,
    ) -> Result<Self, ReadError> {
        let rows = source.selection(place, grid.chunk(index).start);
        let rows = match source.passing() {
            Some(passing) => Some(passing.locate(source.file(place), place, rows).await?),
            None => rows,
        };
        match decoder(source.wanted(place, rows), grid.chunk_rows).await {
            Ok(decoder) => Ok(Self { decoder, grid, index, coming, left: None, effort: Effort::default() }),
            Err(error) => Err(blame(source, place, error).await),
        }
    }

    pub(super) fn index(&self) -> u64 {
        self.index
    }

    /// What the chunks cost that it gave since this was called last.
    pub(super) fn take_effort(&mut self) -> Effort {
        std::mem::take(&mut self.effort)
    }

    /// The next chunk.
    pub(super) async fn next(
        mut self,
        source: &Arc<Source>,
        place: &Place,
    ) -> Result<(Self, RecordBatch), ReadError> {
        let rows = self.grid.chunk(self.index);
        let pieces = Pieces {
            batches: Vec::new(),
            rows: 0,
            wanted: rows.end - rows.start,
            is_last: self.index + 1 == self.grid.chunks(),
        };
        match self.fill(source, place, pieces).await {
            Ok((reader, mut pieces)) if pieces.rows == pieces.wanted => {
                self = reader;
                self.index += 1;
                let batch = match pieces.batches.as_slice() {
                    [_] => pieces.batches.swap_remove(0),
                    several => concat_batches(source.schema(), several).map_err(ReadError::Gather)?,
                };
                Ok((self, batch))
            }
            Ok((_, pieces)) => Err(ReadError::Rows {
                file: source.file(place).to_string(),
                row_group: place.row_group,
                expected: place.of,
                found: rows.start + pieces.rows,
            }),
            Err(Broken::Elsewhere(error)) => Err(error),
            Err(Broken::Page(error)) => Err(blame(source, place, error).await),
        }
    }

    /// Decodes until a chunk is there, or the block ends.
    async fn fill(
        mut self,
        source: &Arc<Source>,
        place: &Place,
        mut pieces: Pieces,
    ) -> Result<(Self, Pieces), Broken> {
        self.left.take().into_iter().for_each(|rest| self.left = pieces.add(rest));
        loop {
            let (of, at, asked) = (Arc::clone(source), place.clone(), Instant::now());
            let job = cpu::run(move || {
                let began = cpu_seconds();
                let needed = self.decode(&of, &at, &mut pieces);
                gauge!("penstock_gateway_decode_cpu_seconds_total").increment(cpu_seconds() - began);
                (self, pieces, needed)
            });
            let needed;
            (self, pieces, needed) = job.await.map_err(|panic| Broken::Page(panicked(panic)))?;
            self.effort.decode += asked.elapsed();
            let Some(ranges) = needed? else { return Ok((self, pieces)) };
            let asked = Instant::now();
            let bytes = come(self.coming.take(), source, place, &ranges).await.map_err(Broken::Elsewhere)?;
            self.effort.store += asked.elapsed();
            self.decoder.push(ranges, bytes).map_err(Broken::Page)?;
        }
    }

    /// Decodes as far as there are bytes; the ranges without which it cannot go on.
    fn decode(
        &mut self,
        source: &Source,
        place: &Place,
        pieces: &mut Pieces,
    ) -> Result<Option<Vec<Range<u64>>>, Broken> {
        while pieces.are_wanted() {
            match self.decoder.next().map_err(Broken::Page)? {
                Next::Needs(ranges) => return Ok(Some(ranges)),
                Next::Rows(batch) if batch.num_rows() == 0 => {}
                // Views of pages would keep them.
                Next::Rows(batch) => {
                    let arranged = source.arrange(&batch).and_then(|batch| compact(&batch));
                    self.left = pieces.add(arranged.map_err(|error| Broken::computed(source, place, error))?);
                }
                Next::Done => break,
            }
        }
        Ok(None)
    }
}

impl Pieces {
    /// Behind the last chunk there is to be nothing, which is seen by looking.
    fn are_wanted(&self) -> bool {
        self.rows < self.wanted || self.is_last && self.rows == self.wanted
    }

    /// Takes what is wanted of a batch and gives back the rest.
    fn add(&mut self, batch: RecordBatch) -> Option<RecordBatch> {
        let rows = batch.num_rows();
        let fitting = usize::try_from(self.wanted.saturating_sub(self.rows)).unwrap_or(rows).min(rows);
        if self.is_last || fitting == rows {
            self.rows += rows as u64;
            self.batches.push(batch);
            return None;
        }
        self.rows += fitting as u64;
        self.batches.push(batch.slice(0, fitting));
        Some(batch.slice(fitting, rows - fitting))
    }
}

/// The ranges that were sent for, if they are those that are needed, or else now.
async fn come(
    coming: Option<Coming>,
    source: &Source,
    place: &Place,
    ranges: &[Range<u64>],
) -> Result<Vec<bytes::Bytes>, ReadError> {
    let came = match coming {
        Some(coming) => coming.take(ranges).await,
        None => None,
    };
    match came {
        Some(came) => came,
        None => fetch(source.file(place), ranges).await,
    }
}

async fn decoder(wanted: Wanted, batch_rows: u64) -> Result<Decoder, ParquetError> {
    let batch_rows = usize::try_from(batch_rows).unwrap_or(usize::MAX);
    cpu::run(move || Decoder::new(wanted, batch_rows)).await.map_err(panicked)?
}

/// Finds the column that cannot be decoded by decoding each alone. Slow, and only on the way out.
async fn blame(source: &Source, place: &Place, error: ParquetError) -> ReadError {
    let all = source.wanted(place, Some(selected(std::slice::from_ref(&place.block_rows))));
    let mut found = (None, error);
    for (column, alone) in by_column(&all) {
        match read_through(source, place, alone).await {
            Ok(()) => {}
            Err(Broken::Page(error)) => {
                found = (Some(column), error);
                break;
            }
            Err(Broken::Elsewhere(error)) => return error,
        }
    }
    ReadError::decode(source.file(place).to_string(), place.row_group, found.0, found.1)
}

async fn read_through(source: &Source, place: &Place, wanted: Wanted) -> Result<(), Broken> {
    let batch_rows = source.need().batch_rows as u64;
    let mut decoder = decoder(wanted, batch_rows).await.map_err(Broken::Page)?;
    loop {
        let job = cpu::run(move || {
            let next = decoder.next();
            (decoder, next)
        });
        let next;
        (decoder, next) = job.await.map_err(|panic| Broken::Page(panicked(panic)))?;
        match next.map_err(Broken::Page)? {
            Next::Needs(ranges) => {
                let bytes = fetch(source.file(place), &ranges).await.map_err(Broken::Elsewhere)?;
                decoder.push(ranges, bytes).map_err(Broken::Page)?;
            }
            Next::Rows(_) => {}
            Next::Done => return Ok(()),
        }
    }
}

fn panicked(panic: cpu::Panicked) -> ParquetError {
    ParquetError::General(panic.0)
}

/// What this thread has used so far.
fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}
