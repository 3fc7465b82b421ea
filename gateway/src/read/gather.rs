//! Rows taken from lanes, made one batch.
//!
//! In: slices of decoded batches, and places in windows. Out: one record batch of those rows in that
//! order, or the slices as they are. The promise: one slice alone is not copied, anything else is copied once. It
//! waits for nothing: call [`Gathered::batch`] on the CPU pool, unless the rows are in place.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, BooleanArray, RecordBatchOptions};
use arrow::compute::{cast, concat_batches, interleave, interleave_record_batch};
use arrow::datatypes::{FieldRef, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use tokio::sync::OwnedSemaphorePermit;

use super::ReadError;
use super::mixed::Pattern;
use super::share::Room;

/// A window of a lane, decoded: the rows as they lie in files, and the order in which they are fed.
pub(crate) struct Window {
    pub(crate) batches: Vec<RecordBatch>,
    /// For every position of the window, the batch and the row in it.
    pub(crate) picks: Vec<(u32, u32)>,
    pub(crate) _held: Held,
}

/// What a window gives back when its last row has been copied out: the slot that lets the lane read its next
/// one, and room if it is larger than was foreseen.
pub(crate) type Held = (Option<OwnedSemaphorePermit>, Option<Room>);

/// Some neighbouring rows of a lane.
pub(crate) enum Taken {
    Rows(RecordBatch),
    Picks { window: Arc<Window>, range: Range<usize> },
}

/// The rows of one part of a step, not yet in one place.
pub(crate) struct Gathered {
    pub(crate) step: u64,
    /// Parts of the same step that are meant to follow.
    pub(crate) more: u64,
    pub(crate) rows: u64,
    pub(crate) taken: Vec<Taken>,
    /// Of a mixture, in which order they come; `None` is as they were taken.
    pub(super) pattern: Option<Pattern>,
    /// With a column at the end that tells padding apart: how many rows, from the first, are none.
    pub(crate) valid_rows: Option<u64>,
    /// Of the batch, that column included.
    pub(crate) schema: SchemaRef,
}

impl Gathered {
    /// The rows where they lie, if that is in their order and needs nothing beside it.
    pub(crate) fn in_place(&self) -> Option<Vec<&RecordBatch>> {
        let is_as_taken = self.pattern.is_none() && self.valid_rows.is_none();
        is_as_taken.then(|| slices(&self.taken)).flatten()
    }

    /// Puts the rows into one batch.
    pub(crate) fn batch(self) -> Result<RecordBatch, ReadError> {
        if let Some(pattern) = &self.pattern {
            return mix(&self.schema, &self.taken, &pattern.order()).map_err(ReadError::Gather);
        }
        let Some(valid) = self.valid_rows else {
            return join(&self.schema, &self.taken).map_err(ReadError::Gather);
        };
        let last = self.schema.fields().len() - 1;
        let without: Vec<usize> = (0..last).collect();
        let schema = Arc::new(self.schema.project(&without).map_err(ReadError::Gather)?);
        let batch = join(&schema, &self.taken).map_err(ReadError::Gather)?;
        let flags: BooleanArray = (0..self.rows).map(|row| Some(row < valid)).collect();
        let mut columns = batch.columns().to_vec();
        columns.push(Arc::new(flags));
        RecordBatch::try_new(self.schema, columns).map_err(ReadError::Gather)
    }
}

/// The batches of rows none of which is of a window.
fn slices(taken: &[Taken]) -> Option<Vec<&RecordBatch>> {
    let slices = taken.iter().map(|taken| match taken {
        Taken::Rows(batch) => Some(batch),
        Taken::Picks { .. } => None,
    });
    slices.collect()
}

/// Joins rows in order.
pub(crate) fn join(schema: &SchemaRef, taken: &[Taken]) -> Result<RecordBatch, ArrowError> {
    if let [Taken::Rows(batch)] = taken {
        return Ok(batch.clone());
    }
    match slices(taken) {
        Some(slices) => concat_batches(schema, slices),
        None => {
            let (batches, picks) = places(taken);
            interleave_record_batch(&batches, &picks)
        }
    }
}

/// Rows of several datasets, put in order under a schema that is theirs but for nulls that only some may hold, and
/// for what the items of lists are called.
fn mix(schema: &SchemaRef, taken: &[Taken], order: &[usize]) -> Result<RecordBatch, ArrowError> {
    let (batches, places) = places(taken);
    let picks: Vec<(usize, usize)> = order.iter().map(|&row| places[row]).collect();
    let column = |(index, field): (usize, &FieldRef)| {
        let parts = batches.iter().map(|batch| match batch.column(index) {
            column if column.data_type() == field.data_type() => Ok(Arc::clone(column)),
            column => cast(column, field.data_type()),
        });
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        interleave(&parts, &picks)
    };
    let columns = schema.fields().iter().enumerate().map(column).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(order.len()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

/// The batches that rows lie in; for every row, in order, which one it is and where.
fn places(taken: &[Taken]) -> (Vec<&RecordBatch>, Vec<(usize, usize)>) {
    let mut batches: Vec<&RecordBatch> = Vec::new();
    let mut picks: Vec<(usize, usize)> = Vec::new();
    for taken in taken {
        let base = batches.len();
        match taken {
            Taken::Rows(batch) => {
                batches.push(batch);
                picks.extend((0..batch.num_rows()).map(|row| (base, row)));
            }
            Taken::Picks { window, range } => {
                batches.extend(&window.batches);
                let places = &window.picks[range.clone()];
                picks.extend(places.iter().map(|&(batch, row)| (base + batch as usize, row as usize)));
            }
        }
    }
    (batches, picks)
}
