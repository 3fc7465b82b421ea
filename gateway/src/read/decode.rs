//! Rows of one row group, a batch at a time.
//!
//! In: a footer, which rows and columns are wanted, and on demand the bytes they lie in. Out: record
//! batches of exactly those rows, in order. The promise: it never waits and never reads a file; a page
//! that cannot be decoded is an error that names file, row group and column. It knows no order of blocks
//! and no thread: whoever calls [`Decoder::next`] does so on the CPU pool.

use std::ops::Range;

use arrow::array::{Array as _, RecordBatchOptions};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use parquet::DecodeResult;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, RowSelection};
use parquet::arrow::push_decoder::{ParquetPushDecoder, ParquetPushDecoderBuilder, RowGroupSelection};
use parquet::errors::ParquetError;

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
pub(crate) struct Decoder(ParquetPushDecoder);

/// What a decoder has to say.
pub(crate) enum Next {
    /// It cannot go on without these bytes of the file: push exactly these.
    Needs(Vec<Range<u64>>),
    Rows(RecordBatch),
    Done,
}

impl Decoder {
    /// A decoder that gives at most `batch_rows` rows at a time.
    pub(crate) fn new(wanted: Wanted, batch_rows: usize) -> Result<Self, ParquetError> {
        ParquetPushDecoderBuilder::new_with_metadata(wanted.footer)
            .with_projection(wanted.columns)
            .with_batch_size(batch_rows)
            .with_row_group_selections(vec![RowGroupSelection::new(wanted.row_group, wanted.rows)])
            .build()
            .map(Self)
    }

    pub(crate) fn next(&mut self) -> Result<Next, ParquetError> {
        Ok(match self.0.try_decode()? {
            DecodeResult::NeedsData(ranges) => Next::Needs(ranges),
            DecodeResult::Data(batch) => Next::Rows(fitted(batch)),
            DecodeResult::Finished => Next::Done,
        })
    }

    pub(crate) fn push(&mut self, ranges: Vec<Range<u64>>, bytes: Vec<Bytes>) -> Result<(), ParquetError> {
        self.0.push_ranges(ranges, bytes)
    }
}

/// Gives back what the decoder's buffers grew beyond their content: a window keeps them for long.
fn fitted(batch: RecordBatch) -> RecordBatch {
    let (schema, mut columns, rows) = batch.into_parts();
    columns.iter_mut().for_each(|column| column.shrink_to_fit());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options).expect("the same columns under their schema")
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
