//! Arrow columns into the columns of a slot.
//!
//! In: a schema, what nulls become and in which units numbers are; then, step by step, the record batches that make up a step. Out:
//! what the trainer will see of each column, and the bytes in the slot. The promise: the plan is made
//! once and refuses what cannot be a tensor by name; every column is copied once, from the bytes that
//! the network brought to where the trainer reads them. It knows no socket, no ring and no clock.

mod bits;
mod codes;
mod fill;
mod leaf;
mod nulls;
mod ragged;
mod text;
mod unit;

use std::collections::BTreeMap;

use arrow::array::{Array as _, ArrayRef, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Schema};
use penstock_proto::{Code, NullsInfo, sql_name};
use penstock_ring::{ColumnSpec, DType, MAX_DIMS};

pub(crate) use self::codes::CodeRules;
pub(crate) use self::nulls::NullRules;
pub(crate) use self::unit::UnitRules;

use self::leaf::{Cell, Leaf};

/// How every column of a feed gets into a slot.
#[derive(Debug, Clone)]
pub(crate) struct PackPlan {
    columns: Vec<Column>,
}

/// One column as the trainer sees it.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    /// Shape of one row; of lists of many lengths, of one of their innermost elements.
    pub(crate) shape: Vec<u64>,
    /// The column whose lists this one's numbers bound.
    pub(crate) splits_of: Option<String>,
    /// Lists of many lengths around what the column holds.
    depth: usize,
    /// What its numbers are declared to count.
    unit: Option<String>,
    /// Place of the column that it is made of, in the record batches.
    index: usize,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    Values {
        cell: Cell,
        nulls: OnNull,
    },
    /// Which elements of the column are not null; a cell may hold several.
    Validity {
        elements_per_cell: usize,
    },
    /// Where the lists of one level begin among what they hold: from 0, one more than there are lists.
    Splits,
}

#[derive(Debug, Clone)]
enum OnNull {
    Refuse,
    /// The bytes of one cell to be put in the place of a null.
    Fill(Vec<u8>),
}

/// A column that cannot be packed, at the start or at a step.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PackError {
    #[error(
        "column \"{column}\" is {data_type}, which is no tensor: {advice}, or leave it out with columns=[…]"
    )]
    Unsupported { column: String, data_type: String, advice: String },
    #[error(
        "column \"{column}\" nests {dims} dimensions and a tensor of the ring holds {MAX_DIMS}, the rows included: leave it out with columns=[…]"
    )]
    TooDeep { column: String, dims: usize },
    #[error(
        "column \"{column}\" holds {count} nulls at epoch {epoch}, step {step}: declare nulls={{\"{column}\": \"mask\"}} to get a column \"{column}_valid\" beside it, or nulls={{\"{column}\": VALUE}} to fill them"
    )]
    Nulls { column: String, epoch: u64, step: u64, count: usize },
    #[error(
        "{argument} names column \"{column}\", which the feed does not have: {hint}; name none that columns or select leave out"
    )]
    UnknownColumn { argument: &'static str, column: String, hint: String },
    #[error(
        "codes names column \"{column}\", which holds {data_type}: codes are of texts, one a row; make one of it with select, such as CAST({0} AS TEXT) AS {0}, or leave it out of codes",
        sql_name(column)
    )]
    NoTexts { column: String, data_type: String },
    #[error("codes of column \"{column}\" lists {text} twice: a text has one code")]
    ListedTwice { column: String, text: String },
    #[error(
        "column \"{column}\" holds {count} nulls in {file}: declare nulls={{\"{column}\": \"mask\"}} to get a column \"{column}_valid\" beside it, nulls={{\"{column}\": VALUE}} to fill them, or leave their rows out with filter='{0} IS NOT NULL'",
        sql_name(column)
    )]
    NullsTold { column: String, file: String, count: u64 },
    #[error("units says \"{unit}\" of column \"{column}\", which holds {data_type}: {advice}")]
    Unit { column: String, data_type: String, unit: String, advice: String },
    #[error(
        "column \"{column}\" holds {value} at epoch {epoch}, step {step}, which is no int64 in units of \"{unit}\": declare another with units={{\"{column}\": …}}, one that every value is a multiple of"
    )]
    Misfit { column: String, value: String, unit: String, epoch: u64, step: u64 },
    #[error(
        "nulls fills column \"{column}\" with {value}, which is no {dtype}: give a value of that type, or \"mask\""
    )]
    Fill { column: String, value: String, dtype: &'static str },
    #[error(
        "the mask of column \"{of}\" would be called \"{column}\", and so is another column of the feed: fill the nulls of \"{of}\" with a value, nulls={{\"{of}\": VALUE}}, leave \"{column}\" out with columns=[…], or rename one with select={{…}}"
    )]
    MaskTaken { of: String, column: String },
    #[error(
        "the bounds of the lists of column \"{of}\" would be called \"{column}\", and so is another column of the feed: leave one out with columns=[…], or rename one with select={{…}}"
    )]
    BoundsTaken { of: String, column: String },
}

