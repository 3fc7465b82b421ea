//! What the page index of a row group tells of a filter, stretch by stretch.
//!
//! Pages of different columns begin at different rows; between two beginnings every column is inside one page.
//! In: the index of the filter's columns. Out: the rows that must be read, and how many others pass for certain.

use std::ops::Range;

use arrow::array::{Array as _, ArrayRef, UInt64Array};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::Type;
use parquet::file::metadata::ParquetMetaData;

use super::leaf::plain_leaf;
use crate::dataset::{File, Filter};
use crate::expression::{Bounds, ColumnBounds, Verdict};

/// The page index of one row group's columns, as far as it is there.
pub(super) struct Pages {
    columns: Vec<(usize, Column)>,
    /// Rows at which a page of a column begins, rising, and the number of rows last.
    bounds: Vec<u64>,
}

/// The pages of one column.
struct Column {
    /// The first row of each.
    starts: Vec<u64>,
    low: ArrayRef,
    high: ArrayRef,
    nulls: UInt64Array,
}

/// Rows of a block that are left to read, and how many others pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Left {
    /// Of the row group; apart from each other, rising.
    pub(super) rows: Vec<Range<u64>>,
    pub(super) certain: u64,
}

impl Pages {
    /// `None` where no column of the filter has an index.
    pub(super) fn new(
        file: &File,
        metadata: &ParquetMetaData,
        row_group: usize,
        filter: &Filter,
    ) -> Option<Self> {
        let columns: Vec<(usize, Column)> = filter
            .predicate()
            .columns()
            .iter()
            .filter_map(|&place| Some((place, Column::new(file, metadata, row_group, place)?)))
            .collect();
        if columns.is_empty() {
            return None;
        }
        let mut bounds: Vec<u64> = columns.iter().flat_map(|(_, column)| column.starts.clone()).collect();
        bounds.push(u64::try_from(metadata.row_group(row_group).num_rows()).ok()?);
        bounds.sort_unstable();
        bounds.dedup();
        Some(Self { columns, bounds })
    }

    /// What is left of a block.
    pub(super) fn left(&self, block: &Range<u64>, filter: &Filter) -> Left {
        let mut left = Left { rows: Vec::new(), certain: 0 };
        for pair in self.bounds.windows(2) {
            let rows = pair[0].max(block.start)..pair[1].min(block.end);
            if rows.is_empty() {
                continue;
            }
            match filter.predicate().prune(&Stretch { pages: self, rows: rows.clone() }) {
                Verdict::None => {}
                Verdict::All => left.certain += rows.end - rows.start,
                Verdict::Some => match left.rows.last_mut() {
                    Some(last) if last.end == rows.start => last.end = rows.end,
                    _ => left.rows.push(rows),
                },
            }
        }
        left
    }
}

impl Column {
    fn new(file: &File, metadata: &ParquetMetaData, row_group: usize, place: usize) -> Option<Self> {
        let (leaf, name) = plain_leaf(file, place)?;
        let schema = file.footer.parquet_schema();
        if schema.column(leaf).physical_type() == Type::INT96 {
            return None;
        }
        let index = metadata.page_index()?;
        index.column_index(row_group, leaf)?;
        let pages = index.offset_index(row_group, leaf)?.page_locations();
        let starts: Option<Vec<u64>> =
            pages.iter().map(|page| u64::try_from(page.first_row_index).ok()).collect();
        let starts = starts.filter(|starts| starts.first() == Some(&0) && starts.is_sorted())?;
        let converter = StatisticsConverter::try_new(name, file.footer.schema(), schema)
            .ok()?
            .with_missing_null_counts_as_zero(false);
        let column = Self {
            low: converter.data_page_mins(index.as_ref(), [&row_group]).ok()?,
            high: converter.data_page_maxes(index.as_ref(), [&row_group]).ok()?,
            nulls: converter.data_page_null_counts(index.as_ref(), [&row_group]).ok()?,
            starts,
        };
        let pages = column.starts.len();
        let is_whole = [column.low.len(), column.high.len(), column.nulls.len()] == [pages; 3];
        is_whole.then_some(column)
    }
}

/// Rows that lie in one page of every column.
struct Stretch<'a> {
    pages: &'a Pages,
    rows: Range<u64>,
}

impl Bounds for Stretch<'_> {
    fn column(&self, place: usize) -> ColumnBounds {
        let rows = self.rows.end - self.rows.start;
        let Some((_, column)) = self.pages.columns.iter().find(|(known, _)| *known == place) else {
            return ColumnBounds { rows, ..ColumnBounds::default() };
        };
        let page = column.starts.partition_point(|&start| start <= self.rows.start) - 1;
        let end = column.starts.get(page + 1).or(self.pages.bounds.last()).copied().unwrap_or(0);
        let of_page = end.saturating_sub(column.starts[page]);
        // Of a part of a page only this is known: that none is NULL, or all are.
        let nulls = column.nulls.is_valid(page).then(|| column.nulls.value(page));
        let nulls = match nulls {
            Some(0) => Some(0),
            Some(nulls) if nulls == of_page => Some(rows),
            _ => None,
        };
        ColumnBounds { range: Some((column.low.slice(page, 1), column.high.slice(page, 1))), nulls, rows }
    }
}
