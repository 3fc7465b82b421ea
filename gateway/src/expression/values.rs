//! Values of one kind: one a row, or one for all rows.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray as _, BooleanArray, PrimitiveArray, UInt64Array,
};
use arrow::compute::{prep_null_mask_filter, take};
use arrow::error::ArrowError;

/// An array of the rows' values, or of the one value that all rows have.
#[derive(Debug, Clone)]
pub(super) struct Values {
    pub(super) array: ArrayRef,
    pub(super) is_scalar: bool,
}

impl Values {
    /// What a function made of values that were alike.
    pub(super) fn like(self, array: impl Array + 'static) -> Self {
        Self { array: Arc::new(array), is_scalar: self.is_scalar }
    }

    /// Where a row's value lies.
    #[inline]
    pub(super) fn at(&self, row: usize) -> usize {
        if self.is_scalar { 0 } else { row }
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        self.array.is_null(self.at(row))
    }

    /// One value for every row.
    pub(super) fn spread(&self, rows: usize) -> Result<ArrayRef, ArrowError> {
        if !self.is_scalar {
            return Ok(Arc::clone(&self.array));
        }
        take(&self.array, &UInt64Array::from_value(0, rows), None)
    }
}

/// Rows that some values together have, and whether it is one for all.
pub(super) fn extent(values: &[&Values]) -> (usize, bool) {
    let rows = values.iter().find(|values| !values.is_scalar).map(|values| values.array.len());
    (rows.unwrap_or(1), rows.is_none())
}

/// The outcome of a function of one number; NULL gives NULL.
pub(super) fn map<T, U>(x: &Values, f: impl Fn(T::Native) -> Option<U::Native>) -> Values
where
    T: ArrowPrimitiveType,
    U: ArrowPrimitiveType,
{
    let made: PrimitiveArray<U> = x.array.as_primitive::<T>().unary_opt(f);
    x.clone().like(made)
}

/// The outcome of a function of two numbers; NULL gives NULL.
pub(super) fn map2<T, U>(
    x: &Values,
    y: &Values,
    f: impl Fn(T::Native, T::Native) -> Option<U::Native>,
) -> Values
where
    T: ArrowPrimitiveType,
    U: ArrowPrimitiveType,
{
    let (rows, is_scalar) = extent(&[x, y]);
    let (xs, ys) = (x.array.as_primitive::<T>(), y.array.as_primitive::<T>());
    let made: PrimitiveArray<U> = (0..rows)
        .map(|row| match x.is_null(row) || y.is_null(row) {
            true => None,
            false => f(xs.value(x.at(row)), ys.value(y.at(row))),
        })
        .collect();
    Values { array: Arc::new(made), is_scalar }
}

/// What is true, where NULL is not.
pub(super) fn truths(condition: &BooleanArray) -> BooleanArray {
    if condition.null_count() == 0 { condition.clone() } else { prep_null_mask_filter(condition) }
}
