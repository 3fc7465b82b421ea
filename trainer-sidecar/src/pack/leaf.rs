//! The innermost values of a column, and how cells of them are written.
//!
//! In: one array of a column, lists and all. Out: its innermost array with every null that hides one
//! of its values. The promise: whatever slicing the array has gone through, values are those that
//! Arrow itself would read. It knows nothing of steps and slots.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use penstock_ring::DType;

use super::bits;
use super::unit::{self, Conversion};

/// What one value of the innermost array is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    /// That many bytes, as they are.
    Dense(usize),
    /// A number that becomes one of eight bytes in another unit.
    Converted(Conversion),
    /// A bit that becomes a byte.
    Bool,
    /// Characters or bytes of any length.
    Text,
}

impl Cell {
    /// The bytes of a cell all of whose elements are `element`.
    pub(super) fn repeat(self, element: &[u8]) -> Vec<u8> {
        match self {
            Self::Dense(width) => element.iter().copied().cycle().take(width).collect(),
            Self::Converted(_) | Self::Bool | Self::Text => element.to_vec(),
        }
    }

    /// How many elements of `dtype` it is.
    pub(super) fn elements(self, dtype: DType) -> usize {
        match (self, dtype.size()) {
            (Self::Dense(width), Some(size)) => width / size as usize,
            _ => 1,
        }
    }

    /// What hides behind a mask.
    pub(super) fn blank(self) -> Vec<u8> {
        match self {
            Self::Dense(width) => vec![0; width],
            Self::Converted(_) => vec![0; unit::WIDTH],
            Self::Bool => vec![0],
            Self::Text => Vec::new(),
        }
    }
}

/// The cell and element type of an innermost Arrow type, or what to do instead.
pub(super) fn element(data_type: &DataType) -> Result<(Cell, DType), String> {
    use DataType as A;
    Ok(match data_type {
        A::Boolean => (Cell::Bool, DType::Bool),
        A::Int8 => (Cell::Dense(1), DType::Int8),
        A::Int16 => (Cell::Dense(2), DType::Int16),
        A::Int32 | A::Date32 | A::Time32(_) | A::Decimal32(_, 0) => (Cell::Dense(4), DType::Int32),
        A::Int64 | A::Date64 | A::Time64(_) | A::Timestamp(..) | A::Duration(_) | A::Decimal64(_, 0) => {
            (Cell::Dense(8), DType::Int64)
        }
        A::UInt8 => (Cell::Dense(1), DType::UInt8),
        A::UInt16 => (Cell::Dense(2), DType::UInt16),
        A::UInt32 => (Cell::Dense(4), DType::UInt32),
        A::UInt64 => (Cell::Dense(8), DType::UInt64),
        A::Float16 => (Cell::Dense(2), DType::Float16),
        A::Float32 => (Cell::Dense(4), DType::Float32),
        A::Float64 => (Cell::Dense(8), DType::Float64),
        A::FixedSizeBinary(size) => (Cell::Dense(usize::try_from(*size).unwrap_or(0)), DType::UInt8),
        A::Utf8 | A::LargeUtf8 | A::Utf8View => (Cell::Text, DType::String),
        A::Binary | A::LargeBinary | A::BinaryView => (Cell::Text, DType::Bytes),
        A::Decimal32(_, scale)
        | A::Decimal64(_, scale)
        | A::Decimal128(_, scale)
        | A::Decimal256(_, scale) => {
            return Err(unit::advice(*scale));
        }
        A::Interval(_) => return Err("write it as int64 or float64".to_owned()),
        A::List(_) | A::LargeList(_) => {
            let advice = "write the lists of many lengths around those of one fixed size, or all of one size";
            return Err(advice.to_owned());
        }
        A::ListView(_) | A::LargeListView(_) => return Err("serve it as plain lists".to_owned()),
        A::Map(..) => return Err("write its keys and its values as lists of their own".to_owned()),
        A::Struct(_) | A::Union(..) => {
            return Err("write its members as columns of their own".to_owned());
        }
        A::Dictionary(..) | A::RunEndEncoded(..) => {
            return Err("serve it with its values spelled out".to_owned());
        }
        A::Null => return Err("give it a type that holds values".to_owned()),
        A::FixedSizeList(..) => unreachable!("lists of fixed size are unwrapped before"),
    })
}

/// The innermost array of a column's array.
pub(super) struct Leaf {
    pub(super) array: ArrayRef,
    /// Which of its values are hidden, by a null of their own or of a list around them.
    pub(super) nulls: Option<NullBuffer>,
}

impl Leaf {
    pub(super) fn of(column: &ArrayRef) -> Self {
        let mut array = column.clone();
        let mut nulls = array.nulls().cloned();
        while let Some(list) = array.as_fixed_size_list_opt() {
            let size = usize::try_from(list.value_length()).unwrap_or(0);
            let outer = nulls.filter(|_| size > 0).map(|nulls| nulls.expand(size));
            let values = list.values().slice(0, list.len() * size);
            nulls = NullBuffer::union(outer.as_ref(), values.nulls());
            array = values;
        }
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        Self { array, nulls }
    }

    pub(super) fn len(&self) -> usize {
        self.array.len()
    }

    /// Writes cells of `width` bytes, `fill` in the place of nulls.
    pub(super) fn write_dense(&self, place: &mut [u8], width: usize, fill: &[u8]) {
        let data = self.array.to_data();
        let start = data.offset() * width;
        let values = &data.buffers()[0].as_slice()[start..start + place.len()];
        let Some(nulls) = &self.nulls else {
            place.copy_from_slice(values);
            return;
        };
        let mut end = 0;
        for (from, to) in nulls.valid_slices() {
            fill_cells(&mut place[end * width..from * width], fill);
            place[from * width..to * width].copy_from_slice(&values[from * width..to * width]);
            end = to;
        }
        fill_cells(&mut place[end * width..], fill);
    }

    pub(super) fn write_bools(&self, place: &mut [u8], fill: &[u8]) {
        bits::spread(self.array.as_boolean().values(), place);
        if let Some(nulls) = &self.nulls {
            for (byte, valid) in place.iter_mut().zip(nulls) {
                if !valid {
                    *byte = fill[0];
                }
            }
        }
    }

    /// Writes 1 for what is there and 0 for what is null, once for every element of a cell.
    pub(super) fn write_validity(&self, place: &mut [u8], elements_per_cell: usize) {
        match (&self.nulls, elements_per_cell) {
            (None, _) | (_, 0) => place.fill(1),
            (Some(nulls), 1) => bits::spread(nulls.inner(), place),
            (Some(nulls), several) => bits::spread(nulls.expand(several).inner(), place),
        }
    }
}

fn fill_cells(place: &mut [u8], fill: &[u8]) {
    if !fill.is_empty() {
        place.chunks_exact_mut(fill.len()).for_each(|cell| cell.copy_from_slice(fill));
    }
}
