//! How many bytes a row group's columns take once decoded, told by its footer alone.
//!
//! The estimate decides lanes and windows, so the rule is part of the order's promise. Of a leaf column
//! with V values (nulls included) in R rows:
//! - numbers take V times their width; an 8- or 16-bit integer takes 1 or 2 bytes, a boolean an eighth,
//!   a 96-bit timestamp 8;
//! - fixed-length bytes take V times their length, and a decimal of any physical type 16;
//! - strings and bytes take the unencoded bytes that the writer noted, else the uncompressed size of the
//!   chunk, and 4 bytes a value;
//! - a code takes 4 bytes, a computed number its width, a computed text what the columns take that it is made of;
//! - a repeated leaf takes 4 bytes a row more, and one that may be null an eighth of a byte a value.

use arrow::datatypes::DataType;
use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::schema::types::ColumnDescriptor;

/// Of the code of a text.
pub(super) const CODE_BITS: u64 = 32;

/// Bytes of some leaf columns of a whole row group.
pub(crate) fn decoded_bytes(group: &RowGroupMetaData, leaves: &[usize]) -> u64 {
    let rows = unsigned(group.num_rows());
    leaves
        .iter()
        .filter_map(|&leaf| group.columns().get(leaf))
        .fold(0, |sum: u64, chunk| sum.saturating_add(chunk_bytes(chunk, rows)))
}

fn chunk_bytes(chunk: &ColumnChunkMetaData, rows: u64) -> u64 {
    let column = chunk.column_descr();
    let values = unsigned(chunk.num_values());
    let data = match value_bits(column) {
        Some(bits) => values.saturating_mul(bits).div_ceil(8),
        None => {
            let noted = chunk.unencoded_byte_array_data_bytes().unwrap_or(chunk.uncompressed_size());
            unsigned(noted).saturating_add(values.saturating_mul(4))
        }
    };
    let offsets = if column.max_rep_level() > 0 { rows.saturating_mul(4) } else { 0 };
    let validity = if column.max_def_level() > 0 { values.div_ceil(8) } else { 0 };
    data.saturating_add(offsets).saturating_add(validity)
}

/// Bits of a computed value; `None` where values have lengths of their own.
pub(super) fn value_bits_of(computed: &DataType) -> Option<u64> {
    match computed {
        DataType::Boolean => Some(1),
        other => other.primitive_width().map(|bytes| bytes as u64 * 8),
    }
}

/// Bits of a value; `None` where values have lengths of their own.
fn value_bits(column: &ColumnDescriptor) -> Option<u64> {
    let is_decimal = matches!(column.logical_type_ref(), Some(LogicalType::Decimal { .. }))
        || column.converted_type() == ConvertedType::DECIMAL;
    if is_decimal {
        return Some(128);
    }
    let bits = match column.physical_type() {
        Type::BOOLEAN => 1,
        Type::INT32 => int32_bits(column),
        Type::INT64 | Type::DOUBLE | Type::INT96 => 64,
        Type::FLOAT => 32,
        Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(column.type_length()).unwrap_or(0).saturating_mul(8),
        Type::BYTE_ARRAY => return None,
    };
    Some(bits)
}

fn int32_bits(column: &ColumnDescriptor) -> u64 {
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Integer(integer)), _) => u64::from(integer.bit_width.unsigned_abs()),
        (_, ConvertedType::INT_8 | ConvertedType::UINT_8) => 8,
        (_, ConvertedType::INT_16 | ConvertedType::UINT_16) => 16,
        _ => 32,
    }
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
