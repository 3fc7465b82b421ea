//! Arrow columns into the columns of a slot.
//!
//! In: a schema and what nulls become; then, step by step, the record batches that make up a step. Out:
//! what the trainer will see of each column, and the bytes in the slot. The promise: the plan is made
//! once and refuses what cannot be a tensor by name; every column is copied once, from the bytes that
//! the network brought to where the trainer reads them. It knows no socket, no ring and no clock.

mod bits;
mod fill;
mod leaf;
mod nulls;
mod text;

use arrow::array::RecordBatch;
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Schema};
use penstock_proto::Code;
use penstock_ring::{ColumnSpec, DType, MAX_DIMS};

pub(crate) use self::nulls::NullRules;

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
    /// Shape of one row.
    pub(crate) shape: Vec<u64>,
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
    Unsupported { column: String, data_type: String, advice: &'static str },
    #[error(
        "column \"{column}\" nests {dims} dimensions and a tensor of the ring holds {MAX_DIMS}, the rows included: leave it out with columns=[…]"
    )]
    TooDeep { column: String, dims: usize },
    #[error(
        "column \"{column}\" holds {count} nulls at epoch {epoch}, step {step}: declare nulls={{\"{column}\": \"mask\"}} to get a column \"{column}_valid\" beside it, or nulls={{\"{column}\": VALUE}} to fill them"
    )]
    Nulls { column: String, epoch: u64, step: u64, count: usize },
    #[error("nulls names column \"{column}\", which the feed does not have: its columns are {known}")]
    UnknownColumn { column: String, known: String },
    #[error(
        "nulls fills column \"{column}\" with {value}, which is no {dtype}: give a value of that type, or \"mask\""
    )]
    Fill { column: String, value: String, dtype: &'static str },
    #[error(
        "nulls asks for a column \"{column}\" beside its mask, but the dataset has a column of that name: fill its nulls with a value instead"
    )]
    NameTaken { column: String },
}

impl PackError {
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::Unsupported { .. } | Self::TooDeep { .. } => Code::Unsupported,
            Self::UnknownColumn { .. } => Code::UnknownColumn,
            Self::Nulls { .. } | Self::Fill { .. } | Self::NameTaken { .. } => Code::InvalidFeed,
        }
    }
}

impl PackPlan {
    /// Decides for every column of `schema` what it becomes.
    ///
    /// # Errors
    /// A column of a type that is no tensor, or rules that do not fit the columns.
    pub(crate) fn new(schema: &Schema, rules: &NullRules) -> Result<Self, PackError> {
        rules.check_names(schema)?;
        let mut columns = Vec::with_capacity(schema.fields().len());
        for (index, field) in schema.fields().iter().enumerate() {
            let name = field.name();
            let (cell, dtype, shape) = resolve(name, field.data_type())?;
            let rule = rules.of(field, dtype)?;
            let (nulls, masked) = match rule {
                nulls::Rule::Refuse => (OnNull::Refuse, false),
                nulls::Rule::Fill(element) => (OnNull::Fill(cell.repeat(&element)), false),
                nulls::Rule::Mask => (OnNull::Fill(cell.blank()), true),
            };
            let content = Content::Values { cell, nulls };
            columns.push(Column { name: name.clone(), dtype, shape: shape.clone(), index, content });
            if masked {
                let mask = format!("{name}_valid");
                if schema.field_with_name(&mask).is_ok() {
                    return Err(PackError::NameTaken { column: mask });
                }
                let content = Content::Validity { elements_per_cell: cell.elements(dtype) };
                columns.push(Column { name: mask, dtype: DType::Bool, shape, index, content });
            }
        }
        Ok(Self { columns })
    }

    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// What a slot must hold of a step that consists of `parts`.
    ///
    /// # Errors
    /// A null in a column for which nothing is declared.
    pub(crate) fn specs(
        &self,
        epoch: u64,
        step: u64,
        parts: &[RecordBatch],
    ) -> Result<Vec<ColumnSpec>, PackError> {
        let rows = parts.iter().map(RecordBatch::num_rows).sum::<usize>() as u64;
        self.columns
            .iter()
            .map(|column| {
                let count = column.refused_nulls(parts);
                if count > 0 {
                    return Err(PackError::Nulls { column: column.name.clone(), epoch, step, count });
                }
                Ok(column.spec(rows, column.text_bytes(parts)))
            })
            .collect()
    }
}

impl Column {
    /// What a slot must hold of `rows` rows whose texts have `text_bytes` bytes together.
    pub(crate) fn spec(&self, rows: u64, text_bytes: u64) -> ColumnSpec {
        let dims = std::iter::once(rows).chain(self.shape.iter().copied()).collect();
        match self.dtype.size() {
            Some(_) => ColumnSpec::fixed(self.dtype, dims),
            None => ColumnSpec::text(self.dtype, dims, text_bytes),
        }
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
            Content::Validity { elements_per_cell } => {
                let mut rest = data;
                for leaf in self.leaves(parts) {
                    let (place, after) = rest.split_at_mut(leaf.len() * elements_per_cell);
                    leaf.write_validity(place, *elements_per_cell);
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
                self.leaves(parts).map(|leaf| leaf.nulls.as_ref().map_or(0, NullBuffer::null_count)).sum()
            }
            _ => 0,
        }
    }

    fn leaves<'a>(&self, parts: &'a [RecordBatch]) -> impl Iterator<Item = Leaf> + use<'a> {
        let index = self.index;
        parts.iter().map(move |part| Leaf::of(part.column(index)))
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

/// What a trainer would see of a column of this type, as in `float32 [28, 28]`; or what to do instead.
///
/// # Errors
/// No feed can carry such a column.
pub fn fed_as(data_type: &DataType) -> Result<String, String> {
    let (_, dtype, shape) = resolve("", data_type).map_err(|error| match error {
        PackError::Unsupported { advice, .. } => advice.to_owned(),
        error => error.to_string(),
    })?;
    let shape = if shape.is_empty() { String::new() } else { format!(" {shape:?}") };
    Ok(format!("{}{shape}", dtype.name()))
}

/// The cell, element type and row shape of an Arrow type.
fn resolve(column: &str, data_type: &DataType) -> Result<(Cell, DType, Vec<u64>), PackError> {
    let mut shape = Vec::new();
    let mut inner = data_type;
    while let DataType::FixedSizeList(field, size) = inner {
        shape.push(u64::try_from(*size).unwrap_or(0));
        inner = field.data_type();
    }
    if let DataType::FixedSizeBinary(size) = inner {
        shape.push(u64::try_from(*size).unwrap_or(0));
    }
    let (cell, dtype) = leaf::element(inner).map_err(|advice| PackError::Unsupported {
        column: column.to_owned(),
        data_type: data_type.to_string(),
        advice,
    })?;
    if shape.len() >= MAX_DIMS {
        return Err(PackError::TooDeep { column: column.to_owned(), dims: shape.len() + 1 });
    }
    Ok((cell, dtype, shape))
}

#[cfg(test)]
mod tests;
