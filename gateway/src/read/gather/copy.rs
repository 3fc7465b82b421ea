//! Pieces of arrays, one behind the other.
//!
//! In: arrays of one type, and which rows of each. Out: one array of those rows. The promise: it is what arrow's `concat`
//! makes of slices. Of numbers no slices are made, for a slice costs more than to copy a few hundred values.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray as _, BooleanBufferBuilder, PrimitiveArray,
    downcast_primitive,
};
use arrow::buffer::NullBuffer;
use arrow::compute::concat;
use arrow::error::ArrowError;

/// Some neighbouring rows of an array.
pub(super) type Piece<'a> = (&'a ArrayRef, Range<usize>);

/// Copies the pieces, of which there is at least one.
pub(super) fn copy(pieces: &[Piece<'_>]) -> Result<ArrayRef, ArrowError> {
    let Some((first, _)) = pieces.first() else { return concat(&[]) };
    macro_rules! of_numbers {
        ($t:ty) => {
            // Of decimals and moments the type says more than what they are stored in.
            Ok(Arc::new(numbers::<$t>(pieces).with_data_type(first.data_type().clone())) as ArrayRef)
        };
    }
    downcast_primitive! {
        first.data_type() => (of_numbers),
        _ => {
            let slices: Vec<ArrayRef> = pieces.iter().map(|(array, rows)| array.slice(rows.start, rows.len())).collect();
            let slices: Vec<&dyn Array> = slices.iter().map(AsRef::as_ref).collect();
            concat(&slices)
        }
    }
}

fn numbers<T: ArrowPrimitiveType>(pieces: &[Piece<'_>]) -> PrimitiveArray<T> {
    let count = pieces.iter().map(|(_, rows)| rows.len()).sum();
    let mut values = Vec::with_capacity(count);
    for (array, rows) in pieces {
        values.extend_from_slice(&array.as_primitive::<T>().values()[rows.clone()]);
    }
    PrimitiveArray::new(values.into(), nulls(pieces, count))
}

fn nulls(pieces: &[Piece<'_>], count: usize) -> Option<NullBuffer> {
    if pieces.iter().all(|(array, _)| array.null_count() == 0) {
        return None;
    }
    let mut valid = BooleanBufferBuilder::new(count);
    for (array, rows) in pieces {
        match array.nulls() {
            Some(nulls) => {
                let bits = nulls.offset() + rows.start..nulls.offset() + rows.end;
                valid.append_packed_range(bits, nulls.validity());
            }
            None => valid.append_n(rows.len(), true),
        }
    }
    Some(NullBuffer::new(valid.finish())).filter(|nulls| nulls.null_count() > 0)
}
