//! Random conditions over random rows: against an evaluation row by row that knows no Arrow, and pruning by
//! bounds that are true but loose.

use std::cmp::Ordering;
use std::fmt;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Whole(i64),
    Double(f64),
    Text(String),
}

#[derive(Debug, Clone)]
pub(crate) enum Operand {
    /// 0: whole, 1: double, 2: text.
    Column(usize),
    Constant(Value),
    Sum(Box<Operand>, i64),
}

#[derive(Debug, Clone)]
pub(crate) enum Condition {
    Compare(&'static str, Operand, Operand),
    OneOf(usize, Vec<Value>),
    Begins(String),
    IsNull(usize),
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
}

pub(crate) type Row = [Option<Value>; 3];

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(x) => write!(f, "{x}"),
            Self::Double(x) => write!(f, "{x:?}"),
            Self::Text(x) => write!(f, "'{x}'"),
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(column) => f.write_str(["w", "d", "s"][*column]),
            Self::Constant(value) => write!(f, "{value}"),
            Self::Sum(operand, more) => write!(f, "({operand} + {more})"),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compare(op, left, right) => write!(f, "{left} {op} {right}"),
            Self::OneOf(column, values) => {
                let values: Vec<String> = values.iter().map(Value::to_string).collect();
                write!(f, "{} IN ({})", Operand::Column(*column), values.join(", "))
            }
            Self::Begins(prefix) => write!(f, "s LIKE '{prefix}%'"),
            Self::IsNull(column) => write!(f, "{} IS NULL", Operand::Column(*column)),
            Self::Not(inner) => write!(f, "NOT ({inner})"),
            Self::And(left, right) => write!(f, "({left}) AND ({right})"),
            Self::Or(left, right) => write!(f, "({left}) OR ({right})"),
        }
    }
}

fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Whole(a), Value::Whole(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        (Value::Whole(_), Value::Double(_)) => order(right, left).map(Ordering::reverse),
        (Value::Double(a), Value::Whole(b)) => match a {
            a if a.is_nan() => None,
            a if *a >= 9.3e18 => Some(Ordering::Greater),
            a if *a <= -9.3e18 => Some(Ordering::Less),
            // The whole part decides, then whether there is more.
            a => Some((a.trunc() as i128).cmp(&i128::from(*b)).then(a.fract().partial_cmp(&0.0)?)),
        },
        _ => unreachable!("texts are compared with texts"),
    }
}

impl Operand {
    fn of(&self, row: &Row) -> Option<Value> {
        match self {
            Self::Column(column) => row[*column].clone(),
            Self::Constant(value) => Some(value.clone()),
            Self::Sum(operand, more) => match operand.of(row)? {
                Value::Whole(x) => x.checked_add(*more).map(Value::Whole),
                Value::Double(x) => Some(Value::Double(x + *more as f64)),
                Value::Text(_) => unreachable!("numbers are added"),
            },
        }
    }
}

impl Condition {
    pub(crate) fn of(&self, row: &Row) -> Option<bool> {
        match self {
            Self::Compare(op, left, right) => {
                let order = order(&left.of(row)?, &right.of(row)?);
                Some(match *op {
                    "=" => order.is_some_and(Ordering::is_eq),
                    "<>" => !order.is_some_and(Ordering::is_eq),
                    "<" => order.is_some_and(Ordering::is_lt),
                    "<=" => order.is_some_and(Ordering::is_le),
                    ">" => order.is_some_and(Ordering::is_gt),
                    _ => order.is_some_and(Ordering::is_ge),
                })
            }
            Self::OneOf(column, values) => {
                let found = row[*column].as_ref()?;
                Some(values.iter().any(|value| order(found, value) == Some(Ordering::Equal)))
            }
            Self::Begins(prefix) => match row[2].as_ref()? {
                Value::Text(text) => Some(text.starts_with(prefix)),
                _ => None,
            },
            Self::IsNull(column) => Some(row[*column].is_none()),
            Self::Not(inner) => inner.of(row).map(|truth| !truth),
            Self::And(left, right) => match (left.of(row), right.of(row)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Self::Or(left, right) => match (left.of(row), right.of(row)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
        }
    }
}

fn wholes() -> impl Strategy<Value = i64> {
    prop_oneof![8 => -4i64..5, 1 => Just(i64::MAX), 1 => Just(i64::MIN), 1 => Just(ODD), 1 => Just(ODD - 1)]
}

/// Without NaN and infinity, which cannot be written.
fn doubles() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => (-8i32..9).prop_map(|x| f64::from(x) / 2.0), 1 => Just(-0.0), 1 => Just(1e300), 1 => Just((ODD - 1) as f64),
        1 => Just(9_223_372_036_854_775_808.0),
    ]
}

