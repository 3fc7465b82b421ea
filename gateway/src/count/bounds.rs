//! What a file's statistics tell of a filter, block by block: those of row groups, then those of pages.
//!
//! Statistics are only believed where they bound what they should: not those of the fields that older writers
//! filled by another order, not those of INT96, and of columns that are values themselves and no parts of lists
//! or structures. A file whose statistics cannot be had is read.

use std::ops::Range;

use arrow::array::{Array as _, ArrayRef, UInt64Array};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::Type;
use parquet::file::metadata::ParquetMetaData;

use super::leaf::plain_leaf;
use super::pages::{Left, Pages};
use crate::dataset::{Block, File, Filter, Snapshot, page_index, statistics};
use crate::expression::{Bounds, ColumnBounds, Verdict};

/// What is left to read of each of some blocks of one file.
pub(super) async fn look(snapshot: &Snapshot, blocks: Range<usize>, filter: &Filter) -> Vec<Left> {
    let blocks = &snapshot.blocks[blocks];
    let Some(first) = blocks.first() else { return Vec::new() };
    let file = &snapshot.files[first.file as usize];
    let leaves = filter.leaves(&file.footer);
    let metadata = match statistics(file, &leaves).await {
        Ok(metadata) => metadata,
        Err(error) => {
            tracing::debug!(file = %file, %error, "read without its statistics");
            return blocks.iter().map(whole).collect();
        }
    };
    let columns: Vec<(usize, Column)> = filter
        .predicate()
        .columns()
        .iter()
        .filter_map(|&place| Some((place, Column::new(file, &metadata, place)?)))
        .collect();
    let verdicts: Vec<Verdict> = blocks
        .iter()
        .map(|block| {
            let row_group = block.row_group as usize;
            let rows = block.rows.end - block.rows.start;
            let all = u64::try_from(metadata.row_group(row_group).num_rows()).unwrap_or(0);
            filter.predicate().prune(&RowGroup { columns: &columns, row_group, rows, is_whole: rows == all })
        })
        .collect();
    let paged = match verdicts.contains(&Verdict::Some) {
        true => page_index(file, metadata, &leaves).await,
        false => None,
    };
    let left = |(block, verdict): (&Block, Verdict)| match verdict {
        Verdict::None => Left { rows: Vec::new(), certain: 0 },
        Verdict::All => Left { rows: Vec::new(), certain: block.rows.end - block.rows.start },
        Verdict::Some => paged
            .as_ref()
            .and_then(|metadata| Pages::new(file, metadata, block.row_group as usize, filter))
            .map_or_else(|| whole(block), |pages| pages.left(&block.rows, filter)),
    };
    blocks.iter().zip(verdicts).map(left).collect()
}

/// Nothing is known.
fn whole(block: &Block) -> Left {
    Left { rows: vec![block.rows.clone()], certain: 0 }
}

/// A column's statistics, one value a row group.
struct Column {
    low: ArrayRef,
    high: ArrayRef,
    nulls: UInt64Array,
    /// Whether the bounds are of the order that values are compared by.
    is_ordered: Vec<bool>,
}

impl Column {
    fn new(file: &File, metadata: &ParquetMetaData, place: usize) -> Option<Self> {
        let (leaf, name) = plain_leaf(file, place)?;
        let schema = file.footer.parquet_schema();
        let groups = metadata.row_groups();
        let converter = StatisticsConverter::try_new(name, file.footer.schema(), schema)
            .ok()?
            .with_missing_null_counts_as_zero(false);
        let is_ordered = groups
            .iter()
            .map(|group| {
                let statistics = group.column(leaf).statistics();
                let is_known = statistics.is_some_and(|statistics| !statistics.is_min_max_deprecated());
                is_known && schema.column(leaf).physical_type() != Type::INT96
            })
            .collect();
        Some(Self {
            low: converter.row_group_mins(groups).ok()?,
            high: converter.row_group_maxes(groups).ok()?,
            nulls: converter.row_group_null_counts(groups).ok()?,
            is_ordered,
        })
    }
}

/// A row group, or a part of its rows.
struct RowGroup<'a> {
    columns: &'a [(usize, Column)],
    row_group: usize,
    rows: u64,
    is_whole: bool,
}

impl Bounds for RowGroup<'_> {
    fn column(&self, place: usize) -> ColumnBounds {
        let Some((_, column)) = self.columns.iter().find(|(known, _)| *known == place) else {
            return ColumnBounds { rows: self.rows, ..ColumnBounds::default() };
        };
        let at = self.row_group;
        let range = column.is_ordered[at].then(|| (column.low.slice(at, 1), column.high.slice(at, 1)));
        let nulls = column.nulls.is_valid(at).then(|| column.nulls.value(at));
        // How many of a part are NULL is only known where none or all of the row group are.
        let nulls = match nulls {
            Some(nulls) if nulls == 0 || self.is_whole => Some(nulls),
            _ => None,
        };
        ColumnBounds { range, nulls, rows: self.rows }
    }
}