impl PackError {
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::Unsupported { .. } | Self::TooDeep { .. } => Code::Unsupported,
            Self::UnknownColumn { .. } => Code::UnknownColumn,
            Self::Nulls { .. }
            | Self::NullsTold { .. }
            | Self::Fill { .. }
            | Self::NoTexts { .. }
            | Self::ListedTwice { .. }
            | Self::MaskTaken { .. }
            | Self::BoundsTaken { .. }
            | Self::Unit { .. }
            | Self::Misfit { .. } => Code::InvalidFeed,
        }
    }
}

impl PackPlan {
    /// Decides for every column of `schema` what it becomes.
    ///
    /// # Errors
    /// A column of a type that is no tensor, or rules that do not fit the columns.
    pub(crate) fn new(schema: &Schema, rules: &NullRules, units: &UnitRules) -> Result<Self, PackError> {
        rules.check_names(schema)?;
        units.check_names(schema)?;
        let mut columns = Vec::with_capacity(schema.fields().len());
        for (index, field) in schema.fields().iter().enumerate() {
            let name = field.name();
            let Form { depth, cell, dtype, shape, .. } = resolve(name, field.data_type(), units)?;
            let unit = matches!(cell, Cell::Converted(_)).then(|| units.said_of(name).to_owned());
            let rule = rules.of(field, dtype)?;
            let (nulls, masked) = match rule {
                nulls::Rule::Refuse => (OnNull::Refuse, false),
                nulls::Rule::Fill(element) => (OnNull::Fill(cell.repeat(&element)), false),
                nulls::Rule::Mask => (OnNull::Fill(cell.blank()), true),
            };
            let content = Content::Values { cell, nulls };
            let name = name.clone();
            let values = Column { name, dtype, shape, splits_of: None, depth, unit, index, content };
            let mask = masked.then(|| values.mask(cell.elements(dtype)));
            values.push_to(&mut columns, schema)?;
            if let Some(mask) = mask {
                if schema.field_with_name(&mask.name).is_ok() {
                    return Err(PackError::MaskTaken { of: field.name().clone(), column: mask.name });
                }
                mask.push_to(&mut columns, schema)?;
            }
        }
        Ok(Self { columns })
    }

    /// Refuses before the first step what would be refused at some.
    ///
    /// # Errors
    /// A column that is told to hold nulls, for which nothing is declared.
    pub(crate) fn check_nulls(&self, told: &BTreeMap<String, NullsInfo>) -> Result<(), PackError> {
        for Column { name, content, .. } in &self.columns {
            if let (Content::Values { nulls: OnNull::Refuse, .. }, Some(told)) = (content, told.get(name)) {
                let NullsInfo { file, count } = told.clone();
                return Err(PackError::NullsTold { column: name.clone(), file, count });
            }
        }
        Ok(())
    }

    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// What a slot must hold of a step that consists of `parts`.
    ///
    /// # Errors
    /// A null in a column for which nothing is declared, or a number that is none in the declared unit.
    pub(crate) fn specs(
        &self,
        epoch: u64,
        step: u64,
        parts: &[RecordBatch],
    ) -> Result<Vec<ColumnSpec>, PackError> {
        self.columns
            .iter()
            .map(|column| {
                let count = column.refused_nulls(parts);
                if count > 0 {
                    return Err(PackError::Nulls { column: column.name.clone(), epoch, step, count });
                }
                if let Some(value) = column.misfit(parts) {
                    let (column, unit) = (column.name.clone(), column.unit.clone().unwrap_or_default());
                    return Err(PackError::Misfit { column, value, unit, epoch, step });
                }
                Ok(column.spec(column.count(parts), column.text_bytes(parts)))
            })
            .collect()
    }
}

