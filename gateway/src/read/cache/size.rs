//! What a batch holds in memory.

use std::collections::HashSet;

use arrow::array::{Array as _, ArrayData};
use arrow::buffer::Buffer;
use arrow::record_batch::RecordBatch;

/// Bytes of all allocations that a batch keeps alive, each once, whatever part of it the batch shows.
pub(in crate::read) fn held_bytes(batch: &RecordBatch) -> u64 {
    let mut seen = HashSet::new();
    batch.columns().iter().map(|column| held(&column.to_data(), &mut seen)).sum()
}

fn held(array: &ArrayData, seen: &mut HashSet<usize>) -> u64 {
    let nulls = array.nulls().map(|nulls| nulls.buffer());
    let buffers: u64 = array.buffers().iter().chain(nulls).map(|buffer| once(buffer, seen)).sum();
    buffers + array.child_data().iter().map(|child| held(child, seen)).sum::<u64>()
}

fn once(buffer: &Buffer, seen: &mut HashSet<usize>) -> u64 {
    if seen.insert(buffer.data_ptr().as_ptr() as usize) { buffer.capacity() as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    #[test]
    fn memory_counts_once_and_whole() {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1_000));
        let whole = ids.get_buffer_memory_size() as u64;
        let parts = [("a", ids.slice(0, 2)), ("b", ids.slice(10, 2))];
        let batch = RecordBatch::try_from_iter(parts).unwrap();
        assert_eq!(held_bytes(&batch), whole);
        assert_eq!(held_bytes(&batch.slice(1, 1)), whole);
    }
}
