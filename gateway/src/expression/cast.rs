//! Values of one type made another's: columns to what is computed in, results to what is wanted.

use std::sync::Arc;

use arrow::array::types::{
    Float64Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt64Type,
};
use arrow::array::{Array as _, ArrayRef, AsArray as _};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::error::ArrowError;
use arrow::util::display::array_value_to_string;

use super::error::Uncast;
use super::kind::Kind;
use super::values::{Values, map};

/// What does not fit becomes NULL.
const SAFE: CastOptions<'_> =
    CastOptions { safe: true, format_options: arrow::util::display::FormatOptions::new() };

/// A column as the type that its kind is computed in. Order is kept.
pub(super) fn load(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match column.data_type() {
        DataType::Dictionary(_, values) => load(&cast_with_options(column, values, &SAFE)?),
        // The zone tells how a moment is shown, not which it is.
        DataType::Timestamp(_, None) | DataType::Null => Ok(Arc::clone(column)),
        DataType::Timestamp(unit, Some(_)) => Ok(match unit {
            TimeUnit::Second => Arc::new(
                column.as_primitive::<TimestampSecondType>().clone().with_timezone_opt::<String>(None),
            ),
            TimeUnit::Millisecond => Arc::new(
                column.as_primitive::<TimestampMillisecondType>().clone().with_timezone_opt::<String>(None),
            ),
            TimeUnit::Microsecond => Arc::new(
                column.as_primitive::<TimestampMicrosecondType>().clone().with_timezone_opt::<String>(None),
            ),
            TimeUnit::Nanosecond => Arc::new(
                column.as_primitive::<TimestampNanosecondType>().clone().with_timezone_opt::<String>(None),
            ),
        }),
        other => match Kind::of(other).data_type() {
            Some(computed) if computed != *other => cast_with_options(column, &computed, &SAFE),
            _ => Ok(Arc::clone(column)),
        },
    }
}

/// Whether a CAST gives a value for every value.
pub(super) fn loses_none(from: &Kind, to: &DataType) -> bool {
    match (from, to) {
        (Kind::Other(_), _) => false,
        (_, DataType::Utf8) => true,
        (Kind::Bool, _)
        | (Kind::Int | Kind::Unsigned | Kind::Double, DataType::Float64 | DataType::Boolean) => true,
        (Kind::Int | Kind::Unsigned | Kind::Double, DataType::Float32) => true,
        (Kind::Int, DataType::Int64) | (Kind::Unsigned, DataType::UInt64) => true,
        _ => false,
    }
}

/// Whether a CAST leads from one kind to the other.
pub(super) fn can_cast(from: &Kind, to: &Kind) -> bool {
    let is_plain = |kind: &Kind| kind.is_number() || *kind == Kind::Bool;
    match (from, to) {
        // Texts that were written as bytes; what is no UTF-8 is NULL.
        (Kind::Other(bytes), Kind::Text) => {
            matches!(bytes, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
        }
        (Kind::Other(_), _) | (_, Kind::Other(_)) => false,
        (Kind::Null | Kind::Text, _) | (_, Kind::Text) => true,
        (from, to) => is_plain(from) && is_plain(to) || from.is_moment() && to.is_moment(),
    }
}

/// CAST: to a type, then back to what its kind is computed in. If it is `strict` a value that is lost is an
/// [`Uncast`] error.
pub(super) fn cast(values: &Values, to: &DataType, strict: Option<&str>) -> Result<Values, ArrowError> {
    let narrow = narrow(&values.array, to)?;
    if let Some(written) = strict
        && let Some(row) = lost(&values.array, &narrow)
    {
        let value = array_value_to_string(&values.array, row)?;
        return Err(ArrowError::ExternalError(Box::new(Uncast::new(written, &value))));
    }
    Ok(Values { array: load(&narrow)?, is_scalar: values.is_scalar })
}

/// The first row that has a value no more.
fn lost(before: &ArrayRef, after: &ArrayRef) -> Option<usize> {
    let (before, after) = (before.logical_nulls(), after.logical_nulls()?);
    (0..after.len())
        .find(|&row| after.is_null(row) && before.as_ref().is_none_or(|nulls| nulls.is_valid(row)))
}

/// Values in the type that is wanted; what it cannot hold is NULL.
pub(super) fn narrow(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == to { Ok(Arc::clone(array)) } else { cast_with_options(array, to, &SAFE) }
}

/// Values as those of another kind, where the two have something in common.
pub(super) fn convert(values: &Values, to: &Kind) -> Result<Values, ArrowError> {
    match (values.array.data_type(), to) {
        (DataType::UInt64, Kind::Int) => Ok(map::<UInt64Type, Int64Type>(values, |x| i64::try_from(x).ok())),
        (DataType::Int64, Kind::Unsigned) => {
            Ok(map::<Int64Type, UInt64Type>(values, |x| u64::try_from(x).ok()))
        }
        (DataType::Int64, Kind::Double) => Ok(map::<Int64Type, Float64Type>(values, |x| Some(x as f64))),
        (DataType::UInt64, Kind::Double) => Ok(map::<UInt64Type, Float64Type>(values, |x| Some(x as f64))),
        // The microsecond that has begun, before 1970 too.
        (DataType::Timestamp(TimeUnit::Nanosecond, _), Kind::Timestamp) => {
            Ok(map::<TimestampNanosecondType, TimestampMicrosecondType>(values, |x| {
                Some(x.div_euclid(1_000))
            }))
        }
        (_, to) => match to.data_type() {
            Some(to) => Ok(Values { array: narrow(&values.array, &to)?, is_scalar: values.is_scalar }),
            None => Ok(values.clone()),
        },
    }
}
