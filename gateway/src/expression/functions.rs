//! The functions there are: their names, what they take, and what they give.
//!
//! NULL in any argument gives NULL, except for `coalesce`.

mod bucket;
mod moment;
mod number;
mod text;

use arrow::array::{Array as _, AsArray as _};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{DatePart, is_not_null, nullif};
use arrow::error::ArrowError;

pub(super) use self::text::pairwise;
use super::ExpressionError;
use super::compare::{Comparison, compare};
use super::error::At;
use super::kind::Kind;
use super::tree::{Node, Typed};
use super::values::{Values, extent};
use penstock_proto::hint;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Function {
    Abs,
    Ceil,
    Floor,
    Round,
    Sign,
    Ln,
    Log2,
    Log10,
    Log1p,
    Exp,
    Sqrt,
    Sin,
    Cos,
    Tanh,
    Power,
    IsNan,
    Clip,
    HashBucket,
    Lower,
    Upper,
    Trim,
    Length,
    Substr,
    Concat,
    StartsWith,
    EndsWith,
    Contains,
    Coalesce,
    NullIf,
    Extract(DatePart),
}

/// What a function takes, as people are told it.
struct Entry {
    name: &'static str,
    function: Function,
    takes: &'static str,
}

const fn entry(name: &'static str, function: Function, takes: &'static str) -> Entry {
    Entry { name, function, takes }
}

const FUNCTIONS: &[Entry] = &[
    entry("abs", Function::Abs, "a number"),
    entry("ceil", Function::Ceil, "a number"),
    entry("ceiling", Function::Ceil, "a number"),
    entry("floor", Function::Floor, "a number"),
    entry("round", Function::Round, "a number"),
    entry("sign", Function::Sign, "a number"),
    entry("ln", Function::Ln, "a number"),
    entry("log2", Function::Log2, "a number"),
    entry("log10", Function::Log10, "a number"),
    entry("log1p", Function::Log1p, "a number"),
    entry("exp", Function::Exp, "a number"),
    entry("sqrt", Function::Sqrt, "a number"),
    entry("sin", Function::Sin, "a number"),
    entry("cos", Function::Cos, "a number"),
    entry("tanh", Function::Tanh, "a number"),
    entry("power", Function::Power, "two numbers"),
    entry("is_nan", Function::IsNan, "a number"),
    entry("clip", Function::Clip, "a number, the lowest and the highest"),
    entry(
        "hash_bucket",
        Function::HashBucket,
        "an integer or a text, a constant number of buckets, and a constant seed or none",
    ),
    entry("lower", Function::Lower, "a text"),
    entry("upper", Function::Upper, "a text"),
    entry("trim", Function::Trim, "a text"),
    entry("length", Function::Length, "a text"),
    entry(
        "substr",
        Function::Substr,
        "a text, a first letter counted from 1, and a number of letters or none",
    ),
    entry("concat", Function::Concat, "texts"),
    entry("starts_with", Function::StartsWith, "two texts"),
    entry("ends_with", Function::EndsWith, "two texts"),
    entry("contains", Function::Contains, "two texts"),
    entry("coalesce", Function::Coalesce, "values of one kind"),
    entry("nullif", Function::NullIf, "two values that can be compared"),
];

impl Function {
    /// Names are read in any case.
    pub(super) fn named(name: &str, at: At) -> Result<Self, ExpressionError> {
        let lower = name.to_ascii_lowercase();
        let found = FUNCTIONS.iter().find(|entry| entry.name == lower);
        found.map(|entry| entry.function).ok_or_else(|| {
            let known: Vec<&str> = FUNCTIONS.iter().map(|entry| entry.name).collect();
            ExpressionError::UnknownFunction { at, name: name.to_owned(), hint: hint(&lower, &known) }
        })
    }

    /// A call, if it takes such arguments.
    pub(super) fn call(self, arguments: Vec<Typed>, at: At) -> Result<Typed, ExpressionError> {
        let kinds: Vec<Kind> = arguments.iter().map(|argument| argument.kind.clone()).collect();
        let (takes, gives) = self.signature(&kinds).ok_or_else(|| self.refuse(&kinds, at))?;
        if self == Self::HashBucket && !arguments[1..].iter().all(|constant| constant.node.is_constant()) {
            return Err(self.refuse(&kinds, at));
        }
        let arguments: Vec<Node> = match self {
            // A moment's parts are told in the unit it has.
            Self::Extract(_) => arguments.into_iter().map(|moment| moment.node).collect(),
            _ => arguments.into_iter().zip(&takes).map(|(argument, kind)| argument.into(kind)).collect(),
        };
        if self == Self::HashBucket && !bucket::is_sound(&arguments[1..]) {
            return Err(self.refuse(&kinds, at));
        }
        Ok(Typed::new(Node::Call { function: self, arguments }, gives))
    }

