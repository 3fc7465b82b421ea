//! Where the columns of a batch lie inside a slot.
//!
//! *In:* type, shape and payload bytes of every column. *Out:* the place of every column and the
//! bytes of the whole. *Promise:* pure arithmetic, checked for overflow; columns start at multiples of
//! 128 bytes (TensorFlow silently copies what is not aligned to 64) and never overlap. *Knows
//! nothing* of memory.

use std::ops::Range;

use crate::dtype::DType;

/// The most dimensions a column can have, the rows included.
pub const MAX_DIMS: usize = 8;

pub(crate) const PAGE: u64 = 4096;
pub(crate) const COLUMN_ALIGN: u64 = 128;
pub(crate) const SLOT_HEADER: u64 = 64;
pub(crate) const COLUMN_ENTRY: u64 = 32 + 8 * MAX_DIMS as u64;

/// One column of one batch: what a slot must hold of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Type of an element.
    pub dtype: DType,
    /// Shape of the batch's column: rows first, then the shape of a row.
    pub dims: Vec<u64>,
    /// Bytes of the elements; for `string` and `bytes` of the characters, without the offsets.
    pub bytes: u64,
    /// Whether the first of `dims` is the column's own, as of values that lists of many lengths hold, and
    /// not the batch's rows.
    pub own_rows: bool,
}

/// Why a batch cannot be laid out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A column has no rows dimension, or too many dimensions.
    #[error("column {column} has {dims} dimensions; a slot holds 1 to {MAX_DIMS}")]
    Dimensions {
        /// Index of the column.
        column: usize,
        /// How many it has.
        dims: usize,
    },
    /// `bytes` is not elements times element size.
    #[error("column {column} states {stated} bytes; its shape and type need {needed}")]
    Bytes {
        /// Index of the column.
        column: usize,
        /// What the specification says.
        stated: u64,
        /// What its shape needs.
        needed: u64,
    },
    /// The sizes do not fit 63 bits.
    #[error("column {column} is larger than memory can be")]
    Overflow {
        /// Index of the column.
        column: usize,
    },
}

/// The places of a batch's columns, relative to the start of the slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotLayout {
    places: Vec<Place>,
    total: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The `elements + 1` offsets of a `string` or `bytes` column.
    pub(crate) offsets: Option<Range<u64>>,
    pub(crate) data: Range<u64>,
}

impl ColumnSpec {
    /// A column of numbers or bools; its bytes follow from type and shape (saturating, so that an
    /// impossible shape is refused by [`SlotLayout::plan`]). For `string` and `bytes` use
    /// [`ColumnSpec::text`].
    pub fn fixed(dtype: DType, dims: Vec<u64>) -> ColumnSpec {
        let bytes = dims.iter().fold(dtype.size().unwrap_or(0), |product, &dim| product.saturating_mul(dim));
        ColumnSpec { dtype, dims, bytes, own_rows: false }
    }

    /// A `string` or `bytes` column whose elements together have `bytes` bytes.
    pub fn text(dtype: DType, dims: Vec<u64>, bytes: u64) -> ColumnSpec {
        ColumnSpec { dtype, dims, bytes, own_rows: false }
    }

    /// The same with as many rows as it says, whatever the batch has.
    #[must_use]
    pub fn with_own_rows(self) -> ColumnSpec {
        ColumnSpec { own_rows: true, ..self }
    }

    /// Number of elements, if it fits.
    pub(crate) fn elements(&self) -> Option<u64> {
        self.dims.iter().try_fold(1_u64, |product, &dim| product.checked_mul(dim))
    }
}

impl SlotLayout {
    /// Lays `columns` out one after another behind header and column table.
    ///
    /// # Errors
    /// A column with 0 or more than [`MAX_DIMS`] dimensions, with bytes that contradict its shape, or
    /// so large that its end does not fit 63 bits.
    pub fn plan(columns: &[ColumnSpec]) -> Result<SlotLayout, LayoutError> {
        let mut end = SLOT_HEADER + COLUMN_ENTRY * columns.len() as u64;
        let mut places = Vec::with_capacity(columns.len());
        for (column, spec) in columns.iter().enumerate() {
            let place = place(column, spec, end)?;
            end = place.data.end;
            places.push(place);
        }
        let total = align(end, COLUMN_ALIGN)
            .ok_or(LayoutError::Overflow { column: columns.len().saturating_sub(1) })?;
        Ok(SlotLayout { places, total })
    }

