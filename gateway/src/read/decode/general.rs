//! Parquet's own reader, kept from looking for ever.
//!
//! In: which rows of which columns are wanted, and the bytes as they come. Out: batches of them. The promise:
//! it ends, whatever the bytes are. Asked to skip rows of a column that repeats, parquet's reader looks for the
//! levels that a page promises and does not notice that they have ended; where that can happen the pages pass
//! through a hand that counts their levels first. It does not know who decodes the other columns.

use std::ops::Range;

use bytes::Bytes;
use parquet::DecodeResult;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, RowGroups, RowSelection, RowSelector,
};
use parquet::arrow::push_decoder::{ParquetPushDecoder, ParquetPushDecoderBuilder, RowGroupSelection};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::column::page::{PageIterator, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use super::counted::Counted;
use super::pages::{Chunk, Held};
use super::{Next, Wanted, fitted};

/// Columns being decoded by parquet's own reader.
pub(super) enum General {
    Plain(Box<ParquetPushDecoder>),
    /// Rows are skipped of columns that repeat.
    Counted(Box<Group>),
}

/// A row group whose pages are counted.
pub(super) struct Group {
    footer: ArrowReaderMetadata,
    row_group: usize,
    columns: ProjectionMask,
    rows: RowSelection,
    batch_rows: usize,
    chunks: Vec<Chunk>,
    pushed: Held,
    open: Option<ParquetRecordBatchReader>,
}

impl General {
    pub(super) fn new(
        wanted: &Wanted,
        columns: ProjectionMask,
        rows: Option<RowSelection>,
        batch_rows: usize,
    ) -> Result<Self, ParquetError> {
        if let Some(rows) = &rows
            && skips(rows)
            && repeats(wanted, &columns)
        {
            let group = Group::new(wanted, columns, rows.clone(), batch_rows);
            return Ok(Self::Counted(Box::new(group)));
        }
        Self::plain(wanted, columns, rows, batch_rows)
    }

    /// Without a guard.
    pub(super) fn plain(
        wanted: &Wanted,
        columns: ProjectionMask,
        rows: Option<RowSelection>,
        batch_rows: usize,
    ) -> Result<Self, ParquetError> {
        ParquetPushDecoderBuilder::new_with_metadata(wanted.footer.clone())
            .with_projection(columns)
            .with_batch_size(batch_rows)
            .with_row_group_selections(vec![RowGroupSelection::new(wanted.row_group, rows)])
            .build()
            .map(|decoder| Self::Plain(Box::new(decoder)))
    }

    /// What is next, given what is held already.
    pub(super) fn advance(&mut self, held: &Held) -> Result<Next, ParquetError> {
        let decoder = match self {
            Self::Counted(group) => return group.advance(held),
            Self::Plain(decoder) => decoder,
        };
        loop {
            match decoder.try_decode()? {
                DecodeResult::NeedsData(ranges) => {
                    match ranges.iter().map(|range| held.find(range)).collect::<Option<Vec<_>>>() {
                        Some(bytes) => decoder.push_ranges(ranges, bytes)?,
                        None => return Ok(Next::Needs(ranges)),
                    }
                }
                DecodeResult::Data(batch) => return Ok(Next::Rows(fitted(batch))),
                DecodeResult::Finished => return Ok(Next::Done),
            }
        }
    }

    pub(super) fn push(&mut self, ranges: Vec<Range<u64>>, bytes: Vec<Bytes>) -> Result<(), ParquetError> {
        match self {
            Self::Plain(decoder) => decoder.push_ranges(ranges, bytes),
            Self::Counted(group) => {
                group.pushed.add(ranges, bytes);
                Ok(())
            }
        }
    }
}

/// Whether any row before a wanted one is not.
fn skips(rows: &RowSelection) -> bool {
    let mut steps = rows.iter().filter(|step| step.row_count > 0);
    steps.any(|step| step.skip) && steps.any(|step| !step.skip)
}

fn repeats(wanted: &Wanted, columns: &ProjectionMask) -> bool {
    let schema = wanted.footer.parquet_schema();
    (0..schema.num_columns())
        .any(|leaf| columns.leaf_included(leaf) && schema.column(leaf).max_rep_level() > 0)
}

impl Group {
    fn new(wanted: &Wanted, columns: ProjectionMask, rows: RowSelection, batch_rows: usize) -> Self {
        // Of many short runs the reader decodes what lies between, too.
        let covering = covering(&rows);
        let (footer, row_group) = (wanted.footer.clone(), wanted.row_group);
        let leaves = (0..footer.parquet_schema().num_columns()).filter(|&leaf| columns.leaf_included(leaf));
        let chunks = leaves.map(|leaf| Chunk::of_any(&footer, row_group, leaf, &covering)).collect();
        Self { footer, row_group, columns, rows, batch_rows, chunks, pushed: Held::default(), open: None }
    }

    fn advance(&mut self, held: &Held) -> Result<Next, ParquetError> {
        let reader = match &mut self.open {
            Some(reader) => reader,
            None => {
                let ranges = self.chunks.iter().flat_map(Chunk::ranges);
                let is_missing = |range: &Range<u64>| held.find(range).or(self.pushed.find(range)).is_none();
                let missing: Vec<_> = ranges.filter(|range| is_missing(range)).cloned().collect();
                if !missing.is_empty() {
                    return Ok(Next::Needs(missing));
                }
                self.pushed.extend(held);
                let reader = self.reader()?;
                // The pages' readers have their own shares of it.
                self.pushed = Held::default();
                self.open.insert(reader)
            }
        };
        match reader.next().transpose()? {
            Some(batch) => Ok(Next::Rows(fitted(batch))),
            None => Ok(Next::Done),
        }
    }

    fn reader(&self) -> Result<ParquetRecordBatchReader, ParquetError> {
        let fields = self.footer.schema().fields();
        let schema = self.footer.parquet_schema();
        let levels = parquet_to_arrow_field_levels(schema, self.columns.clone(), Some(fields))?;
        ParquetRecordBatchReader::try_new_with_row_groups(
            &levels,
            self,
            self.batch_rows,
            Some(self.rows.clone()),
        )
    }
}

/// From the first row that is wanted to the last.
fn covering(rows: &RowSelection) -> RowSelection {
    let (mut at, mut first, mut end) = (0, None, 0);
    for step in rows.iter() {
        if !step.skip && step.row_count > 0 {
            first.get_or_insert(at);
            end = at + step.row_count;
        }
        at += step.row_count;
    }
    let first = first.unwrap_or(end);
    vec![RowSelector::skip(first), RowSelector::select(end - first)].into()
}

impl RowGroups for Group {
    fn num_rows(&self) -> usize {
        usize::try_from(self.footer.metadata().row_group(self.row_group).num_rows()).unwrap_or(0)
    }

    fn column_chunks(&self, leaf: usize) -> Result<Box<dyn PageIterator>, ParquetError> {
        let chunk = self.chunks.iter().find(|chunk| chunk.leaf() == leaf);
        let chunk = chunk.ok_or_else(|| ParquetError::General(format!("column {leaf} is not wanted")))?;
        let pages = chunk.clone().reader(&self.footer, self.row_group, &self.pushed)?;
        let level = self.footer.parquet_schema().column(leaf).max_rep_level();
        Ok(Box::new(Only(Some(Box::new(Counted::new(pages, level))))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.footer.metadata().row_group(self.row_group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.footer.metadata()
    }
}

/// The chunk of one row group.
struct Only(Option<Box<dyn PageReader>>);

impl Iterator for Only {
    type Item = Result<Box<dyn PageReader>, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageIterator for Only {}
