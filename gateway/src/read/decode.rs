//! Rows of one row group, a batch at a time.
//!
//! In: a footer, which rows and columns are wanted, and on demand the bytes they lie in. Out: record
//! batches of exactly those rows, in order. The promise: it never waits and never reads a file; a page
//! that cannot be decoded is an error that names file, row group and column. It knows no order of blocks
//! and no thread: whoever calls [`Decoder::next`] does so on the CPU pool.
//!
//! Lists of numbers have a path of their own ([`column`]); everything else, and whatever that path finds
//! odd, is read by parquet's own reader, from the very row where the other stopped.

mod column;
mod counted;
mod decompress;
mod delta;
mod element;
mod general;
mod levels;
mod lookup;
mod pages;
mod runs;
mod split;
mod steps;
#[cfg(test)]
mod tests;
mod unpack;
mod values;

use std::ops::Range;

use arrow::array::{Array as _, RecordBatchOptions};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, RowSelection};
use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader as _;

use self::general::General;
use self::pages::Held;
use self::split::Split;

/// Which rows of which row group, and which of its columns.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub(crate) footer: ArrowReaderMetadata,
    pub(crate) row_group: usize,
    pub(crate) columns: ProjectionMask,
    /// `None` wants all rows; rows behind the last selector are not wanted.
    pub(crate) rows: Option<RowSelection>,
}

/// A row group being decoded.
pub(crate) struct Decoder {
    wanted: Wanted,
    batch_rows: usize,
    held: Held,
    way: Way,
}

/// Who decodes.
enum Way {
    /// Lists here, the other columns by parquet's own reader.
    Split(Box<Split>),
    Whole(General),
}

/// What a decoder has to say.
pub(crate) enum Next {
    /// It cannot go on without these bytes of the file: push exactly these.
    Needs(Vec<Range<u64>>),
    Rows(RecordBatch),
    Done,
}

/// What the path for lists does not decode, or finds other than it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Odd {
    /// Nobody hears of it as an error: parquet's own reader is asked next, and knows better or says what
    /// is wrong.
    #[error("{0}")]
    Other(&'static str),
    /// The one thing that is not left to parquet's own reader: it would look for these levels for ever.
    #[error("the levels of a page end before its values do")]
    CutLevels,
}

impl Decoder {
    /// A decoder that gives at most `batch_rows` rows at a time.
    pub(crate) fn new(wanted: Wanted, batch_rows: usize) -> Result<Self, ParquetError> {
        let way = match Split::new(&wanted, batch_rows)? {
            Some(split) => Way::Split(Box::new(split)),
            None => Way::whole(&wanted, wanted.rows.clone(), batch_rows)?,
        };
        Ok(Self { wanted, batch_rows, held: Held::default(), way })
    }

    pub(crate) fn next(&mut self) -> Result<Next, ParquetError> {
        loop {
            match &mut self.way {
                Way::Whole(decoder) => return decoder.advance(&self.held),
                Way::Split(split) => match split.next(&self.wanted, &self.held)? {
                    Ok(next) => return Ok(next),
                    Err(odd @ Odd::CutLevels) => return Err(ParquetError::General(odd.to_string())),
                    Err(odd @ Odd::Other(_)) => {
                        let row_group = self.wanted.row_group;
                        tracing::debug!(row_group, reason = %odd, "lists are left to the general reader");
                        self.way = Way::whole(&self.wanted, Some(split.rest()), self.batch_rows)?;
                    }
                },
            }
        }
    }

    /// Goes on with the bytes of ranges that were needed.
    pub(crate) fn push(&mut self, ranges: Vec<Range<u64>>, bytes: Vec<Bytes>) -> Result<(), ParquetError> {
        let are_whole = |(range, bytes): (&Range<u64>, &Bytes)| range.end - range.start == bytes.len() as u64;
        if !ranges.iter().zip(&bytes).all(are_whole) {
            return Err(ParquetError::EOF("the file ends before its column does".to_owned()));
        }
        match &mut self.way {
            Way::Whole(decoder) => decoder.push(ranges, bytes),
            // Kept here: whoever goes on with these rows needs them, too.
            Way::Split(_) => {
                self.held.add(ranges, bytes);
                Ok(())
            }
        }
    }
}

impl Way {
    fn whole(wanted: &Wanted, rows: Option<RowSelection>, batch_rows: usize) -> Result<Self, ParquetError> {
        General::new(wanted, wanted.columns.clone(), rows, batch_rows).map(Self::Whole)
    }
}

/// Gives back what the decoder's buffers grew beyond their content: a window keeps them for long.
fn fitted(batch: RecordBatch) -> RecordBatch {
    let (schema, mut columns, rows) = batch.into_parts();
    columns.iter_mut().for_each(|column| column.shrink_to_fit());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options).expect("the same columns under their schema")
}

/// Decodes a whole file that is in memory as streams decode it, `batch_rows` rows at a time, for benches to
/// hold beside other readers.
///
/// # Errors
/// When it is no Parquet or cannot be decoded.
pub fn decode_file(
    file: &Bytes,
    batch_rows: usize,
    mut take: impl FnMut(RecordBatch),
) -> Result<(), ParquetError> {
    let footer = ArrowReaderMetadata::load(file, ArrowReaderOptions::new())?;
    for row_group in 0..footer.metadata().num_row_groups() {
        let wanted = Wanted { footer: footer.clone(), row_group, columns: ProjectionMask::all(), rows: None };
        let mut decoder = Decoder::new(wanted, batch_rows)?;
        loop {
            match decoder.next()? {
                Next::Needs(ranges) => {
                    let cut =
                        |range: &Range<u64>| file.get_bytes(range.start, (range.end - range.start) as usize);
                    let bytes = ranges.iter().map(cut).collect::<Result<_, _>>()?;
                    decoder.push(ranges, bytes)?;
                }
                Next::Rows(batch) => take(batch),
                Next::Done => break,
            }
        }
    }
    Ok(())
}

/// The wanted leaf columns one by one, to find out which of them is broken.
pub(crate) fn by_column(wanted: &Wanted) -> Vec<(String, Wanted)> {
    let schema = wanted.footer.parquet_schema();
    (0..schema.num_columns())
        .filter(|&leaf| wanted.columns.leaf_included(leaf))
        .map(|leaf| {
            let alone = Wanted { columns: ProjectionMask::leaves(schema, [leaf]), ..wanted.clone() };
            (schema.column(leaf).path().string(), alone)
        })
        .collect()
}
