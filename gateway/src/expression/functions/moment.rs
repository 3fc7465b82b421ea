//! Parts of dates and timestamps, in UTC.

use arrow::compute::{DatePart, cast, date_part};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use crate::expression::values::Values;

pub(super) fn extract(x: &Values, part: DatePart) -> Result<Values, ArrowError> {
    let found = date_part(&x.array, part)?;
    Ok(Values { array: cast(&found, &DataType::Int64)?, is_scalar: x.is_scalar })
}
