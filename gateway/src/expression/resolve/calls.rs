//! CAST, CASE, functions, and the few functions that SQL writes in a way of their own.

use arrow::compute::DatePart;
use arrow::datatypes::{DataType, TimeUnit};
use sqlparser::ast::{
    CaseWhen, CastKind, CeilFloorKind, DataType as SqlType, DateTimeField, Expr, FunctionArg,
    FunctionArgExpr, FunctionArguments, ObjectNamePart,
};

use super::{ExpressionError, Resolver, at, compared, mismatch, null, unsupported};
use crate::expression::cast::{can_cast, loses_none};
use crate::expression::compare::Comparison;
use crate::expression::functions::Function;
use crate::expression::kind::Kind;
use crate::expression::tree::{Node, Typed};

const FIELDS: &str = "there are year, quarter, month, week, day, hour, minute, second, dow and doy";
const TYPES: &str = "there are BOOLEAN, TINYINT, SMALLINT, INTEGER, BIGINT, each of these UNSIGNED, REAL, DOUBLE, \
                     TEXT, DATE and TIMESTAMP";

impl Resolver<'_> {
    pub(super) fn call(self, parsed: &Expr) -> Result<Typed, ExpressionError> {
        let place = at(parsed);
        let one = |function: Function, argument: &Expr| function.call(vec![self.typed(argument)?], place);
        match parsed {
            Expr::Cast { kind, expr, data_type, format: None, .. } => {
                let is_strict = matches!(kind, CastKind::Cast | CastKind::DoubleColon);
                self.cast(expr, data_type, is_strict)
            }
            Expr::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), parsed)
            }
            Expr::Extract { field, expr, .. } => match part(field) {
                Some(part) => one(Function::Extract(part), expr),
                None => Err(unsupported(at(expr), &format!("the part {field}"), FIELDS)),
            },
            Expr::Ceil { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                one(Function::Ceil, expr)
            }
            Expr::Floor { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                one(Function::Floor, expr)
            }
            Expr::Substring { expr, substring_from, substring_for, .. } => {
                let parts = [Some(expr), substring_from.as_ref(), substring_for.as_ref()];
                let typed = parts.into_iter().flatten().map(|part| self.typed(part));
                Function::Substr.call(typed.collect::<Result<_, _>>()?, place)
            }
            Expr::Trim { expr, trim_where: None, trim_what: None, trim_characters: None } => {
                one(Function::Trim, expr)
            }
            Expr::Function(function) => {
                let name = function.name.to_string();
                let list = match (&function.args, function.name.0.as_slice()) {
                    (FunctionArguments::List(list), _) => list,
                    // A column named like what SQL calls without brackets: user, current_date.
                    (_, [ObjectNamePart::Identifier(name)]) => return self.column(name),
                    _ => {
                        return Err(unsupported(place, &format!("{name} without brackets"), "write name(…)"));
                    }
                };
                let is_plain = list.duplicate_treatment.is_none()
                    && list.clauses.is_empty()
                    && function.filter.is_none()
                    && function.over.is_none()
                    && function.within_group.is_empty();
                let named = Function::named(&name, place)?;
                let arguments = list.args.iter().map(|argument| match argument {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) if is_plain => self.typed(argument),
                    _ => Err(unsupported(place, &format!("such a call of {name}"), "give values alone")),
                });
                named.call(arguments.collect::<Result<_, _>>()?, place)
            }
            other => {
                let choices = "see the grammar in gateway/expressions.md";
                Err(unsupported(place, &format!("{:?}", other.to_string()), choices))
            }
        }
    }

    fn cast(self, inner: &Expr, to: &SqlType, is_strict: bool) -> Result<Typed, ExpressionError> {
        let (place, written) = (at(inner), format!("{inner} AS {to}"));
        let to = data_type(to).ok_or_else(|| unsupported(place, &format!("the type {to}"), TYPES))?;
        let (typed, kind) = (self.typed(inner)?, Kind::of(&to));
        if !can_cast(&typed.kind, &kind) {
            let what = format!("a CAST from {} to {kind}", typed.kind);
            return Err(unsupported(place, &what, "convert by way of TEXT, or take a part by EXTRACT"));
        }
        let refuses = is_strict && !loses_none(&typed.kind, &to);
        Ok(Typed::cast(typed, to, kind, refuses.then(|| written.into())))
    }

    fn case(
        self,
        operand: Option<&Expr>,
        conditions: &[CaseWhen],
        otherwise: Option<&Expr>,
        parsed: &Expr,
    ) -> Result<Typed, ExpressionError> {
        let operand = operand.map(|operand| self.typed(operand)).transpose()?;
        let mut whens = Vec::with_capacity(conditions.len());
        for CaseWhen { condition, result } in conditions {
            let condition = match &operand {
                Some(operand) => {
                    compared(Comparison::Equal, operand.clone(), self.typed(condition)?, at(condition))?
                }
                None => self.condition(condition, "CASE")?,
            };
            whens.push((condition.node, self.typed(result)?));
        }
        let otherwise = otherwise.map_or_else(|| Ok(null()), |otherwise| self.typed(otherwise))?;
        let mut kind = otherwise.kind.clone();
        for (_, result) in &whens {
            kind = match kind.common(&result.kind) {
                Some(common) if !matches!(common, Kind::Other(_)) => common,
                _ => return Err(mismatch(at(parsed), "CASE", &kind, &result.kind)),
            };
        }
        let whens = whens.into_iter().map(|(condition, result)| (condition, result.into(&kind))).collect();
        Ok(Typed::new(Node::Case { whens, otherwise: Box::new(otherwise.into(&kind)) }, kind))
    }
}

