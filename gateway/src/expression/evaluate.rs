//! A typed tree over record batches, by Arrow's kernels where they do what SQL says.
//!
//! Three-valued logic throughout; what a row's values do not allow (an integer beyond 64 bits, a division of
//! integers by zero) is NULL, and no error, but for what a CAST loses. Of conditions and cases that may meet that, those
//! on the right are computed only for rows that those on the left leave open.

use std::sync::Arc;

use arrow::array::types::{Float64Type, Int64Type, UInt64Type};
use arrow::array::{
    Array as _, ArrayRef, ArrowPrimitiveType, AsArray as _, BooleanArray, NullArray, UInt64Array,
};
use arrow::compute::kernels::comparison::{ilike, like};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{and, and_kleene, filter_record_batch, is_null, not, or_kleene, take};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use super::Input;
use super::cast;
use super::compare::compare;
use super::functions::pairwise;
use super::tree::{Arithmetic, Node, Set};
use super::values::{Values, extent, map, map2, truths};

/// The values of a node, one a row or one for all.
pub(super) fn evaluate(node: &Node, input: Input<'_>) -> Result<Values, ArrowError> {
    Ok(match node {
        Node::Column(place) => Values { array: cast::load(input.column(*place)?)?, is_scalar: false },
        Node::Member { place, inside } => {
            Values { array: cast::load(&input.member(*place, inside)?)?, is_scalar: false }
        }
        Node::Literal(value) => Values { array: Arc::clone(value), is_scalar: true },
        Node::Not(condition) => {
            let condition = evaluate(condition, input)?;
            let made = not(condition.array.as_boolean())?;
            condition.like(made)
        }
        Node::And(conditions) if conditions.iter().any(Node::may_refuse) => {
            in_turn(conditions, input, and_kleene, |made| not(&truths(&not(made)?)))?
        }
        Node::Or(conditions) if conditions.iter().any(Node::may_refuse) => {
            in_turn(conditions, input, or_kleene, |made| not(&truths(made)))?
        }
        Node::And(conditions) => joined(conditions, input, and_kleene)?,
        Node::Or(conditions) => joined(conditions, input, or_kleene)?,
        Node::IsNull(value) => {
            let value = evaluate(value, input)?;
            let made = is_null(&value.array)?;
            value.like(made)
        }
        Node::Compare { op, left, right } => compare(*op, &evaluate(left, input)?, &evaluate(right, input)?),
        Node::In { value, set } => {
            let value = evaluate(value, input)?;
            let made = set.holds(&value.array);
            value.like(made)
        }
        Node::Like { value, pattern, ignores_case } => {
            let (value, pattern) = (evaluate(value, input)?, evaluate(pattern, input)?);
            let kernel = if *ignores_case { ilike } else { like };
            pairwise(&value, &pattern, |value, pattern| kernel(value, pattern))?
        }
        Node::Arithmetic { op, left, right } => {
            arithmetic(*op, &evaluate(left, input)?, &evaluate(right, input)?)
        }
        Node::Negate(value) => {
            let value = evaluate(value, input)?;
            match value.array.data_type() {
                DataType::Int64 => map::<Int64Type, Int64Type>(&value, i64::checked_neg),
                _ => map::<Float64Type, Float64Type>(&value, |x| Some(-x)),
            }
        }
        Node::Convert { value, to } => cast::convert(&evaluate(value, input)?, to)?,
        Node::Cast { value, to, strict } => cast::cast(&evaluate(value, input)?, to, strict.as_deref())?,
        Node::Case { whens, otherwise } if node.may_refuse() => case_in_turn(whens, otherwise, input)?,
        Node::Case { whens, otherwise } => case(whens, otherwise, input)?,
        Node::Call { function, arguments } => {
            let values =
                arguments.iter().map(|argument| evaluate(argument, input)).collect::<Result<Vec<_>, _>>()?;
            function.evaluate(&values)?
        }
    })
}

type Kleene = fn(&BooleanArray, &BooleanArray) -> Result<BooleanArray, ArrowError>;

fn joined(conditions: &[Node], input: Input<'_>, by: Kleene) -> Result<Values, ArrowError> {
    let conditions =
        conditions.iter().map(|condition| evaluate(condition, input)).collect::<Result<Vec<_>, _>>()?;
    let (rows, is_scalar) = extent(&conditions.iter().collect::<Vec<_>>());
    let mut made: Option<ArrayRef> = None;
    for condition in &conditions {
        let condition = condition.spread(rows)?;
        made = Some(match made {
            None => condition,
            Some(made) => Arc::new(by(made.as_boolean(), condition.as_boolean())?),
        });
    }
    let made = made.unwrap_or_else(|| Arc::new(NullArray::new(rows)));
    Ok(Values { array: made, is_scalar })
}

