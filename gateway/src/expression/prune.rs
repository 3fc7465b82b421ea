//! What bounds on columns tell of a condition, before a row is read.
//!
//! In: a condition, and of some rows the least and the greatest value of a column and how many are NULL, each
//! as far as it is known. Out: whether none, some or all of the rows pass. The promise: none and all are never
//! said of rows for which evaluation says otherwise. Bounds need not be values of the rows, as long as they
//! enclose them; those of floating-point columns need not enclose NaN, which no writer counts.

use std::sync::Arc;

use arrow::array::types::{Float64Type, Int64Type, UInt64Type};
use arrow::array::{Array as _, ArrayRef, AsArray as _, BooleanArray, StringArray};
use arrow::datatypes::DataType;

use super::cast::load;
use super::compare::{Comparison, compare};
use super::functions::Function;
use super::kind::Kind;
use super::tree::{Node, Set};
use super::values::Values;

/// How many of some rows pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    None,
    Some,
    All,
}

/// What is known of some rows.
pub(crate) trait Bounds {
    /// What is known of a column, by its place in the dataset's schema.
    fn column(&self, place: usize) -> ColumnBounds;
}

/// What is known of a column in some rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct ColumnBounds {
    /// The least and the greatest value or something beyond them, each an array of one value of the column's
    /// type.
    pub(crate) range: Option<(ArrayRef, ArrayRef)>,
    /// How many are NULL.
    pub(crate) nulls: Option<u64>,
    /// How many rows there are.
    pub(crate) rows: u64,
}

/// Values of which a column must have one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OneOf {
    Whole(Vec<i128>),
    Text(Vec<String>),
}

/// What a condition may be for some of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Outcomes {
    yes: bool,
    no: bool,
    null: bool,
}

pub(super) fn prune(condition: &Node, bounds: &dyn Bounds) -> Verdict {
    match outcomes(condition, bounds) {
        Outcomes { yes: false, .. } => Verdict::None,
        Outcomes { no: false, null: false, .. } => Verdict::All,
        _ => Verdict::Some,
    }
}

