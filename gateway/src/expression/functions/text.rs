//! Functions of texts. A letter is a Unicode scalar value; upper and lower case are Unicode's, of no language.

use std::sync::Arc;

use arrow::array::types::Int64Type;
use arrow::array::{AsArray as _, BooleanArray, Datum, Int64Array, Scalar, StringArray};
use arrow::compute::kernels::comparison::{contains, ends_with, starts_with};
use arrow::error::ArrowError;

use super::Function;
use crate::expression::values::{Values, extent};

pub(super) fn of_one(function: Function, x: &Values) -> Values {
    let texts = x.array.as_string::<i32>();
    match function {
        Function::Length => {
            let made: Int64Array =
                texts.iter().map(|text| text.map(|text| text.chars().count() as i64)).collect();
            x.clone().like(made)
        }
        Function::Trim => {
            let made: StringArray = texts.iter().map(|text| text.map(str::trim)).collect();
            x.clone().like(made)
        }
        _ => {
            let f = if function == Function::Lower { str::to_lowercase } else { str::to_uppercase };
            let made: StringArray = texts.iter().map(|text| text.map(f)).collect();
            x.clone().like(made)
        }
    }
}

/// Letters from the `start`th on; those before the first are letters that are not there.
pub(super) fn substr(x: &Values, start: &Values, length: Option<&Values>) -> Values {
    let mut all = vec![x, start];
    all.extend(length);
    let (rows, is_scalar) = extent(&all);
    let texts = x.array.as_string::<i32>();
    let whole = |values: &Values, row: usize| values.array.as_primitive::<Int64Type>().value(values.at(row));
    let made: StringArray = (0..rows)
        .map(|row| {
            if all.iter().any(|values| values.is_null(row)) {
                return None;
            }
            let first = whole(start, row).saturating_sub(1);
            let end = length.map_or(i64::MAX, |length| first.saturating_add(whole(length, row).max(0)));
            let text = texts.value(x.at(row));
            let skipped = usize::try_from(first).unwrap_or(0);
            let taken = usize::try_from(end - first.max(0)).unwrap_or(0);
            Some(text.chars().skip(skipped).take(taken).collect::<String>())
        })
        .collect();
    Values { array: Arc::new(made), is_scalar }
}

pub(super) fn concat(parts: &[Values]) -> Values {
    let (rows, is_scalar) = extent(&parts.iter().collect::<Vec<_>>());
    let texts: Vec<&StringArray> = parts.iter().map(|part| part.array.as_string::<i32>()).collect();
    let made: StringArray = (0..rows)
        .map(|row| {
            let row = parts
                .iter()
                .zip(&texts)
                .map(|(part, texts)| (!part.is_null(row)).then(|| texts.value(part.at(row))));
            row.collect::<Option<String>>()
        })
        .collect();
    Values { array: Arc::new(made), is_scalar }
}

pub(super) fn test(function: Function, x: &Values, part: &Values) -> Result<Values, ArrowError> {
    let kernel = match function {
        Function::StartsWith => starts_with,
        Function::EndsWith => ends_with,
        _ => contains,
    };
    pairwise(x, part, |x, part| kernel(x, part))
}

/// A kernel of Arrow over two texts, either of which may be one for all rows.
pub(in crate::expression) fn pairwise(
    x: &Values,
    y: &Values,
    kernel: impl Fn(&dyn Datum, &dyn Datum) -> Result<BooleanArray, ArrowError>,
) -> Result<Values, ArrowError> {
    let (rows, is_scalar) = extent(&[x, y]);
    let made = if y.is_scalar && !x.is_scalar {
        kernel(&x.array, &Scalar::new(Arc::clone(&y.array)))?
    } else {
        kernel(&x.spread(rows)?, &y.spread(rows)?)?
    };
    debug_assert_eq!(made.len(), rows);
    Ok(Values { array: Arc::new(made), is_scalar })
}
