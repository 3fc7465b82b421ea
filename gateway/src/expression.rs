//! SQL expressions over a dataset's columns: filters, and columns that are computed.
//!
//! In: a text and the dataset's schema. Out: a typed [`Expression`] that is evaluated over record batches, or
//! a refusal that says where in the text and what to write instead. The promise: what a row holds makes evaluation fail
//! by a CAST alone, and by the same rows always, so that a plan that counted rows stays true; what else cannot be
//! computed is NULL. Pruning never contradicts evaluation. It knows no file, no plan and no thread.
//!
//! The grammar and what it means is listed in `gateway/expressions.md`.

mod cast;
mod compare;
mod error;
mod evaluate;
mod functions;
#[cfg(test)]
mod fuzz;
mod kind;
mod parse;
mod prune;
mod resolve;
#[cfg(test)]
pub(crate) mod tests;
mod tree;
mod values;

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::nullif;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::error::ArrowError;

pub use self::error::{ExpressionError, Uncast};
use self::evaluate::evaluate;
use self::kind::Kind;
pub(crate) use self::prune::{Bounds, ColumnBounds, OneOf, Verdict};
use self::tree::{Node, Typed};

/// A typed expression over some columns of a schema.
#[derive(Debug, Clone)]
pub struct Expression {
    root: Arc<Node>,
    /// What it gives.
    field: FieldRef,
    /// Places in the schema of the columns it reads, rising.
    columns: Vec<usize>,
}

/// A condition on rows.
#[derive(Debug, Clone)]
pub struct Predicate(Expression);

/// Rows to evaluate over: some columns of a dataset.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) batch: &'a RecordBatch,
    /// For every column of the batch, its place in the dataset's schema; rising.
    pub(crate) places: &'a [usize],
}

impl Expression {
    /// Reads `EXPRESSION`, or `EXPRESSION AS NAME`. A column or a member alone is called as it is.
    ///
    /// # Errors
    /// When it is not of the grammar, does not fit the schema, or has no name.
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, ExpressionError> {
        let (parsed, alias) = parse::item(text)?;
        let typed = resolve::resolve(&parsed, schema)?;
        if let Some(mut field) = passed_on(&typed.node, schema) {
            if let Some(name) = alias {
                field = Arc::new(field.as_ref().clone().with_name(name));
            }
            return Ok(Self::new(typed, field));
        }
        let name = alias.ok_or_else(|| ExpressionError::Unnamed { text: text.trim().to_owned() })?;
        let data_type = typed.data_type().ok_or(ExpressionError::NoType { kind: typed.kind.to_string() })?;
        Ok(Self::new(typed, Arc::new(Field::new(name, data_type, true))))
    }

    fn new(typed: Typed, field: FieldRef) -> Self {
        let mut columns = Vec::new();
        typed.node.visit_columns(&mut |place| columns.push(place));
        columns.sort_unstable();
        columns.dedup();
        Self { root: Arc::new(typed.node), field, columns }
    }

    /// Name and type of what it gives.
    pub fn field(&self) -> &FieldRef {
        &self.field
    }

    /// Places in the schema of the columns that it reads, rising.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The column that it is, where it computes nothing.
    pub fn plain_column(&self) -> Option<usize> {
        match *self.root {
            Node::Column(place) => Some(place),
            _ => None,
        }
    }

    /// A value for every row.
    ///
    /// # Errors
    /// When the rows are not of the schema it was read for, or a CAST is not possible for a value ([`Uncast`]).
    pub(crate) fn evaluate(&self, input: Input<'_>) -> Result<ArrayRef, ArrowError> {
        match self.root.as_ref() {
            Node::Column(place) => return input.column(*place).cloned(),
            Node::Member { place, inside } => return input.member(*place, inside),
            _ => {}
        }
        let values = evaluate(&self.root, input)?.spread(input.batch.num_rows())?;
        cast::narrow(&values, self.field.data_type())
    }
}

impl Predicate {
    /// Reads a condition.
    ///
    /// # Errors
    /// When it is not of the grammar, does not fit the schema, or is no condition.
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, ExpressionError> {
        let parsed = parse::expression(text)?;
        let typed = resolve::resolve(&parsed, schema)?;
        match typed.kind {
            Kind::Bool | Kind::Null => {
                let field = Arc::new(Field::new("passes", DataType::Boolean, true));
                Ok(Self(Expression::new(typed, field)))
            }
            other => Err(ExpressionError::NoCondition { kind: other.to_string() }),
        }
    }

    /// Places in the schema of the columns that it reads, rising.
    pub fn columns(&self) -> &[usize] {
        self.0.columns()
    }

    /// Which rows pass: those for which it is true, neither false nor NULL.
    ///
    /// # Errors
    /// When the rows are not of the schema it was read for, or a CAST is not possible for a value ([`Uncast`]).
    pub(crate) fn passes(&self, input: Input<'_>) -> Result<BooleanBuffer, ArrowError> {
        let rows = input.batch.num_rows();
        let values = evaluate(&self.0.root, input)?.spread(rows)?;
        let Some(values) = values.as_any().downcast_ref::<BooleanArray>() else {
            // A condition that is NULL throughout.
            return Ok(BooleanBuffer::new_unset(rows));
        };
        Ok(values::truths(values).values().clone())
    }

    /// How many of the rows with such bounds pass, as far as the bounds tell.
    pub(crate) fn prune(&self, bounds: &dyn Bounds) -> Verdict {
        prune::prune(&self.0.root, bounds)
    }

    /// Columns, by their places, that must have one of a few values where it is true.
    pub(crate) fn one_of(&self) -> Vec<(usize, OneOf)> {
        prune::one_of(&self.0.root)
    }
}

/// What is passed on as it is: a column, or a member of one.
fn passed_on(node: &Node, schema: &Schema) -> Option<FieldRef> {
    match node {
        Node::Column(place) => Some(Arc::clone(&schema.fields()[*place])),
        Node::Member { place, inside } => {
            let mut field = Arc::clone(&schema.fields()[*place]);
            let mut is_nullable = field.is_nullable();
            for &member in inside {
                let DataType::Struct(fields) = field.data_type() else { return None };
                let inner = Arc::clone(&fields[member]);
                field = inner;
                is_nullable |= field.is_nullable();
            }
            Some(Arc::new(field.as_ref().clone().with_nullable(is_nullable)))
        }
        _ => None,
    }
}

impl<'a> Input<'a> {
    fn column(self, place: usize) -> Result<&'a ArrayRef, ArrowError> {
        let found = self.places.binary_search(&place).ok();
        found.and_then(|index| self.batch.columns().get(index)).ok_or_else(|| {
            ArrowError::SchemaError("a batch lacks a column that an expression reads".to_owned())
        })
    }

    /// A member of a column of structures; NULL where these are.
    fn member(self, place: usize, inside: &[usize]) -> Result<ArrayRef, ArrowError> {
        let mut array = Arc::clone(self.column(place)?);
        for &member in inside {
            let lacks =
                || ArrowError::SchemaError("a batch lacks a member that an expression reads".to_owned());
            let outer = array.as_struct_opt().ok_or_else(lacks)?;
            let inner = outer.columns().get(member).ok_or_else(lacks)?;
            array = match outer.nulls() {
                Some(nulls) if inner.data_type() != &DataType::Null => {
                    nullif(inner, &BooleanArray::new(!nulls.inner(), None))?
                }
                _ => Arc::clone(inner),
            };
        }
        Ok(array)
    }
}
