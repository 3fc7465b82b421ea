//! Rows taken from lanes, made one batch.
//!
//! In: slices of decoded batches, and places in windows. Out: one record batch of those rows in that
//! order, or the slices as they are. The promise: one slice alone is not copied, slices and rows of wide columns are
//! copied once, other rows of windows once more, when the window is put in order. It
//! waits for nothing: call [`Gathered::batches`] on the CPU pool, unless the rows are in place.

mod copy;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatchOptions, UInt32Array, new_empty_array};
use arrow::compute::{cast, concat, interleave, take};
use arrow::datatypes::{FieldRef, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use tokio::sync::OwnedSemaphorePermit;

use self::copy::{Piece, copy};
use super::ReadError;
use super::mixed::Pattern;
use super::share::Room;
use crate::encode::encoded_bytes;

/// A column of so many bytes a row stays where it lies until a step takes from it: to copy a row costs more than to find it,
/// and a copy of the window would take as much memory again.
pub(super) const WIDE_BYTES: usize = 512;

/// A window of a lane, decoded.
pub(crate) struct Window {
    columns: Vec<Column>,
    /// For every position of the window, the row that comes there; none where no column is asked for them.
    picks: Vec<Pick>,
    rows: usize,
    _held: Held,
}

/// Which batch of a window, and which of its rows.
type Pick = (u32, u32);

/// A column of a window.
enum Column {
    /// In the order in which rows are fed. The window's rows are far apart for a step that takes some of every lane; a
    /// column alone is near enough to put in order at once.
    Ordered(ArrayRef),
    /// By batch, as the rows lie in files.
    Lying(Vec<ArrayRef>),
}

/// What a window gives back when its last row has been copied out: the slot that lets the lane read its next
/// one, and room if it is larger than was foreseen.
pub(crate) type Held = (Option<OwnedSemaphorePermit>, Option<Room>);

/// Some neighbouring rows of a lane. No batch is cut before it is known to be sent in pieces: to cut many columns costs
/// more than to copy a few rows of them.
pub(crate) enum Taken {
    Rows { batch: Arc<RecordBatch>, range: Range<usize> },
    Picks { window: Arc<Window>, range: Range<usize> },
}

impl Taken {
    /// A batch that is taken whole.
    pub(super) fn all(batch: RecordBatch) -> Self {
        let range = 0..batch.num_rows();
        Self::Rows { batch: Arc::new(batch), range }
    }

    fn rows(&self) -> usize {
        match self {
            Self::Rows { range, .. } | Self::Picks { range, .. } => range.len(),
        }
    }
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

impl Window {
    /// `permutation` says for every position which row comes there; without one they stay as they are. Takes the
    /// memory of its largest narrow column beside that of the batches, and of numbers once more.
    pub(super) fn new(
        batches: Vec<RecordBatch>,
        permutation: Option<&[u32]>,
        held: Held,
    ) -> Result<Self, ArrowError> {
        let order = Order::new(&batches, permutation);
        let count = batches.first().map_or(0, RecordBatch::num_columns);
        let mut by_column: Vec<Vec<ArrayRef>> = vec![Vec::with_capacity(batches.len()); count];
        for batch in batches {
            let (_, columns, _) = batch.into_parts();
            columns.into_iter().zip(&mut by_column).for_each(|(array, arrays)| arrays.push(array));
        }
        let columns = by_column.into_iter().map(|arrays| Column::new(arrays, &order));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let is_lying = columns.iter().any(|column| matches!(column, Column::Lying(_)));
        let picks = if is_lying {
            order.picks().iter().map(|&(batch, row)| (batch as u32, row as u32)).collect()
        } else {
            Vec::new()
        };
        Ok(Self { columns, picks, rows: order.rows.len(), _held: held })
    }

    /// Positions of it.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }
}

/// Which of a window's rows comes at each position.
struct Order {
    /// Rows of each batch.
    lengths: Vec<usize>,
    /// By number, counted through all batches.
    rows: UInt32Array,
    picks: OnceCell<Vec<(usize, usize)>>,
}

impl Order {
    fn new(batches: &[RecordBatch], permutation: Option<&[u32]>) -> Self {
        let lengths: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
        let all = lengths.iter().sum::<usize>() as u32;
        let rows = permutation.map_or_else(|| (0..all).collect(), <[u32]>::to_vec);
        Self { lengths, rows: rows.into(), picks: OnceCell::new() }
    }

    /// The same by batch, and row of the batch.
    fn picks(&self) -> &[(usize, usize)] {
        self.picks.get_or_init(|| {
            let lying = self.lengths.iter().enumerate();
            let lying: Vec<(usize, usize)> =
                lying.flat_map(|(batch, &rows)| (0..rows).map(move |row| (batch, row))).collect();
            self.rows.values().iter().map(|&row| lying[row as usize]).collect()
        })
    }
}

impl Column {
    fn new(arrays: Vec<ArrayRef>, order: &Order) -> Result<Self, ArrowError> {
        let bytes = arrays.iter().map(|array| array.to_data().get_slice_memory_size());
        let bytes = bytes.sum::<Result<usize, _>>()?;
        // Strings of a window may be more than their offsets can count.
        if bytes >= order.rows.len().max(1) * WIDE_BYTES || i32::try_from(bytes).is_err() {
            return Ok(Self::Lying(arrays));
        }
        let is_of_numbers = arrays.first().is_some_and(|array| array.data_type().is_primitive());
        let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        // A column of numbers is so small that a copy in one piece is soon made, and easily picked from.
        let ordered = if is_of_numbers {
            take(&concat(&arrays)?, &order.rows, None)
        } else {
            interleave(&arrays, order.picks())
        };
        ordered.map(Self::Ordered)
    }
}

impl Gathered {
    /// The rows where they lie, if that is in their order, needs nothing beside it, and is one piece or pieces of about
    /// `worth` bytes each at least.
    pub(crate) fn in_place(&self, worth: u64) -> Option<Vec<RecordBatch>> {
        if self.pattern.is_some() || self.valid_rows.is_some() {
            return None;
        }
        let pieces: Vec<_> = self.taken.iter().map(lying).collect::<Option<_>>()?;
        let is_worth_it = match pieces.as_slice() {
            [] => false,
            [_] => true,
            several => several.iter().all(|(batch, range)| {
                let rows = u128::try_from(batch.num_rows()).unwrap_or(1);
                u128::from(encoded_bytes(batch)) * range.len() as u128 >= u128::from(worth) * rows
            }),
        };
        is_worth_it
            .then(|| pieces.iter().map(|(batch, range)| batch.slice(range.start, range.len())).collect())
    }

    /// A batch of the rows of each part. A column of all of them is copied before the next one is: neighbouring steps take
    /// neighbouring rows, which are far from those of other columns.
    pub(crate) fn batches(parts: &[&Self]) -> Vec<Result<RecordBatch, ReadError>> {
        let mut columns: Vec<Columns<'_>> = parts.iter().map(|part| Columns::new(part)).collect();
        let most = parts.iter().map(|part| part.schema.fields().len()).max().unwrap_or(0);
        for _ in 0..most {
            columns.iter_mut().for_each(Columns::copy_next);
        }
        columns.into_iter().map(|columns| columns.finish().map_err(ReadError::Gather)).collect()
    }

    fn column(
        &self,
        index: usize,
        field: &FieldRef,
        order: Option<&[usize]>,
    ) -> Result<ArrayRef, ArrowError> {
        match (order, self.valid_rows) {
            (Some(order), _) => mixed(&self.taken, index, field, order),
            (None, Some(valid)) if index + 1 == self.schema.fields().len() => {
                Ok(Arc::new((0..self.rows).map(|row| Some(row < valid)).collect::<BooleanArray>()))
            }
            _ => joined(&self.taken, index, field),
        }
    }
}

/// Rows that are of no window.
fn lying(taken: &Taken) -> Option<(&RecordBatch, &Range<usize>)> {
    match taken {
        Taken::Rows { batch, range } => Some((batch, range)),
        Taken::Picks { .. } => None,
    }
}

/// A part whose columns are copied one after the other.
struct Columns<'a> {
    part: &'a Gathered,
    /// Of a mixture, which of the rows that were taken comes at each place.
    order: Option<Vec<usize>>,
    copied: Result<Vec<ArrayRef>, ArrowError>,
}

impl<'a> Columns<'a> {
    fn new(part: &'a Gathered) -> Self {
        let order = part.pattern.as_ref().map(Pattern::order);
        Self { part, order, copied: Ok(Vec::with_capacity(part.schema.fields().len())) }
    }

    /// Copies the next column, unless there is none or one before it could not be copied.
    fn copy_next(&mut self) {
        let Ok(copied) = &mut self.copied else { return };
        let Some(field) = self.part.schema.fields().get(copied.len()) else { return };
        match self.part.column(copied.len(), field, self.order.as_deref()) {
            Ok(column) => copied.push(column),
            Err(error) => self.copied = Err(error),
        }
    }

    fn finish(self) -> Result<RecordBatch, ArrowError> {
        batch(&self.part.schema, self.copied?, self.part.rows as usize)
    }
}

/// Joins rows in order.
pub(crate) fn join(schema: &SchemaRef, taken: &[Taken]) -> Result<RecordBatch, ArrowError> {
    let columns = schema.fields().iter().enumerate().map(|(index, field)| joined(taken, index, field));
    batch(schema, columns.collect::<Result<_, _>>()?, taken.iter().map(Taken::rows).sum())
}

/// A column of rows in order.
fn joined(taken: &[Taken], index: usize, field: &FieldRef) -> Result<ArrayRef, ArrowError> {
    match taken {
        [] => return Ok(new_empty_array(field.data_type())),
        [Taken::Rows { batch, range }] => return Ok(batch.column(index).slice(range.start, range.len())),
        _ => {}
    }
    if let Some(ordered) = ordered(taken, index) {
        return copy(&ordered);
    }
    let (arrays, picks) = places(taken, index);
    let arrays: Vec<&dyn Array> = arrays.into_iter().map(AsRef::as_ref).collect();
    interleave(&arrays, &picks)
}

/// A column of several datasets' rows, put in order under a field that is theirs but for nulls that only some may hold, and
/// for what the items of lists are called.
fn mixed(taken: &[Taken], index: usize, field: &FieldRef, order: &[usize]) -> Result<ArrayRef, ArrowError> {
    let (arrays, places) = places(taken, index);
    let arrays = arrays.into_iter().map(|array| match array {
        array if array.data_type() == field.data_type() => Ok(Arc::clone(array)),
        array => cast(array, field.data_type()),
    });
    let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
    let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    let picks: Vec<(usize, usize)> = order.iter().map(|&row| places[row]).collect();
    interleave(&arrays, &picks)
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

/// The rows of a column, if they are in order wherever they lie.
fn ordered(taken: &[Taken], index: usize) -> Option<Vec<Piece<'_>>> {
    let pieces = taken.iter().map(|taken| match taken {
        Taken::Rows { batch, range } => Some((batch.column(index), range.clone())),
        Taken::Picks { window, range } => match &window.columns[index] {
            Column::Ordered(array) => Some((array, range.clone())),
            Column::Lying(_) => None,
        },
    });
    pieces.collect()
}

/// The arrays that rows of a column lie in; for every row, in order, which one it is and where.
fn places(taken: &[Taken], index: usize) -> (Vec<&ArrayRef>, Vec<(usize, usize)>) {
    let mut arrays: Vec<&ArrayRef> = Vec::new();
    let mut picks: Vec<(usize, usize)> = Vec::new();
    for taken in taken {
        let base = arrays.len();
        let rows = match taken {
            Taken::Rows { batch, range } => {
                arrays.push(batch.column(index));
                range.clone()
            }
            Taken::Picks { window, range } => match &window.columns[index] {
                Column::Ordered(array) => {
                    arrays.push(array);
                    range.clone()
                }
                Column::Lying(lying) => {
                    arrays.extend(lying);
                    let places = &window.picks[range.clone()];
                    picks.extend(places.iter().map(|&(batch, row)| (base + batch as usize, row as usize)));
                    continue;
                }
            },
        };
        picks.extend(rows.map(|row| (base, row)));
    }
    (arrays, picks)
}
