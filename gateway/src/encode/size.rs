//! How many bytes rows take on the wire.

use arrow::array::{Array, ArrayRef, AsArray as _, GenericListArray, OffsetSizeTrait};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;

/// Padding and description of an array, at most about.
const OVERHEAD: u64 = 128;

/// Bytes of a batch's body, a little overestimated. Slices count as themselves, not as what they are
/// slices of.
pub(crate) fn encoded_bytes(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(bytes).sum()
}

fn bytes(array: &ArrayRef) -> u64 {
    let rows = array.len() as u64;
    let validity = array.nulls().map_or(0, |_| rows.div_ceil(8));
    let data = match array.data_type() {
        DataType::Null => 0,
        DataType::Boolean => rows.div_ceil(8),
        DataType::FixedSizeBinary(width) => rows * u64::from(width.unsigned_abs()),
        DataType::Utf8 => text(array.as_string::<i32>().offsets()),
        DataType::LargeUtf8 => text(array.as_string::<i64>().offsets()),
        DataType::Binary => text(array.as_binary::<i32>().offsets()),
        DataType::LargeBinary => text(array.as_binary::<i64>().offsets()),
        DataType::Utf8View => rows * 16 + array.as_string_view().total_buffer_bytes_used() as u64,
        DataType::BinaryView => rows * 16 + array.as_binary_view().total_buffer_bytes_used() as u64,
        DataType::List(_) => list(array.as_list::<i32>()),
        DataType::LargeList(_) => list(array.as_list::<i64>()),
        DataType::FixedSizeList(..) => bytes(array.as_fixed_size_list().values()),
        DataType::Struct(_) => array.as_struct().columns().iter().map(bytes).sum(),
        DataType::Map(..) => {
            let map = array.as_map();
            let range = range(map.offsets());
            let entries: ArrayRef = std::sync::Arc::new(map.entries().slice(range.start, range.len()));
            rows * 4 + 4 + bytes(&entries)
        }
        other => match other.primitive_width() {
            Some(width) => rows * width as u64,
            None => array.get_buffer_memory_size() as u64,
        },
    };
    data + validity + OVERHEAD
}

fn range<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> std::ops::Range<usize> {
    offsets.first().as_usize()..offsets.last().as_usize()
}

fn text<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> u64 {
    (range(offsets).len() + size_of_val(offsets.as_ref())) as u64
}

fn list<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> u64 {
    let range = range(list.offsets());
    size_of_val(list.offsets().as_ref()) as u64 + bytes(&list.values().slice(range.start, range.len()))
}