fn data_type(to: &SqlType) -> Option<DataType> {
    Some(match to {
        SqlType::Boolean | SqlType::Bool => DataType::Boolean,
        SqlType::TinyInt(_) => DataType::Int8,
        SqlType::SmallInt(_) | SqlType::Int2(_) | SqlType::Int16 => DataType::Int16,
        SqlType::Int(_) | SqlType::Integer(_) | SqlType::Int4(_) | SqlType::Int32 => DataType::Int32,
        SqlType::BigInt(_) | SqlType::Int64 => DataType::Int64,
        SqlType::TinyIntUnsigned(_) | SqlType::UTinyInt | SqlType::UInt8 => DataType::UInt8,
        SqlType::SmallIntUnsigned(_) | SqlType::USmallInt | SqlType::UInt16 => DataType::UInt16,
        SqlType::IntUnsigned(_) | SqlType::IntegerUnsigned(_) | SqlType::UInt32 => DataType::UInt32,
        SqlType::BigIntUnsigned(_) | SqlType::UBigInt | SqlType::UInt64 => DataType::UInt64,
        SqlType::Real | SqlType::Float(_) | SqlType::Float4 | SqlType::Float32 => DataType::Float32,
        SqlType::Double(_) | SqlType::DoublePrecision | SqlType::Float8 | SqlType::Float64 => {
            DataType::Float64
        }
        SqlType::Text | SqlType::Varchar(None) | SqlType::String(None) => DataType::Utf8,
        SqlType::Date => DataType::Date32,
        SqlType::Timestamp(None, _) | SqlType::Datetime(None) => {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        _ => return None,
    })
}

fn part(field: &DateTimeField) -> Option<DatePart> {
    Some(match field {
        DateTimeField::Year => DatePart::Year,
        DateTimeField::Quarter => DatePart::Quarter,
        DateTimeField::Month => DatePart::Month,
        DateTimeField::Week(None) => DatePart::Week,
        DateTimeField::Day => DatePart::Day,
        DateTimeField::Hour => DatePart::Hour,
        DateTimeField::Minute => DatePart::Minute,
        DateTimeField::Second => DatePart::Second,
        // Sunday is 0, as in PostgreSQL.
        DateTimeField::Dow | DateTimeField::DayOfWeek => DatePart::DayOfWeekSunday0,
        DateTimeField::Doy | DateTimeField::DayOfYear => DatePart::DayOfYear,
        _ => return None,
    })
}