/// Columns that must have one of a few values where a condition is true.
pub(super) fn one_of(condition: &Node) -> Vec<(usize, OneOf)> {
    match condition {
        Node::And(all) => all.iter().flat_map(one_of).collect(),
        Node::Compare { op: Comparison::Equal, left, right } => match (left.as_ref(), right.as_ref()) {
            (Node::Column(place), Node::Literal(value)) | (Node::Literal(value), Node::Column(place)) => {
                constant(value).map(|value| (*place, value)).into_iter().collect()
            }
            _ => Vec::new(),
        },
        Node::In { value, set } => match (value.as_ref(), set) {
            (Node::Column(place), Set::Whole(set)) => {
                vec![(*place, OneOf::Whole(set.iter().copied().collect()))]
            }
            (Node::Column(place), Set::Text(set)) => {
                vec![(*place, OneOf::Text(set.iter().cloned().collect()))]
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// An integer or a text.
fn constant(value: &ArrayRef) -> Option<OneOf> {
    let value = Values { array: ArrayRef::clone(value), is_scalar: true };
    if value.array.data_type() == &DataType::Null || value.array.is_null(0) {
        return None;
    }
    let text = || text(&value).map(|value| OneOf::Text(vec![value.to_owned()]));
    whole(&value).map(|value| OneOf::Whole(vec![value])).or_else(text)
}

impl Outcomes {
    const UNKNOWN: Self = Self { yes: true, no: true, null: true };
    const NULL: Self = Self { yes: false, no: false, null: true };

    fn of(truth: Option<bool>) -> Self {
        Self { yes: truth == Some(true), no: truth == Some(false), null: truth.is_none() }
    }

    fn not(self) -> Self {
        Self { yes: self.no, no: self.yes, null: self.null }
    }

    fn and(self, other: Self) -> Self {
        Self { yes: self.yes && other.yes, no: self.no || other.no, null: self.null || other.null }
    }
}

fn outcomes(condition: &Node, bounds: &dyn Bounds) -> Outcomes {
    match condition {
        Node::Literal(value) => Outcomes::of(truth(value)),
        Node::Not(inner) => outcomes(inner, bounds).not(),
        Node::And(all) => {
            all.iter().map(|inner| outcomes(inner, bounds)).reduce(Outcomes::and).unwrap_or(Outcomes::UNKNOWN)
        }
        Node::Or(any) => {
            let none = any.iter().map(|inner| outcomes(inner, bounds).not()).reduce(Outcomes::and);
            none.map_or(Outcomes::UNKNOWN, Outcomes::not)
        }
        Node::IsNull(inner) => match inner.as_ref() {
            Node::Column(place) => Known::of(*place, bounds).is_null(),
            Node::Compare { .. } | Node::And(_) | Node::Or(_) | Node::Not(_) | Node::In { .. } => {
                let inner = outcomes(inner, bounds);
                Outcomes { yes: inner.null, no: inner.yes || inner.no, null: false }
            }
            _ => Outcomes { null: false, ..Outcomes::UNKNOWN },
        },
        Node::Compare { op, left, right } => match (left.as_ref(), right.as_ref()) {
            (Node::Column(place), Node::Literal(value)) => Known::of(*place, bounds).compare(*op, value),
            (Node::Literal(value), Node::Column(place)) => {
                Known::of(*place, bounds).compare(op.flipped(), value)
            }
            _ => Outcomes::UNKNOWN,
        },
        Node::In { value, set } => match value.as_ref() {
            Node::Column(place) => Known::of(*place, bounds).one_of(set),
            _ => Outcomes::UNKNOWN,
        },
        Node::Like { value, pattern, ignores_case: false } => match (value.as_ref(), pattern.as_ref()) {
            (Node::Column(place), Node::Literal(pattern)) => match prefix(pattern) {
                Some(prefix) => Known::of(*place, bounds).begins(&prefix),
                None => Outcomes::UNKNOWN,
            },
            _ => Outcomes::UNKNOWN,
        },
        Node::Call { function: Function::StartsWith, arguments } => match arguments.as_slice() {
            [Node::Column(place), Node::Literal(prefix)] if prefix.is_valid(0) => {
                Known::of(*place, bounds).begins(prefix.as_string::<i32>().value(0))
            }
            _ => Outcomes::UNKNOWN,
        },
        Node::Column(place) => Known::of(*place, bounds).compare_truth(),
        _ => Outcomes::UNKNOWN,
    }
}

/// A column's bounds as what is computed in.
struct Known {
    range: Option<(Values, Values)>,
    /// Whether a value may be there, and whether a NULL may be.
    values: bool,
    nulls: bool,
    is_double: bool,
}

impl Known {
    fn of(place: usize, bounds: &dyn Bounds) -> Self {
        let ColumnBounds { range, nulls, rows } = bounds.column(place);
        let loaded = |bound: &ArrayRef| {
            let array = load(bound).ok()?;
            // What is passed on and never looked into has no order here.
            let is_comparable = !matches!(Kind::of(array.data_type()), Kind::Other(_) | Kind::Null);
            let is_known = is_comparable && array.len() == 1 && array.is_valid(0) && !is_nan(&array);
            is_known.then_some(Values { array, is_scalar: true })
        };
        let range = range.as_ref().and_then(|(low, high)| Some((loaded(low)?, loaded(high)?)));
        // A range that encloses nothing was not written by one who looked.
        let range = range.filter(|(low, high)| holds(Comparison::LessOrEqual, low, high));
        let is_double = range.as_ref().is_some_and(|(low, _)| low.array.data_type() == &DataType::Float64);
        Self {
            range,
            values: nulls.is_none_or(|nulls| nulls < rows),
            nulls: nulls.is_none_or(|nulls| nulls > 0),
            is_double,
        }
    }

    fn is_null(&self) -> Outcomes {
        Outcomes { yes: self.nulls, no: self.values, null: false }
    }

    /// Outcomes for the values, and NULL for what is NULL.
    fn among(&self, yes: bool, no: bool) -> Outcomes {
        Outcomes { yes: yes && self.values, no: no && self.values, null: self.nulls }
    }

    fn compare(&self, op: Comparison, value: &ArrayRef) -> Outcomes {
        if value.data_type() == &DataType::Null || value.is_null(0) {
            return Outcomes::NULL;
        }
        let Some((low, high)) = &self.range else { return self.among(true, true) };
        let value = Values { array: ArrayRef::clone(value), is_scalar: true };
        // NaN compares as the operators say, whatever the range is.
        if is_nan(&value.array) {
            return self.among(op == Comparison::Unequal, op != Comparison::Unequal);
        }
        let (below, above) = (holds(Comparison::Less, low, &value), holds(Comparison::Greater, high, &value));
        let reaches = !holds(Comparison::Greater, low, &value) && !holds(Comparison::Less, high, &value);
        let is_single = holds(Comparison::Equal, low, high);
        let (yes, no) = match op {
            Comparison::Equal => (reaches, !(reaches && is_single)),
            Comparison::Unequal => (!(reaches && is_single), reaches),
            Comparison::Less => (below, above || holds(Comparison::Equal, high, &value)),
            Comparison::LessOrEqual => (below || holds(Comparison::Equal, low, &value), above),
            Comparison::Greater => (above, below || holds(Comparison::Equal, low, &value)),
            Comparison::GreaterOrEqual => (above || holds(Comparison::Equal, high, &value), below),
        };
        // Beside the range there may be NaN.
        match op {
            Comparison::Unequal => self.among(yes || self.is_double, no),
            _ => self.among(yes, no || self.is_double),
        }
    }

    fn compare_truth(&self) -> Outcomes {
        let truth: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
        self.compare(Comparison::Equal, &truth)
    }

    fn one_of(&self, set: &Set) -> Outcomes {
        let Some((low, high)) = &self.range else { return self.among(true, true) };
        let yes = match set {
            Set::Whole(set) => match (whole(low), whole(high)) {
                (Some(low), Some(high)) => set.iter().any(|value| (low..=high).contains(value)),
                _ => true,
            },
            Set::Text(set) => match (text(low), text(high)) {
                (Some(low), Some(high)) => set.iter().any(|value| (low..=high).contains(&value.as_str())),
                _ => true,
            },
        };
        self.among(yes, true)
    }

    fn begins(&self, prefix: &str) -> Outcomes {
        let Some((low, high)) = &self.range else { return self.among(true, true) };
        let (Some(low), Some(high)) = (text(low), text(high)) else { return self.among(true, true) };
        // A text that begins so is not below the prefix, and above it only where the bound begins so or is above.
        let head = |bound: &str| bound.as_bytes().get(..prefix.len().min(bound.len())).map(<[u8]>::to_vec);
        let is_within = high.as_bytes() >= prefix.as_bytes()
            && head(low).is_some_and(|head| head.as_slice() <= prefix.as_bytes());
        self.among(is_within, true)
    }
}

fn holds(op: Comparison, left: &Values, right: &Values) -> bool {
    let made = compare(op, left, right);
    truth(&made.array) == Some(true)
}

fn truth(value: &ArrayRef) -> Option<bool> {
    let value = value.as_boolean_opt()?;
    value.is_valid(0).then(|| value.value(0))
}

fn is_nan(value: &ArrayRef) -> bool {
    value.as_primitive_opt::<Float64Type>().is_some_and(|number| number.value(0).is_nan())
}

fn whole(value: &Values) -> Option<i128> {
    if let Some(value) = value.array.as_primitive_opt::<Int64Type>() {
        return Some(value.value(0).into());
    }
    value.array.as_primitive_opt::<UInt64Type>().map(|value| value.value(0).into())
}

fn text(value: &Values) -> Option<&str> {
    value.array.as_string_opt::<i32>().map(|text: &StringArray| text.value(0))
}

/// What a text must begin with to be like a pattern.
fn prefix(pattern: &ArrayRef) -> Option<String> {
    if pattern.is_null(0) {
        return None;
    }
    let pattern = pattern.as_string::<i32>().value(0);
    let end = pattern.find(['%', '_', '\\'])?;
    Some(pattern[..end].to_owned())
}
