//! Functions of numbers. Integers stay integers where the outcome is one; what is beyond them is NULL. DOUBLE
//! follows IEEE 754: the logarithm of a negative number is NaN.

use arrow::array::types::{Float64Type, Int64Type, UInt64Type};
use arrow::array::{Array as _, AsArray as _, BooleanArray};
use arrow::datatypes::{ArrowPrimitiveType, DataType};

use super::Function;
use crate::expression::values::{Values, extent, map, map2};

pub(super) fn of_one(function: Function, x: &Values) -> Values {
    if function == Function::IsNan {
        let made = BooleanArray::from_unary(x.array.as_primitive::<Float64Type>(), f64::is_nan);
        return x.clone().like(made);
    }
    match x.array.data_type() {
        DataType::Int64 => map::<Int64Type, Int64Type>(x, |x| match function {
            Function::Abs => x.checked_abs(),
            Function::Sign => Some(x.signum()),
            // A whole number is its own floor.
            _ => Some(x),
        }),
        DataType::UInt64 => map::<UInt64Type, UInt64Type>(x, |x| match function {
            Function::Sign => Some(x.min(1)),
            _ => Some(x),
        }),
        _ => {
            let f = of_double(function);
            map::<Float64Type, Float64Type>(x, |x| Some(f(x)))
        }
    }
}

fn of_double(function: Function) -> fn(f64) -> f64 {
    match function {
        Function::Abs => f64::abs,
        Function::Ceil => f64::ceil,
        Function::Floor => f64::floor,
        Function::Round => f64::round,
        Function::Sign => |x| if x == 0.0 { x } else { x.signum() },
        Function::Ln => f64::ln,
        Function::Log2 => f64::log2,
        Function::Log10 => f64::log10,
        Function::Log1p => f64::ln_1p,
        Function::Exp => f64::exp,
        Function::Sqrt => f64::sqrt,
        Function::Sin => f64::sin,
        Function::Cos => f64::cos,
        Function::Tanh => f64::tanh,
        other => unreachable!("{other:?} is no function of one number"),
    }
}

pub(super) fn power(x: &Values, y: &Values) -> Values {
    map2::<Float64Type, Float64Type>(x, y, |x, y| Some(x.powf(y)))
}

/// NaN stays NaN.
pub(super) fn clip(x: &Values, low: &Values, high: &Values) -> Values {
    match x.array.data_type() {
        DataType::Int64 => between::<Int64Type>(x, low, high),
        DataType::UInt64 => between::<UInt64Type>(x, low, high),
        _ => between::<Float64Type>(x, low, high),
    }
}

fn between<T: ArrowPrimitiveType>(x: &Values, low: &Values, high: &Values) -> Values
where
    T::Native: PartialOrd,
{
    let raised = map2::<T, T>(x, low, |x, low| Some(if x < low { low } else { x }));
    let (_, is_scalar) = extent(&[&raised, high]);
    let made = map2::<T, T>(&raised, high, |x, high| Some(if x > high { high } else { x }));
    debug_assert!(
        is_scalar == made.is_scalar && (is_scalar || made.array.len() == x.array.len().max(high.array.len()))
    );
    made
}