impl Column {
    /// What a slot must hold of `count` cells whose texts have `text_bytes` bytes together.
    pub(crate) fn spec(&self, count: u64, text_bytes: u64) -> ColumnSpec {
        let dims = std::iter::once(count).chain(self.shape.iter().copied()).collect();
        let spec = match self.dtype.size() {
            Some(_) => ColumnSpec::fixed(self.dtype, dims),
            None => ColumnSpec::text(self.dtype, dims, text_bytes),
        };
        if self.depth > 0 || self.splits_of.is_some() { spec.with_own_rows() } else { spec }
    }

    /// Cells of so many rows; `None` where lists of many lengths decide.
    pub(crate) fn count_of(&self, rows: u64) -> Option<u64> {
        (self.depth == 0).then_some(rows + self.splits_of.iter().len() as u64)
    }

    /// Cells of a step.
    pub(crate) fn count(&self, parts: &[RecordBatch]) -> u64 {
        let cells = self.arrays(parts).map(|array| array.len()).sum::<usize>();
        // Lists have one bound more than there are.
        (cells + self.splits_of.iter().len()) as u64
    }

    /// The column that tells which elements of this one are not null.
    fn mask(&self, elements_per_cell: usize) -> Self {
        let content = Content::Validity { elements_per_cell };
        Self { name: format!("{}_valid", self.name), dtype: DType::Bool, unit: None, content, ..self.clone() }
    }

    /// Adds the column, and behind it the bounds of its lists, the outermost first.
    fn push_to(self, columns: &mut Vec<Self>, schema: &Schema) -> Result<(), PackError> {
        let (name, index, depth) = (self.name.clone(), self.index, self.depth);
        columns.push(self);
        for depth in 0..depth {
            let splits = format!("{name}/row_splits_{depth}");
            if schema.field_with_name(&splits).is_ok() {
                return Err(PackError::BoundsTaken { of: name, column: splits });
            }
            let (dtype, shape, splits_of) = (DType::Int64, Vec::new(), Some(name.clone()));
            let (unit, content) = (None, Content::Splits);
            columns.push(Self { name: splits, dtype, shape, splits_of, depth, unit, index, content });
        }
        Ok(())
    }

    /// Writes the column of a step into its place. `data` and `offsets` have the sizes of
    /// [`PackPlan::specs`] for the same parts.
    pub(crate) fn write(&self, parts: &[RecordBatch], data: &mut [u8], offsets: Option<&mut [i64]>) {
        match &self.content {
            Content::Values { cell: Cell::Text, nulls } => {
                let offsets = offsets.expect("the layout gives a text column its offsets");
                text::write(self.leaves(parts), nulls.bytes(), data, offsets);
            }
            Content::Values { cell: Cell::Bool, nulls } => {
                let mut rest = data;
                for leaf in self.leaves(parts) {
                    let (place, after) = rest.split_at_mut(leaf.len());
                    leaf.write_bools(place, nulls.bytes());
                    rest = after;
                }
            }
            Content::Values { cell: Cell::Dense(width), nulls } => {
                let mut rest = data;
                for leaf in self.leaves(parts) {
                    let (place, after) = rest.split_at_mut(leaf.len() * width);
                    leaf.write_dense(place, *width, nulls.bytes());
                    rest = after;
                }
            }
            Content::Values { cell: Cell::Converted(conversion), nulls } => {
                let mut rest = data;
                for leaf in self.leaves(parts) {
                    let (place, after) = rest.split_at_mut(leaf.len() * unit::WIDTH);
                    conversion.write(&leaf, place, nulls.bytes());
                    rest = after;
                }
            }
            Content::Validity { elements_per_cell } => {
                let mut rest = data;
                for leaf in self.leaves(parts) {
                    let (place, after) = rest.split_at_mut(leaf.len() * elements_per_cell);
                    leaf.write_validity(place, *elements_per_cell);
                    rest = after;
                }
            }
            Content::Splits => {
                let (zero, mut rest) = data.split_at_mut(size_of::<i64>());
                zero.fill(0);
                let mut begin = 0;
                for lists in self.arrays(parts) {
                    let ends = ragged::ends(&lists);
                    let (place, after) = rest.split_at_mut(size_of_val(ends.as_slice()));
                    for (place, end) in place.chunks_exact_mut(size_of::<i64>()).zip(&ends) {
                        place.copy_from_slice(&(begin + end).to_ne_bytes());
                    }
                    begin += ends.last().unwrap_or(&0);
                    rest = after;
                }
            }
        }
    }

    /// Bytes of the texts of a step, fills included; 0 for a column of numbers.
    pub(crate) fn text_bytes(&self, parts: &[RecordBatch]) -> u64 {
        match &self.content {
            Content::Values { cell: Cell::Text, nulls } => text::bytes(self.leaves(parts), nulls.bytes()),
            _ => 0,
        }
    }