    /// The kinds that the arguments are converted to, and that of the outcome.
    fn signature(self, found: &[Kind]) -> Option<(Vec<Kind>, Kind)> {
        use Kind::{Bool, Double, Int, Null, Text, Unsigned};
        let is_number = |kind: &Kind| kind.is_number() || *kind == Null;
        let is_whole = |kind: &Kind| matches!(kind, Int | Null);
        let is_text = |kind: &Kind| matches!(kind, Text | Null);
        let all = |kind: Kind| vec![kind; found.len()];
        let common = || found.iter().try_fold(Null, |common, kind| common.common(kind));
        Some(match (self, found) {
            (Self::Abs | Self::Ceil | Self::Floor | Self::Round | Self::Sign, [x]) if is_number(x) => {
                let kind = if *x == Null { Double } else { x.clone() };
                (vec![kind.clone()], kind)
            }
            (
                Self::Ln
                | Self::Log2
                | Self::Log10
                | Self::Log1p
                | Self::Exp
                | Self::Sqrt
                | Self::Sin
                | Self::Cos
                | Self::Tanh,
                [x],
            ) if is_number(x) => (all(Double), Double),
            (Self::Power, [x, y]) if is_number(x) && is_number(y) => (all(Double), Double),
            (Self::IsNan, [x]) if is_number(x) => (all(Double), Bool),
            (Self::Clip, [_, _, _]) if found.iter().all(is_number) => match common()? {
                Null => (all(Double), Double),
                kind => (all(kind.clone()), kind),
            },
            (Self::HashBucket, [x, rest @ ..])
                if matches!(x, Int | Unsigned | Text) && matches!(rest, [Int] | [Int, Int]) =>
            {
                let takes = std::iter::once(x).chain(rest).cloned().collect();
                (takes, Int)
            }
            (Self::Lower | Self::Upper | Self::Trim, [x]) if is_text(x) => (all(Text), Text),
            (Self::Length, [x]) if is_text(x) => (all(Text), Int),
            (Self::Substr, [x, rest @ ..])
                if is_text(x) && matches!(rest.len(), 1 | 2) && rest.iter().all(is_whole) =>
            {
                let takes = std::iter::once(Text).chain(rest.iter().map(|_| Int)).collect();
                (takes, Text)
            }
            (Self::Concat, [_, ..]) if found.iter().all(is_text) => (all(Text), Text),
            (Self::StartsWith | Self::EndsWith | Self::Contains, [_, _]) if found.iter().all(is_text) => {
                (all(Text), Bool)
            }
            (Self::Coalesce, [_, ..]) => {
                let kind = common()?;
                kind.data_type()?;
                (all(kind.clone()), kind)
            }
            (Self::NullIf, [x, y]) if x.is_comparable(y) => {
                x.data_type()?;
                (found.to_vec(), x.clone())
            }
            (Self::Extract(_), [x]) if x.is_moment() => (found.to_vec(), Int),
            _ => return None,
        })
    }

    fn refuse(self, found: &[Kind], at: At) -> ExpressionError {
        let (name, wanted) = match FUNCTIONS.iter().find(|entry| entry.function == self) {
            Some(entry) => (entry.name, entry.takes),
            None => ("EXTRACT", "a date or a timestamp"),
        };
        let found: Vec<String> = found.iter().map(Kind::to_string).collect();
        let found = if found.is_empty() { "nothing".to_owned() } else { found.join(", ") };
        ExpressionError::Arguments { at, name: name.to_owned(), wanted: wanted.to_owned(), found }
    }

    /// The outcome for arguments as they were typed.
    pub(super) fn evaluate(self, arguments: &[Values]) -> Result<Values, ArrowError> {
        Ok(match (self, arguments) {
            (Self::Clip, [x, low, high]) => number::clip(x, low, high),
            (Self::Power, [x, y]) => number::power(x, y),
            (Self::HashBucket, [x, constants @ ..]) => bucket::hash_bucket(x, constants),
            (Self::Substr, [x, start, length @ ..]) => text::substr(x, start, length.first()),
            (Self::Concat, parts) => text::concat(parts),
            (Self::StartsWith | Self::EndsWith | Self::Contains, [x, part]) => text::test(self, x, part)?,
            (Self::Coalesce, all) => coalesce(all)?,
            (Self::NullIf, [x, y]) => null_if(x, y)?,
            (Self::Extract(part), [x]) => moment::extract(x, part)?,
            (Self::Lower | Self::Upper | Self::Trim | Self::Length, [x]) => text::of_one(self, x),
            (_, [x]) => number::of_one(self, x),
            _ => unreachable!("a call was typed"),
        })
    }
}

fn coalesce(all: &[Values]) -> Result<Values, ArrowError> {
    let (rows, is_scalar) = extent(&all.iter().collect::<Vec<_>>());
    let (last, before) = all.split_last().expect("coalesce takes at least one");
    let mut made = last.spread(rows)?;
    for values in before.iter().rev() {
        let values = values.spread(rows)?;
        made = zip(&is_not_null(&values)?, &values, &made)?;
    }
    Ok(Values { array: made, is_scalar })
}

fn null_if(x: &Values, y: &Values) -> Result<Values, ArrowError> {
    let (rows, is_scalar) = extent(&[x, y]);
    let equal = compare(Comparison::Equal, x, y).spread(rows)?;
    let x = x.spread(rows)?;
    debug_assert_eq!(equal.len(), x.len());
    Ok(Values { array: nullif(&x, equal.as_boolean())?, is_scalar })
}
