//! What a parsed text means for a schema: columns found, kinds checked, constants computed.

mod calls;
mod literal;

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::types::{Int64Type, UInt64Type};
use arrow::array::{Array as _, RecordBatch};
use arrow::array::{AsArray as _, NullArray};
use arrow::datatypes::{DataType, Schema};
use sqlparser::ast::{BinaryOperator, Expr, Ident, InTarget, Spanned as _, UnaryOperator};

use super::compare::Comparison;
use super::error::{At, Uncast};
use super::evaluate::evaluate;
use super::functions::Function;
use super::kind::Kind;
use super::tree::{Arithmetic, Node, Set, Typed};
use super::{ExpressionError, Input};
use penstock_proto::{hint, sql_name};

/// Levels that are walked by recursion. Conditions joined by AND or OR are one level.
const MAX_DEPTH: usize = 64;

/// What a parsed expression means for a schema.
pub(super) fn resolve(parsed: &Expr, schema: &Schema) -> Result<Typed, ExpressionError> {
    Resolver { schema, depth: 0 }.typed(parsed)
}

/// A schema, and how deep in the expression it is asked for.
#[derive(Clone, Copy)]
struct Resolver<'a> {
    schema: &'a Schema,
    depth: usize,
}

impl Resolver<'_> {
    fn typed(self, parsed: &Expr) -> Result<Typed, ExpressionError> {
        if self.depth == MAX_DEPTH {
            return Err(ExpressionError::TooDeep { at: at(parsed), most: MAX_DEPTH });
        }
        Self { depth: self.depth + 1, ..self }.inside(parsed).and_then(|typed| folded(typed, at(parsed)))
    }

    fn inside(self, parsed: &Expr) -> Result<Typed, ExpressionError> {
        match parsed {
            Expr::Nested(inner) => self.typed(inner),
            Expr::Identifier(name) => self.column(name),
            Expr::CompoundIdentifier(names) => self.member(names),
            Expr::Value(value) => literal::value(&value.value, at(parsed)),
            Expr::TypedString(text) => literal::typed(text, at(parsed)),
            Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => {
                self.joined(parsed, op)
            }
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right),
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => Ok(negated(true, self.condition(expr, "NOT")?)),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => self.minus(expr),
            Expr::UnaryOp { op: UnaryOperator::Plus, expr } => self.number(expr, "+"),
            Expr::IsNull(inner) => Ok(is_null(self.typed(inner)?)),
            Expr::IsNotNull(inner) => Ok(negated(true, is_null(self.typed(inner)?))),
            Expr::IsTrue(inner) => self.is(inner, true),
            Expr::IsNotTrue(inner) => Ok(negated(true, self.is(inner, true)?)),
            Expr::IsFalse(inner) => self.is(inner, false),
            Expr::IsNotFalse(inner) => Ok(negated(true, self.is(inner, false)?)),
            Expr::In { expr, target: InTarget::List(list), negated: not, global: false } => {
                Ok(negated(*not, self.one_of(expr, list)?))
            }
            Expr::Between { expr, negated: not, low, high } => {
                let value = self.typed(expr)?;
                let low = compared(Comparison::GreaterOrEqual, value.clone(), self.typed(low)?, at(expr))?;
                let high = compared(Comparison::LessOrEqual, value, self.typed(high)?, at(expr))?;
                Ok(negated(*not, Typed::new(Node::And(vec![low.node, high.node]), Kind::Bool)))
            }
            Expr::Like { negated: not, any: false, expr, pattern, escape_char: None } => {
                Ok(negated(*not, self.like(expr, pattern, false)?))
            }
            Expr::ILike { negated: not, any: false, expr, pattern, escape_char: None } => {
                Ok(negated(*not, self.like(expr, pattern, true)?))
            }
            other => self.call(other),
        }
    }

    fn column(self, name: &Ident) -> Result<Typed, ExpressionError> {
        let place = self.schema.index_of(&name.value).map_err(|_| {
            let known: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
            let (at, hint) = (name.span.start.into(), hint(&name.value, &known));
            ExpressionError::UnknownColumn { at, column: name.value.clone(), hint }
        })?;
        Ok(Typed::new(Node::Column(place), Kind::of(self.schema.field(place).data_type())))
    }

    /// A member of a column of structures: `column.member`, and so on inward.
    fn member(self, names: &[Ident]) -> Result<Typed, ExpressionError> {
        let [column, members @ ..] = names else { return Ok(null()) };
        let member = self.member_of(column, members);
        let Some(written) = dotted(names) else { return member };
        let at = column.span.start.into();
        let is_column = self.schema.index_of(&written).is_ok();
        match member {
            Ok(_) if is_column => {
                let member =
                    names.iter().map(|name| format!("\"{}\"", name.value)).collect::<Vec<_>>().join(".");
                Err(ExpressionError::Ambiguous { at, written, member })
            }
            Err(_) if is_column => Err(ExpressionError::DottedColumn { at, written }),
            Err(ExpressionError::UnknownColumn { at, column, hint }) if self.has_dots() => {
                let hint = format!(
                    "{hint}; a name with dots in it is written in double quotes, {}",
                    sql_name(&written)
                );
                Err(ExpressionError::UnknownColumn { at, column, hint })
            }
            member => member,
        }
    }

    fn has_dots(self) -> bool {
        self.schema.fields().iter().any(|field| field.name().contains('.'))
    }

    fn member_of(self, column: &Ident, members: &[Ident]) -> Result<Typed, ExpressionError> {
        let Typed { node: Node::Column(place), .. } = self.column(column)? else {
            unreachable!("a column is a column");
        };
        let mut data_type = self.schema.field(place).data_type();
        let (mut inside, mut of) = (Vec::with_capacity(members.len()), column.value.clone());
        for member in members {
            let at = member.span.start.into();
            let DataType::Struct(fields) = data_type else {
                let what = format!("{}.{}", of, member.value);
                let choices = format!("{of} is {data_type} and has no members");
                return Err(ExpressionError::Unsupported { at, what, choices });
            };
            let Some((found, field)) = fields.find(&member.value) else {
                let known: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
                let (member, hint) = (member.value.clone(), hint(&member.value, &known));
                return Err(ExpressionError::UnknownMember { at, of, member, hint });
            };
            of = format!("{of}.{}", member.value);
            inside.push(found);
            data_type = field.data_type();
        }
        Ok(Typed::new(Node::Member { place, inside }, Kind::of(data_type)))
    }

    /// AND and OR of any number of conditions, walked without recursion.
    fn joined(self, parsed: &Expr, by: &BinaryOperator) -> Result<Typed, ExpressionError> {
        let mut conditions = Vec::new();
        let mut rest = parsed;
        while let Expr::BinaryOp { left, op, right } = rest
            && op == by
        {
            conditions.push(self.condition(right, &by.to_string())?.node);
            rest = left;
        }
        conditions.push(self.condition(rest, &by.to_string())?.node);
        conditions.reverse();
        let node = if *by == BinaryOperator::And { Node::And(conditions) } else { Node::Or(conditions) };
        Ok(Typed::new(node, Kind::Bool))
    }

    fn condition(self, parsed: &Expr, what: &str) -> Result<Typed, ExpressionError> {
        let typed = self.typed(parsed)?;
        match typed.kind {
            Kind::Bool => Ok(typed),
            Kind::Null => Ok(Typed::new(typed.into(&Kind::Bool), Kind::Bool)),
            other => Err(refused(at(parsed), what, "conditions", &other)),
        }
    }

    fn number(self, parsed: &Expr, what: &str) -> Result<Typed, ExpressionError> {
        let typed = self.typed(parsed)?;
        match typed.kind {
            ref kind if kind.is_number() => Ok(typed),
            Kind::Null => Ok(Typed::new(typed.into(&Kind::Double), Kind::Double)),
            other => Err(refused(at(parsed), what, "numbers", &other)),
        }
    }

    fn text(self, parsed: &Expr, what: &str) -> Result<Node, ExpressionError> {
        let typed = self.typed(parsed)?;
        match typed.kind {
            Kind::Text | Kind::Null => Ok(typed.into(&Kind::Text)),
            other => Err(refused(at(parsed), what, "texts", &other)),
        }
    }

    fn binary(self, left: &Expr, op: &BinaryOperator, right: &Expr) -> Result<Typed, ExpressionError> {
        let place = at(left);
        let op = match op {
            BinaryOperator::Plus => Arithmetic::Add,
            BinaryOperator::Minus => Arithmetic::Subtract,
            BinaryOperator::Multiply => Arithmetic::Multiply,
            BinaryOperator::Divide => Arithmetic::Divide,
            BinaryOperator::Modulo => Arithmetic::Modulo,
            BinaryOperator::StringConcat => {
                let arguments = vec![self.text(left, "||")?, self.text(right, "||")?];
                return Ok(Typed::new(Node::Call { function: Function::Concat, arguments }, Kind::Text));
            }
            other => {
                let op = match other {
                    BinaryOperator::Eq => Comparison::Equal,
                    BinaryOperator::NotEq => Comparison::Unequal,
                    BinaryOperator::Lt => Comparison::Less,
                    BinaryOperator::LtEq => Comparison::LessOrEqual,
                    BinaryOperator::Gt => Comparison::Greater,
                    BinaryOperator::GtEq => Comparison::GreaterOrEqual,
                    other => {
                        let choices = "there are = <> < <= > >=, + - * / % and ||";
                        return Err(unsupported(place, &format!("the operator {other}"), choices));
                    }
                };
                return compared(op, self.typed(left)?, self.typed(right)?, place);
            }
        };
        let sign = format!("{op}");
        let (left, right) = (self.number(left, &sign)?, self.number(right, &sign)?);
        let kind = match left.kind.common(&right.kind).expect("numbers have something in common") {
            _ if op == Arithmetic::Divide => Kind::Double,
            Kind::Double => Kind::Double,
            _ => Kind::Int,
        };
        let (left, right) = (Box::new(left.into(&kind)), Box::new(right.into(&kind)));
        Ok(Typed::new(Node::Arithmetic { op, left, right }, kind))
    }

    fn minus(self, inner: &Expr) -> Result<Typed, ExpressionError> {
        if let Some(number) = literal::negative(inner) {
            return number;
        }
        let number = self.number(inner, "-")?;
        let kind = if number.kind == Kind::Double { Kind::Double } else { Kind::Int };
        Ok(Typed::new(Node::Negate(Box::new(number.into(&kind))), kind))
    }

    fn is(self, inner: &Expr, truth: bool) -> Result<Typed, ExpressionError> {
        let condition = self.condition(inner, if truth { "IS TRUE" } else { "IS FALSE" })?;
        let known = negated(true, is_null(condition.clone()));
        let holds = negated(!truth, condition);
        Ok(Typed::new(Node::And(vec![known.node, holds.node]), Kind::Bool))
    }

    fn like(self, value: &Expr, pattern: &Expr, ignores_case: bool) -> Result<Typed, ExpressionError> {
        let what = if ignores_case { "ILIKE" } else { "LIKE" };
        let (value, pattern) = (Box::new(self.text(value, what)?), Box::new(self.text(pattern, what)?));
        Ok(Typed::new(Node::Like { value, pattern, ignores_case }, Kind::Bool))
    }

    /// Many values are looked up; what is no plain list of integers or texts is compared one by one.
    fn one_of(self, value: &Expr, list: &[Expr]) -> Result<Typed, ExpressionError> {
        let place = at(value);
        let value = self.typed(value)?;
        let listed = list.iter().map(|item| self.typed(item)).collect::<Result<Vec<_>, _>>()?;
        if let Some(set) = set(&value.kind, &listed) {
            let value = Box::new(value.node);
            return Ok(Typed::new(Node::In { value, set }, Kind::Bool));
        }
        let equal =
            |item: Typed| compared(Comparison::Equal, value.clone(), item, place).map(|typed| typed.node);
        Ok(Typed::new(Node::Or(listed.into_iter().map(equal).collect::<Result<_, _>>()?), Kind::Bool))
    }
}

