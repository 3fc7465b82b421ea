//! Which rows of a block pass a filter.
//!
//! In: a file, rows of a row group, a filter. Out: a bit a row; and for a place counted among the rows that
//! pass, where these lie. The promise: only the filter's columns are fetched and decoded for it, on the CPU
//! pool, and what was counted is what is read. It knows no order.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{BooleanArray, BooleanBufferBuilder, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::Schema;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};

use super::ReadError;
use super::scan::scan;
use super::source::Place;
use crate::dataset::{File, Filter};

/// A filter and how many rows of each block pass it.
#[derive(Clone)]
pub(crate) struct Passing {
    pub(crate) filter: Arc<Filter>,
    pub(crate) counts: Arc<[u64]>,
}

impl Passing {
    /// The rows of the row group that lie at a place, of which `rows` are wanted; `None` wants all.
    pub(crate) async fn locate(
        &self,
        file: &File,
        place: &Place,
        rows: Option<RowSelection>,
    ) -> Result<RowSelection, ReadError> {
        let Range { start, end } = place.block_rows;
        let all = if place.of == end - start {
            selected(std::slice::from_ref(&place.block_rows))
        } else {
            let block = selected(std::slice::from_ref(&place.block_rows));
            let passes = passing(file, place.row_group, block, &self.filter).await?;
            let found = passes.count_set_bits() as u64;
            if found != place.of {
                let (file, row_group) = (file.to_string(), place.row_group);
                return Err(ReadError::Counted { file, row_group, expected: place.of, found });
            }
            let mut selectors = vec![RowSelector::skip(start as usize)];
            let passing = RowSelection::from_filters(&[BooleanArray::new(passes, None)]);
            selectors.extend(passing.iter().copied());
            RowSelection::from(selectors)
        };
        Ok(match rows {
            Some(rows) => all.and_then(&to_the_end(&rows, place.of)),
            None => all,
        })
    }
}

/// A selection that says of all rows whether they are wanted.
fn to_the_end(rows: &RowSelection, of: u64) -> RowSelection {
    let mut selectors: Vec<RowSelector> = rows.iter().copied().collect();
    let said: usize = selectors.iter().map(|selector| selector.row_count).sum();
    selectors.push(RowSelector::skip(of as usize - said));
    RowSelection::from(selectors)
}

/// Some rows of a row group, in rising ranges.
pub(crate) fn selected(ranges: &[Range<u64>]) -> RowSelection {
    let mut at = 0;
    let mut selectors = Vec::with_capacity(2 * ranges.len());
    for Range { start, end } in ranges {
        selectors.push(RowSelector::skip((start - at) as usize));
        selectors.push(RowSelector::select((end - start) as usize));
        at = *end;
    }
    RowSelection::from(selectors)
}

/// For each of some rows of a row group, whether it passes.
pub(crate) async fn passing(
    file: &File,
    row_group: usize,
    rows: RowSelection,
    filter: &Arc<Filter>,
) -> Result<BooleanBuffer, ReadError> {
    let count = rows.row_count();
    if filter.predicate().columns().is_empty() {
        return constant(filter, count);
    }
    let mask = filter.mask(&file.footer);
    let (filter, of) = (Arc::clone(filter), file.clone());
    let look = move |passes: &mut BooleanBufferBuilder, batch: &RecordBatch| {
        let bits = filter.passes(batch).map_err(|error| ReadError::computed(&of, row_group, error))?;
        passes.append_buffer(&bits);
        Ok(())
    };
    let none = BooleanBufferBuilder::new(0);
    let passes = scan(file, row_group, mask, rows, none, look).await?.finish();
    if passes.len() == count {
        return Ok(passes);
    }
    let (expected, found) = (count as u64, passes.len() as u64);
    Err(ReadError::Rows { file: file.to_string(), row_group, expected, found })
}

/// A filter that reads no column passes every row or none.
fn constant(filter: &Filter, rows: usize) -> Result<BooleanBuffer, ReadError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)
        .and_then(|rows| filter.passes(&rows))
        .map_err(ReadError::Gather)
}