fn texts() -> impl Strategy<Value = String> {
    "[abä]{0,4}"
}

fn numbers() -> impl Strategy<Value = Operand> {
    let leaf = prop_oneof![
        2 => (0usize..2).prop_map(Operand::Column),
        1 => wholes().prop_map(|x| Operand::Constant(Value::Whole(x))),
        1 => doubles().prop_map(|x| Operand::Constant(Value::Double(x))),
    ];
    prop_oneof![5 => leaf.clone(), 1 => (leaf, -3i64..4).prop_map(|(x, more)| Operand::Sum(Box::new(x), more))]
}

pub(crate) fn conditions() -> impl Strategy<Value = Condition> {
    let ops = || prop::sample::select(vec!["=", "<>", "<", "<=", ">", ">="]);
    let text = || texts().prop_map(|x| Operand::Constant(Value::Text(x)));
    let leaf = prop_oneof![
        4 => (ops(), numbers(), numbers()).prop_map(|(op, a, b)| Condition::Compare(op, a, b)),
        2 => (ops(), text()).prop_map(|(op, a)| Condition::Compare(op, Operand::Column(2), a)),
        1 => (ops(), text()).prop_map(|(op, a)| Condition::Compare(op, a, Operand::Column(2))),
        1 => texts().prop_map(Condition::Begins),
        1 => (0usize..3).prop_map(Condition::IsNull),
        1 => prop::collection::vec(wholes().prop_map(Value::Whole), 1..4).prop_map(|x| Condition::OneOf(0, x)),
        1 => prop::collection::vec(doubles().prop_map(Value::Double), 1..4).prop_map(|x| Condition::OneOf(1, x)),
        1 => prop::collection::vec(texts().prop_map(Value::Text), 1..4).prop_map(|x| Condition::OneOf(2, x)),
    ];
    leaf.prop_recursive(3, 12, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|x| Condition::Not(Box::new(x))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Condition::And(Box::new(a), Box::new(b))),
            (inner.clone(), inner).prop_map(|(a, b)| Condition::Or(Box::new(a), Box::new(b))),
        ]
    })
}

/// Few rows, often alike, so that bounds decide something.
pub(crate) fn tables() -> impl Strategy<Value = Vec<Row>> {
    let double = prop_oneof![8 => doubles(), 1 => Just(f64::NAN), 1 => Just(f64::INFINITY)];
    let row = (
        prop::option::weighted(0.8, wholes().prop_map(Value::Whole)),
        prop::option::weighted(0.8, double.prop_map(Value::Double)),
        prop::option::weighted(0.8, texts().prop_map(Value::Text)),
    );
    prop::collection::vec(row.prop_map(|(a, b, c)| [a, b, c]), 1..5)
}

pub(crate) fn batch(rows: &[Row]) -> RecordBatch {
    let whole: Int64Array = rows
        .iter()
        .map(|row| {
            row[0].as_ref().map(|x| match x {
                Value::Whole(x) => *x,
                _ => 0,
            })
        })
        .collect();
    let double: Float64Array = rows
        .iter()
        .map(|row| {
            row[1].as_ref().map(|x| match x {
                Value::Double(x) => *x,
                _ => 0.0,
            })
        })
        .collect();
    let text: StringArray = rows
        .iter()
        .map(|row| {
            row[2].as_ref().map(|x| match x {
                Value::Text(x) => x.clone(),
                _ => String::new(),
            })
        })
        .collect();
    let columns: [(&str, ArrayRef, bool); 3] =
        [("w", Arc::new(whole), true), ("d", Arc::new(double), true), ("s", Arc::new(text), true)];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// True bounds of some rows: NaN left out as writers do, texts cut to a letter as writers may.
struct Told<'a> {
    rows: &'a [Row],
    is_cut: bool,
    counts_nulls: bool,
    has_ranges: bool,
}