/// The values of a list as a set, where all are integers or texts as the value is, and none is NULL.
fn set(kind: &Kind, listed: &[Typed]) -> Option<Set> {
    let constants = || {
        listed.iter().map(|item| match &item.node {
            Node::Literal(value) if value.is_valid(0) => Some(value),
            _ => None,
        })
    };
    match kind {
        Kind::Int | Kind::Unsigned => constants()
            .map(|value| match value?.data_type() {
                DataType::Int64 => Some(i128::from(value?.as_primitive::<Int64Type>().value(0))),
                DataType::UInt64 => Some(i128::from(value?.as_primitive::<UInt64Type>().value(0))),
                _ => None,
            })
            .collect::<Option<HashSet<_>>>()
            .map(Set::Whole),
        Kind::Text => constants()
            .map(|value| value?.as_string_opt::<i32>().map(|text| text.value(0).to_owned()))
            .collect::<Option<HashSet<_>>>()
            .map(Set::Text),
        _ => None,
    }
}

/// A comparison; a text in quotes beside a date or a timestamp is one.
fn compared(op: Comparison, left: Typed, right: Typed, at: At) -> Result<Typed, ExpressionError> {
    let left = literal::beside(left, &right.kind, at)?;
    let right = literal::beside(right, &left.kind, at)?;
    if !left.kind.is_comparable(&right.kind) {
        return Err(mismatch(at, &format!("{op}"), &left.kind, &right.kind));
    }
    let (left, right) = (Box::new(left.node), Box::new(right.node));
    Ok(Typed::new(Node::Compare { op, left, right }, Kind::Bool))
}