fn arithmetic(op: Arithmetic, left: &Values, right: &Values) -> Values {
    if left.array.data_type() == &DataType::Float64 {
        return map2::<Float64Type, Float64Type>(left, right, |a, b| {
            Some(match op {
                Arithmetic::Add => a + b,
                Arithmetic::Subtract => a - b,
                Arithmetic::Multiply => a * b,
                Arithmetic::Divide => a / b,
                Arithmetic::Modulo => a % b,
            })
        });
    }
    map2::<Int64Type, Int64Type>(left, right, |a, b| match op {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Subtract => a.checked_sub(b),
        Arithmetic::Multiply => a.checked_mul(b),
        Arithmetic::Divide => a.checked_div(b),
        // The lowest number by −1 leaves nothing, too.
        Arithmetic::Modulo => (b != 0).then(|| a.wrapping_rem(b)),
    })
}

fn case(whens: &[(Node, Node)], otherwise: &Node, input: Input<'_>) -> Result<Values, ArrowError> {
    let conditions =
        whens.iter().map(|(condition, _)| evaluate(condition, input)).collect::<Result<Vec<_>, _>>()?;
    let results = whens.iter().map(|(_, result)| evaluate(result, input)).collect::<Result<Vec<_>, _>>()?;
    let otherwise = evaluate(otherwise, input)?;
    let all: Vec<&Values> = conditions.iter().chain(&results).chain([&otherwise]).collect();
    let (rows, is_scalar) = extent(&all);
    let mut made = otherwise.spread(rows)?;
    for (condition, result) in conditions.iter().zip(&results).rev() {
        let mask = truths(condition.spread(rows)?.as_boolean());
        made = zip(&mask, &result.spread(rows)?, &made)?;
    }
    Ok(Values { array: made, is_scalar })
}

/// Conditions, each for the rows that those before it leave `open`.
fn in_turn(
    conditions: &[Node],
    input: Input<'_>,
    by: Kleene,
    open: impl Fn(&BooleanArray) -> Result<BooleanArray, ArrowError>,
) -> Result<Values, ArrowError> {
    let mut made: Option<BooleanArray> = None;
    for condition in conditions {
        made = Some(match made {
            None => evaluate(condition, input)?.spread(input.batch.num_rows())?.as_boolean().clone(),
            Some(made) => by(&made, only(condition, input, &open(&made)?)?.as_boolean())?,
        });
    }
    let made = made.expect("there are conditions of which one may refuse");
    Ok(Values { array: Arc::new(made), is_scalar: false })
}

/// Cases, each for the rows that those before it leave open.
fn case_in_turn(whens: &[(Node, Node)], otherwise: &Node, input: Input<'_>) -> Result<Values, ArrowError> {
    let mut open = BooleanArray::from(vec![true; input.batch.num_rows()]);
    let mut results = Vec::with_capacity(whens.len());
    for (condition, result) in whens {
        let met = only(condition, input, &open)?;
        let met = and(&open, &truths(met.as_boolean()))?;
        open = and(&open, &not(&met)?)?;
        results.push((only(result, input, &met)?, met));
    }
    let mut made = only(otherwise, input, &open)?;
    for (result, met) in results {
        made = zip(&met, &result, &made)?;
    }
    Ok(Values { array: made, is_scalar: false })
}

/// The values of some rows. Of a node that may refuse what a row holds those of the others are not computed, but NULL.
fn only(node: &Node, input: Input<'_>, rows: &BooleanArray) -> Result<ArrayRef, ArrowError> {
    if !node.may_refuse() {
        return evaluate(node, input)?.spread(rows.len());
    }
    let batch = filter_record_batch(input.batch, rows)?;
    let values = evaluate(node, Input { batch: &batch, ..input })?.spread(batch.num_rows())?;
    let mut next = 0..;
    let places: UInt64Array =
        rows.values().iter().map(|is_wanted| is_wanted.then(|| next.next()).flatten()).collect();
    take(&values, &places, None)
}

impl Set {
    fn holds(&self, array: &ArrayRef) -> BooleanArray {
        match self {
            Self::Text(set) => {
                array.as_string::<i32>().iter().map(|text| text.map(|text| set.contains(text))).collect()
            }
            Self::Whole(set) => match array.data_type() {
                DataType::UInt64 => whole::<UInt64Type>(array, |x| set.contains(&i128::from(x))),
                _ => whole::<Int64Type>(array, |x| set.contains(&i128::from(x))),
            },
        }
    }
}

fn whole<T: ArrowPrimitiveType>(array: &ArrayRef, holds: impl Fn(T::Native) -> bool) -> BooleanArray {
    BooleanArray::from_unary(array.as_primitive::<T>(), holds)
}