impl Bounds for Told<'_> {
    fn column(&self, place: usize) -> ColumnBounds {
        let values = || {
            let found = self.rows.iter().filter_map(|row| row[place].as_ref());
            found.filter(|value| !matches!(value, Value::Double(x) if x.is_nan()))
        };
        let low = values().min_by(|a, b| order(a, b).unwrap());
        let high = values().max_by(|a, b| order(a, b).unwrap());
        let one = |value: &Value, is_high: bool| -> ArrayRef {
            match value {
                Value::Whole(x) => Arc::new(Int64Array::from(vec![*x])),
                Value::Double(x) => Arc::new(Float64Array::from(vec![*x])),
                Value::Text(x) if self.is_cut && x.chars().count() > 1 => {
                    let first = x.chars().next().unwrap();
                    let first = if is_high { char::from_u32(first as u32 + 1).unwrap() } else { first };
                    Arc::new(StringArray::from(vec![first.to_string()]))
                }
                Value::Text(x) => Arc::new(StringArray::from(vec![x.as_str()])),
            }
        };
        let range =
            low.zip(high).filter(|_| self.has_ranges).map(|(low, high)| (one(low, false), one(high, true)));
        let nulls = self.rows.iter().filter(|row| row[place].is_none()).count() as u64;
        ColumnBounds { range, nulls: self.counts_nulls.then_some(nulls), rows: self.rows.len() as u64 }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn rows_pass_as_they_do_one_by_one_and_pruning_agrees(
        condition in conditions(), rows in tables(), is_cut in any::<bool>(), counts_nulls in any::<bool>(),
        has_ranges in prop::bool::weighted(0.9),
    ) {
        let (text, batch) = (condition.to_string(), batch(&rows));
        let predicate = Predicate::parse(&text, &batch.schema()).unwrap();
        let read = batch.project(predicate.columns()).unwrap();
        let passes = predicate.passes(Input { batch: &read, places: predicate.columns() }).unwrap();
        let expected: Vec<bool> = rows.iter().map(|row| condition.of(row) == Some(true)).collect();
        prop_assert_eq!(passes.iter().collect::<Vec<_>>(), expected, "{}", text);

        let told = Told { rows: &rows, is_cut, counts_nulls, has_ranges };
        match predicate.prune(&told) {
            Verdict::None => prop_assert_eq!(passes.count_set_bits(), 0, "{}", text),
            Verdict::All => prop_assert_eq!(passes.count_set_bits(), rows.len(), "{}", text),
            Verdict::Some => {}
        }
    }
}

/// Pruning that says nothing would pass the property, too.
#[test]
fn bounds_decide_what_they_can() {
    let row = |w: i64, d: f64, s: &str| {
        [Some(Value::Whole(w)), Some(Value::Double(d)), Some(Value::Text(s.to_owned()))]
    };
    let rows = [row(3, 1.5, "bab"), row(7, 2.5, "bb")];
    let told = Told { rows: &rows, is_cut: true, counts_nulls: true, has_ranges: true };
    for (text, expected) in [
        ("w > 7", Verdict::None),
        ("w >= 3", Verdict::All),
        ("w > 3", Verdict::Some),
        ("w = 8 OR w < 3", Verdict::None),
        ("w BETWEEN 1 AND 9 AND s IS NOT NULL", Verdict::All),
        ("w IN (1, 2, 8)", Verdict::None),
        ("w <> 8", Verdict::All),
        ("w > 7.5", Verdict::None),
        ("d > 2.5", Verdict::None),
        ("d > 1", Verdict::Some),
        ("NOT d > 2.5", Verdict::All),
        ("d < 1 + 0.25", Verdict::None),
        ("s LIKE 'a%'", Verdict::None),
        ("s LIKE 'bab%'", Verdict::Some),
        ("starts_with(s, 'd')", Verdict::None),
        ("s IS NULL", Verdict::None),
        ("s = 'a' OR NULL", Verdict::None),
        ("TRUE", Verdict::All),
    ] {
        let predicate = Predicate::parse(text, &batch(&rows).schema()).unwrap();
        assert_eq!(predicate.prune(&told), expected, "{text}");
    }
}