    /// Bytes of the whole batch: header, column table, columns and padding.
    pub fn bytes(&self) -> u64 {
        self.total
    }

    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }
}

fn place(column: usize, spec: &ColumnSpec, after: u64) -> Result<Place, LayoutError> {
    let overflow = LayoutError::Overflow { column };
    if spec.dims.is_empty() || spec.dims.len() > MAX_DIMS {
        return Err(LayoutError::Dimensions { column, dims: spec.dims.len() });
    }
    let elements = spec.elements().ok_or_else(|| overflow.clone())?;
    let mut start = align(after, COLUMN_ALIGN).ok_or_else(|| overflow.clone())?;
    let offsets = if let Some(size) = spec.dtype.size() {
        let needed = elements.checked_mul(size).ok_or_else(|| overflow.clone())?;
        if needed != spec.bytes {
            return Err(LayoutError::Bytes { column, stated: spec.bytes, needed });
        }
        None
    } else {
        let bytes = elements.checked_add(1).and_then(|n| n.checked_mul(8)).ok_or_else(|| overflow.clone())?;
        let range = range(start, bytes).ok_or_else(|| overflow.clone())?;
        start = align(range.end, COLUMN_ALIGN).ok_or_else(|| overflow.clone())?;
        Some(range)
    };
    let data = range(start, spec.bytes).ok_or(overflow)?;
    Ok(Place { offsets, data })
}

fn range(start: u64, bytes: u64) -> Option<Range<u64>> {
    let end = start.checked_add(bytes)?;
    (end <= i64::MAX as u64).then_some(start..end)
}

/// The next multiple of `to`, a power of two.
pub(crate) fn align(value: u64, to: u64) -> Option<u64> {
    Some(value.checked_add(to - 1)? & !(to - 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn column() -> impl Strategy<Value = ColumnSpec> {
        let dims = prop::collection::vec(0_u64..40, 1..4);
        (0..DType::ALL.len(), dims, 0_u64..5000).prop_map(|(dtype, dims, bytes)| match DType::ALL[dtype] {
            dtype if dtype.size().is_some() => ColumnSpec::fixed(dtype, dims),
            dtype => ColumnSpec::text(dtype, dims, bytes),
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(if cfg!(miri) { 16 } else { 256 }) })]
        #[test]
        fn columns_are_aligned_ascending_and_as_large_as_they_say(columns in prop::collection::vec(column(), 0..12)) {
            let layout = SlotLayout::plan(&columns).unwrap();
            let mut end = SLOT_HEADER + COLUMN_ENTRY * columns.len() as u64;
            for (spec, place) in columns.iter().zip(layout.places()) {
                if let Some(offsets) = &place.offsets {
                    prop_assert!(offsets.start >= end && offsets.start % COLUMN_ALIGN == 0);
                    prop_assert_eq!(offsets.end - offsets.start, (spec.elements().unwrap() + 1) * 8);
                    end = offsets.end;
                }
                prop_assert_eq!(place.offsets.is_none(), spec.dtype.size().is_some());
                prop_assert!(place.data.start >= end && place.data.start % COLUMN_ALIGN == 0);
                prop_assert_eq!(place.data.end - place.data.start, spec.bytes);
                end = place.data.end;
            }
            prop_assert!(layout.bytes() >= end && layout.bytes() - end < COLUMN_ALIGN);
        }
    }

    #[test]
    fn impossible_columns_are_refused() {
        let check = |spec: ColumnSpec, expected| assert_eq!(SlotLayout::plan(&[spec]).unwrap_err(), expected);
        check(ColumnSpec::fixed(DType::Int8, vec![]), LayoutError::Dimensions { column: 0, dims: 0 });
        check(ColumnSpec::fixed(DType::Int8, vec![1; 9]), LayoutError::Dimensions { column: 0, dims: 9 });
        check(ColumnSpec::fixed(DType::Int64, vec![u64::MAX, 2]), LayoutError::Overflow { column: 0 });
        check(ColumnSpec::text(DType::Bytes, vec![1], u64::MAX - 4), LayoutError::Overflow { column: 0 });
        let wrong = ColumnSpec { dtype: DType::Int32, dims: vec![3], bytes: 11, own_rows: false };
        check(wrong, LayoutError::Bytes { column: 0, stated: 11, needed: 12 });
    }
}