    fn refused_nulls(&self, parts: &[RecordBatch]) -> usize {
        match &self.content {
            Content::Values { nulls: OnNull::Refuse, .. } => {
                let lists = parts.iter().map(|part| ragged::null_lists(part.column(self.index), self.depth));
                let elements = self.leaves(parts);
                let elements = elements.map(|leaf| leaf.nulls.as_ref().map_or(0, NullBuffer::null_count));
                lists.sum::<usize>() + elements.sum::<usize>()
            }
            _ => 0,
        }
    }

    /// A number that is none in the declared unit.
    fn misfit(&self, parts: &[RecordBatch]) -> Option<String> {
        match &self.content {
            Content::Values { cell: Cell::Converted(conversion), .. } => {
                self.leaves(parts).find_map(|leaf| conversion.misfit(&leaf))
            }
            _ => None,
        }
    }

    fn leaves<'a>(&self, parts: &'a [RecordBatch]) -> impl Iterator<Item = Leaf> + use<'a> {
        self.arrays(parts).map(|array| Leaf::of(&array))
    }

    /// What the column is made of, without the lists of many lengths around it.
    fn arrays<'a>(&self, parts: &'a [RecordBatch]) -> impl Iterator<Item = ArrayRef> + use<'a> {
        let (index, depth) = (self.index, self.depth);
        parts.iter().map(move |part| ragged::values(part.column(index), depth))
    }
}

impl OnNull {
    /// What is written in the place of a null; nothing is, where nulls are refused.
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Refuse => &[],
            Self::Fill(bytes) => bytes,
        }
    }
}

/// How the members of a column of structures are had.
fn members(column: &str, data_type: &DataType) -> Option<String> {
    let DataType::Struct(fields) = data_type else { return None };
    let first = sql_name(fields.first()?.name());
    Some(format!("take its members by select=['{}.{first} AS {first}', …]", sql_name(column)))
}

/// What a trainer would see of a column of this type, as in `float32 [28, 28]` or `int64 in ms`, with `*` for a length that
/// is every list's own; or what to do instead.
///
/// # Errors
/// No feed can carry such a column.
pub fn fed_as(column: &str, data_type: &DataType) -> Result<String, String> {
    let units = UnitRules::default();
    let Form { depth, dtype, shape, unit, .. } =
        resolve(column, data_type, &units).map_err(|error| match error {
            PackError::Unsupported { advice, .. } => advice,
            error => error.to_string(),
        })?;
    let open = std::iter::repeat_n("*".to_owned(), depth);
    let shape: Vec<_> = open.chain(shape.iter().map(u64::to_string)).collect();
    let shape = if shape.is_empty() { String::new() } else { format!(" [{}]", shape.join(", ")) };
    let unit = unit.map_or(String::new(), |unit| format!(" in {unit}"));
    Ok(format!("{}{shape}{unit}", dtype.name()))
}

/// What an Arrow type becomes.
struct Form {
    /// Lists of many lengths around the rest.
    depth: usize,
    cell: Cell,
    dtype: DType,
    shape: Vec<u64>,
    /// Of moments and durations as they are.
    unit: Option<&'static str>,
}

fn resolve(column: &str, data_type: &DataType, units: &UnitRules) -> Result<Form, PackError> {
    let mut shape = Vec::new();
    let mut inner = data_type;
    let mut depth = 0;
    while let Some(item) = ragged::item(inner) {
        depth += 1;
        inner = item.data_type();
    }
    while let DataType::FixedSizeList(field, size) = inner {
        shape.push(u64::try_from(*size).unwrap_or(0));
        inner = field.data_type();
    }
    if let DataType::FixedSizeBinary(size) = inner {
        shape.push(u64::try_from(*size).unwrap_or(0));
    }
    let (cell, dtype) = match units.of(column, inner)? {
        Some(conversion) => (Cell::Converted(conversion), conversion.dtype()),
        None => leaf::element(inner).map_err(|advice| PackError::Unsupported {
            column: column.to_owned(),
            data_type: data_type.to_string(),
            advice: members(column, data_type).unwrap_or(advice),
        })?,
    };
    if shape.len() >= MAX_DIMS {
        return Err(PackError::TooDeep { column: column.to_owned(), dims: shape.len() + 1 });
    }
    Ok(Form { depth, cell, dtype, shape, unit: unit::own(inner) })
}

#[cfg(test)]
mod tests;
