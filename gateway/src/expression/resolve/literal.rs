//! Constants as they are written.

use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, AsArray as _, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array,
};
use arrow::datatypes::{DataType, TimeUnit};
use sqlparser::ast::{DataType as SqlType, Expr, TypedString, Value};

use super::{ExpressionError, at, null, unsupported};
use crate::expression::cast::narrow;
use crate::expression::error::At;
use crate::expression::kind::Kind;
use crate::expression::tree::{Node, Typed};

pub(super) fn value(value: &Value, at: At) -> Result<Typed, ExpressionError> {
    Ok(match value {
        Value::Number(digits, _) => return number(digits, at),
        Value::SingleQuotedString(text) => typed_as(StringArray::from(vec![text.as_str()]), Kind::Text),
        Value::Boolean(truth) => typed_as(BooleanArray::from(vec![*truth]), Kind::Bool),
        Value::Null => null(),
        other => {
            let choices = "there are numbers, 'texts', TRUE, FALSE, NULL, DATE '…' and TIMESTAMP '…'";
            return Err(unsupported(at, &format!("the constant {other}"), choices));
        }
    })
}

/// `-1`, where it is written so: the lowest number has no positive counterpart.
pub(super) fn negative(inner: &Expr) -> Option<Result<Typed, ExpressionError>> {
    match inner {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => Some(number(&format!("-{digits}"), at(inner))),
            _ => None,
        },
        _ => None,
    }
}

fn number(digits: &str, at: At) -> Result<Typed, ExpressionError> {
    if let Ok(whole) = digits.parse::<i64>() {
        return Ok(typed_as(Int64Array::from(vec![whole]), Kind::Int));
    }
    if let Ok(whole) = digits.parse::<u64>() {
        return Ok(typed_as(UInt64Array::from(vec![whole]), Kind::Unsigned));
    }
    match digits.parse::<f64>() {
        Ok(number) => Ok(typed_as(Float64Array::from(vec![number]), Kind::Double)),
        Err(_) => Err(unreadable(at, digits, "number", "-1.5e3")),
    }
}

/// `DATE '2024-01-31'` and its like.
pub(super) fn typed(text: &TypedString, at: At) -> Result<Typed, ExpressionError> {
    let written = text.value.clone().into_string().unwrap_or_default();
    match text.data_type {
        SqlType::Date => date(&written, at),
        SqlType::Timestamp(..) | SqlType::Datetime(_) => timestamp(&written, at),
        ref other => {
            let choices = "there are DATE '2024-01-31' and TIMESTAMP '2024-01-31 12:00:00'";
            Err(unsupported(at, &format!("a constant of type {other}"), choices))
        }
    }
}

/// A text in quotes beside a date or a timestamp is a moment; anything else stays.
pub(super) fn beside(typed: Typed, other: &Kind, at: At) -> Result<Typed, ExpressionError> {
    let written = match &typed.node {
        Node::Literal(value) if other.is_moment() && typed.kind == Kind::Text && value.is_valid(0) => {
            value.as_string::<i32>().value(0).to_owned()
        }
        _ => return Ok(typed),
    };
    date(&written, at).or_else(|_| timestamp(&written, at))
}

fn date(text: &str, at: At) -> Result<Typed, ExpressionError> {
    const EXAMPLE: &str = "'2024-01-31'";
    // The kernel would take a timestamp for its day.
    let is_day = !text.trim().contains([' ', 'T', 't', ':']);
    let made = is_day.then(|| moment(text, &DataType::Date32)).flatten();
    made.map(|value| Typed::new(Node::Literal(value), Kind::Date))
        .ok_or_else(|| unreadable(at, text, "date", EXAMPLE))
}

/// To the nanosecond where it is between the years 1678 and 2261, else to the microsecond.
fn timestamp(text: &str, at: At) -> Result<Typed, ExpressionError> {
    const EXAMPLE: &str = "'2024-01-31 12:00:00' or '2024-01-31T12:00:00+01:00'";
    let of = |unit| moment(text, &DataType::Timestamp(unit, None));
    of(TimeUnit::Nanosecond)
        .or_else(|| of(TimeUnit::Microsecond))
        .map(|value| Typed::new(Node::Literal(value), Kind::Timestamp))
        .ok_or_else(|| unreadable(at, text, "timestamp", EXAMPLE))
}

fn moment(text: &str, to: &DataType) -> Option<ArrayRef> {
    let text: ArrayRef = Arc::new(StringArray::from(vec![text.trim()]));
    narrow(&text, to).ok().filter(|made| made.is_valid(0))
}

fn typed_as(value: impl arrow::array::Array + 'static, kind: Kind) -> Typed {
    Typed::new(Node::Literal(Arc::new(value)), kind)
}

fn unreadable(at: At, text: &str, kind: &str, example: &'static str) -> ExpressionError {
    ExpressionError::Literal { at, text: text.to_owned(), kind: kind.to_owned(), example }
}
