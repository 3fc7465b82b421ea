//! Views without the bytes that they do not show.
//!
//! In: a batch, perhaps a slice. Out: the same rows; columns of views hold their own bytes only. IPC
//! writes all buffers of a view array whatever it shows of them, so a slice would carry its whole file's.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray as _, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait,
    RecordBatchOptions, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, FieldRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

pub(crate) fn compact(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema();
    if !schema.fields().iter().any(|field| has_views(field.data_type())) {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().map(own).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &options)
}

fn has_views(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8View | DataType::BinaryView => true,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => has_views(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_views(field.data_type())),
        _ => false,
    }
}

fn own(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !has_views(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    Ok(match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        DataType::List(item) => Arc::new(own_list(array.as_list::<i32>(), item)?),
        DataType::LargeList(item) => Arc::new(own_list(array.as_list::<i64>(), item)?),
        DataType::FixedSizeList(item, size) => {
            let list = array.as_fixed_size_list();
            let values = own(list.values())?;
            Arc::new(FixedSizeListArray::try_new(Arc::clone(item), *size, values, list.nulls().cloned())?)
        }
        DataType::Struct(_) => Arc::new(own_struct(array.as_struct())?),
        DataType::Map(entries, sorted) => {
            let map = array.as_map();
            let (offsets, range) = rebased(map.offsets());
            let values = own_struct(&map.entries().slice(range.start, range.len()))?;
            let nulls = map.nulls().cloned();
            Arc::new(MapArray::try_new(Arc::clone(entries), offsets, values, nulls, *sorted)?)
        }
        _ => Arc::clone(array),
    })
}

fn own_struct(array: &StructArray) -> Result<StructArray, ArrowError> {
    let columns = array.columns().iter().map(own).collect::<Result<Vec<_>, _>>()?;
    StructArray::try_new(array.fields().clone(), columns, array.nulls().cloned())
}

fn own_list<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    item: &FieldRef,
) -> Result<GenericListArray<O>, ArrowError> {
    let (offsets, range) = rebased(list.offsets());
    let values = own(&list.values().slice(range.start, range.len()))?;
    GenericListArray::try_new(Arc::clone(item), offsets, values, list.nulls().cloned())
}

/// Offsets that begin at 0, and which values they were of.
fn rebased<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> (OffsetBuffer<O>, std::ops::Range<usize>) {
    let range = offsets.first().as_usize()..offsets.last().as_usize();
    (OffsetBuffer::from_lengths(offsets.lengths()), range)
}