/// What a column would be called that was meant by names with dots between; `None` where they are written in quotes, and so
/// meant as they are.
fn dotted(names: &[Ident]) -> Option<String> {
    let is_plain = names.iter().any(|name| name.quote_style.is_none());
    is_plain.then(|| names.iter().map(|name| name.value.as_str()).collect::<Vec<_>>().join("."))
}

fn is_null(typed: Typed) -> Typed {
    Typed::new(Node::IsNull(Box::new(typed.node)), Kind::Bool)
}

fn negated(is_negated: bool, typed: Typed) -> Typed {
    if is_negated { Typed::new(Node::Not(Box::new(typed.node)), Kind::Bool) } else { typed }
}

/// A constant, computed once.
fn folded(typed: Typed, at: At) -> Result<Typed, ExpressionError> {
    if matches!(typed.node, Node::Literal(_)) || !typed.node.is_constant() {
        return Ok(typed);
    }
    let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
    match evaluate(&typed.node, Input { batch: &nothing, places: &[] }) {
        Ok(values) if values.is_scalar => Ok(Typed { node: Node::Literal(values.array), ..typed }),
        Err(error) => match Uncast::of(&error) {
            Some(uncast) => Err(ExpressionError::Uncast { at, uncast: uncast.clone() }),
            None => Ok(typed),
        },
        Ok(_) => Ok(typed),
    }
}

fn null() -> Typed {
    Typed::new(Node::Literal(Arc::new(NullArray::new(1))), Kind::Null)
}

fn at(parsed: &Expr) -> At {
    parsed.span().start.into()
}

fn mismatch(at: At, what: &str, left: &Kind, right: &Kind) -> ExpressionError {
    ExpressionError::Mismatch { at, what: what.to_owned(), left: left.to_string(), right: right.to_string() }
}

fn refused(at: At, what: &str, wanted: &str, found: &Kind) -> ExpressionError {
    let (name, wanted, found) = (what.to_owned(), wanted.to_owned(), found.to_string());
    ExpressionError::Arguments { at, name, wanted, found }
}

fn unsupported(at: At, what: &str, choices: &str) -> ExpressionError {
    ExpressionError::Unsupported { at, what: what.to_owned(), choices: choices.to_owned() }
}
