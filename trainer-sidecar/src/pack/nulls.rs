//! What the request says about nulls, looked up column by column.

use std::collections::BTreeMap;

use arrow::datatypes::{Field, Schema};
use penstock_proto::hint;
use penstock_ring::DType;
use serde_json::Value;

use super::{PackError, fill};

/// The name that stands for every column that is not named itself.
pub(super) const EVERY: &str = "*";
/// The word that asks for a mask.
const MASK: &str = "mask";

/// Declarations by column name.
#[derive(Debug, Clone, Default, PartialEq, serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct NullRules(BTreeMap<String, Value>);

/// What becomes of a column's nulls.
#[derive(Debug, PartialEq)]
pub(super) enum Rule {
    Refuse,
    /// The bytes of one element.
    Fill(Vec<u8>),
    Mask,
}

impl NullRules {
    /// Refuses names that no column has.
    pub(super) fn check_names(&self, schema: &Schema) -> Result<(), PackError> {
        check_names("nulls", self.0.keys(), schema)
    }

    /// The rule for a column. A mask asked for by name is made even where no null can be; "*" reaches
    /// columns that may hold nulls, and a fill value for "*" those of a type that it fits.
    pub(super) fn of(&self, field: &Field, dtype: DType) -> Result<Rule, PackError> {
        if let Some(value) = self.0.get(field.name()) {
            if value == MASK {
                return Ok(Rule::Mask);
            }
            return fill::encode(dtype, value).map(Rule::Fill).ok_or_else(|| PackError::Fill {
                column: field.name().clone(),
                value: value.to_string(),
                dtype: dtype.name(),
            });
        }
        Ok(match self.0.get(EVERY) {
            Some(value) if may_hold_nulls(field) => match fill::encode(dtype, value) {
                _ if value == MASK => Rule::Mask,
                Some(element) => Rule::Fill(element),
                None => Rule::Refuse,
            },
            _ => Rule::Refuse,
        })
    }
}

/// Refuses what an argument says of a column that there is not.
pub(super) fn check_names<'a>(
    argument: &'static str,
    mut names: impl Iterator<Item = &'a String>,
    schema: &Schema,
) -> Result<(), PackError> {
    let unknown = names.find(|name| *name != EVERY && schema.field_with_name(name).is_err());
    let Some(column) = unknown else { return Ok(()) };
    let known: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    Err(PackError::UnknownColumn { argument, column: column.clone(), hint: hint(column, &known) })
}

fn may_hold_nulls(field: &Field) -> bool {
    use arrow::datatypes::DataType;
    let mut field = field;
    loop {
        if field.is_nullable() {
            return true;
        }
        match field.data_type() {
            DataType::FixedSizeList(inner, _) | DataType::List(inner) | DataType::LargeList(inner) => {
                field = inner;
            }
            _ => return false,
        }
    }
}
