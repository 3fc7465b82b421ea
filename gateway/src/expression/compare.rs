//! Comparison of values of any two comparable kinds, exact across them.
//!
//! Numbers are compared by what they are, not by what one of them becomes in the other's type: 2^53 + 1 is not
//! 2^53 in DOUBLE. DOUBLE follows IEEE 754: −0 equals 0, and NaN is unequal to everything, itself included, and
//! neither less nor greater. Text is ordered by its UTF-8 bytes. Dates are midnights, and moments without an
//! offset are UTC.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::types::{
    Date32Type, Float64Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt64Type,
};
use arrow::array::{Array, AsArray as _, BooleanArray, new_null_array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, TimeUnit};

use super::values::{Values, extent};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// The one that says the same with the sides exchanged.
    pub(super) fn flipped(self) -> Self {
        match self {
            Self::Equal | Self::Unequal => self,
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
        }
    }

    /// Whether it holds for values in that order; `None` is NaN's.
    #[inline]
    pub(super) fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::Unequal => order != Some(Ordering::Equal),
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Self::Greater => order == Some(Ordering::Greater),
            Self::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Equal => "=",
            Self::Unequal => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        })
    }
}

/// Compares row by row; NULL on either side gives NULL.
pub(super) fn compare(op: Comparison, left: &Values, right: &Values) -> Values {
    let (rows, is_scalar) = extent(&[left, right]);
    let all_null = |values: &Values| {
        values.array.data_type() == &DataType::Null || values.is_scalar && values.array.is_null(0)
    };
    if all_null(left) || all_null(right) {
        return Values { array: new_null_array(&DataType::Boolean, rows), is_scalar };
    }
    let bits = bits(op, left, right, rows);
    let nulls = |values: &Values| if values.is_scalar { None } else { values.array.logical_nulls() };
    let nulls = NullBuffer::union(nulls(left).as_ref(), nulls(right).as_ref());
    Values { array: Arc::new(BooleanArray::new(bits, nulls)), is_scalar }
}

fn bits(op: Comparison, left: &Values, right: &Values, rows: usize) -> BooleanBuffer {
    use DataType::{Boolean, Float64, Int64, UInt64, Utf8};
    let orders = Orders { op, left, right, rows };
    match (left.array.data_type(), right.array.data_type()) {
        (Int64, Int64) => orders.by(left.of::<Int64Type>(), right.of::<Int64Type>(), |a, b| Some(a.cmp(&b))),
        (UInt64, UInt64) => {
            orders.by(left.of::<UInt64Type>(), right.of::<UInt64Type>(), |a, b| Some(a.cmp(&b)))
        }
        (Float64, Float64) => {
            orders.by(left.of::<Float64Type>(), right.of::<Float64Type>(), |a, b| a.partial_cmp(&b))
        }
        (Float64, _) => {
            orders.by(left.of::<Float64Type>(), right.whole(), |a, b| exact(b, a).map(Ordering::reverse))
        }
        (_, Float64) => orders.by(left.whole(), right.of::<Float64Type>(), exact),
        (Boolean, Boolean) => {
            let (a, b) = (left.array.as_boolean(), right.array.as_boolean());
            orders.by(|i| a.value(i), |i| b.value(i), |a, b| Some(a.cmp(&b)))
        }
        (Utf8, Utf8) => {
            let (a, b) = (left.array.as_string::<i32>(), right.array.as_string::<i32>());
            orders.by(|i| a.value(i), |i| b.value(i), |a, b| Some(a.cmp(b)))
        }
        // Integers of both kinds, dates and timestamps of any units.
        _ => orders.by(left.whole(), right.whole(), |a, b| Some(a.cmp(&b))),
    }
}

struct Orders<'a> {
    op: Comparison,
    left: &'a Values,
    right: &'a Values,
    rows: usize,
}

impl Orders<'_> {
    /// The loop over rows is inside the choice of the operator and of what is constant.
    fn by<A, B>(
        &self,
        a: impl Fn(usize) -> A,
        b: impl Fn(usize) -> B,
        order: impl Fn(A, B) -> Option<Ordering>,
    ) -> BooleanBuffer {
        let (left, right) = (self.left, self.right);
        macro_rules! collect {
            ($op:expr) => {
                BooleanBuffer::collect_bool(self.rows, |row| {
                    $op.holds(order(a(left.at(row)), b(right.at(row))))
                })
            };
        }
        match self.op {
            Comparison::Equal => collect!(Comparison::Equal),
            Comparison::Unequal => collect!(Comparison::Unequal),
            Comparison::Less => collect!(Comparison::Less),
            Comparison::LessOrEqual => collect!(Comparison::LessOrEqual),
            Comparison::Greater => collect!(Comparison::Greater),
            Comparison::GreaterOrEqual => collect!(Comparison::GreaterOrEqual),
        }
    }
}

impl Values {
    fn of<T: arrow::array::ArrowPrimitiveType>(&self) -> impl Fn(usize) -> T::Native + '_ {
        let values = self.array.as_primitive::<T>().values();
        |row| values[row]
    }

    /// Integers as they are, moments as nanoseconds since 1970.
    fn whole(&self) -> Box<dyn Fn(usize) -> i128 + '_> {
        const SECOND: i128 = 1_000_000_000;
        let array = &self.array;
        match array.data_type() {
            DataType::Int64 => Box::new(widened(self.of::<Int64Type>(), 1)),
            DataType::UInt64 => Box::new(widened(self.of::<UInt64Type>(), 1)),
            DataType::Date32 => Box::new(widened(self.of::<Date32Type>(), 86_400 * SECOND)),
            DataType::Timestamp(TimeUnit::Second, _) => {
                Box::new(widened(self.of::<TimestampSecondType>(), SECOND))
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                Box::new(widened(self.of::<TimestampMillisecondType>(), SECOND / 1_000))
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                Box::new(widened(self.of::<TimestampMicrosecondType>(), SECOND / 1_000_000))
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                Box::new(widened(self.of::<TimestampNanosecondType>(), 1))
            }
            other => unreachable!("a comparison of {other} was typed"),
        }
    }
}

fn widened<T: Into<i128>>(value: impl Fn(usize) -> T, unit: i128) -> impl Fn(usize) -> i128 {
    move |row| value(row).into() * unit
}

/// An integer beside a number that may have a fraction; NaN has no place. Integers are below 2^65.
fn exact(whole: i128, number: f64) -> Option<Ordering> {
    const BEYOND: f64 = 1e30;
    if number.is_nan() {
        return None;
    }
    if number.abs() > BEYOND {
        return Some(if number > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    let below = number.floor();
    Some(match whole.cmp(&(below as i128)) {
        Ordering::Equal if number > below => Ordering::Less,
        order => order,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_doubles_are_compared_by_what_they_are() {
        let big = (1i128 << 53) + 1;
        assert_eq!(exact(big, (1u64 << 53) as f64), Some(Ordering::Greater));
        assert_eq!(exact(i128::from(i64::MAX), 9_223_372_036_854_775_808.0), Some(Ordering::Less));
        assert_eq!(exact(-2, -1.5), Some(Ordering::Less));
        assert_eq!(exact(-1, -1.5), Some(Ordering::Greater));
        assert_eq!(exact(1, 1.5), Some(Ordering::Less));
        assert_eq!(exact(0, -0.0), Some(Ordering::Equal));
        assert_eq!(exact(5, f64::INFINITY), Some(Ordering::Less));
        assert_eq!(exact(5, f64::NEG_INFINITY), Some(Ordering::Greater));
        assert_eq!(exact(5, f64::NAN), None);
    }
}
