//! Strings and bytes: offsets and characters of a step, one behind the other.
//!
//! In: the innermost arrays of a column's parts. Out: their bytes together, and `elements + 1` offsets
//! from 0. The promise: an array without nulls is one copy of one stretch. It knows nothing of slots.

use arrow::array::{Array, AsArray, GenericByteArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{BinaryType, ByteArrayType, DataType, LargeBinaryType, LargeUtf8Type, Utf8Type};

use super::leaf::Leaf;

/// Bytes of all elements, `fill` counted for every null.
pub(super) fn bytes(leaves: impl Iterator<Item = Leaf>, fill: &[u8]) -> u64 {
    leaves.map(|leaf| visit(&leaf, Measure { fill }) as u64).sum()
}

/// Writes all elements into `data` and their bounds into `offsets`, `fill` in the place of nulls.
pub(super) fn write(leaves: impl Iterator<Item = Leaf>, fill: &[u8], data: &mut [u8], offsets: &mut [i64]) {
    offsets[0] = 0;
    let mut element = 0;
    let mut end = 0;
    for leaf in leaves {
        let bounds = &mut offsets[element + 1..=element + leaf.len()];
        end = visit(&leaf, Write { fill, data, bounds, start: end });
        element += leaf.len();
    }
}

/// Something done to an array of texts, whichever of Arrow's six layouts it has.
trait Visitor {
    fn offsets<T: ByteArrayType>(self, array: &GenericByteArray<T>) -> usize;
    fn elements<'a>(self, elements: impl Iterator<Item = Option<&'a [u8]>>) -> usize;
}

fn visit(leaf: &Leaf, visitor: impl Visitor) -> usize {
    let array = leaf.array.as_ref();
    match (array.data_type(), &leaf.nulls) {
        (DataType::Utf8, nulls) => by_offsets::<Utf8Type>(array, nulls.as_ref(), visitor),
        (DataType::LargeUtf8, nulls) => by_offsets::<LargeUtf8Type>(array, nulls.as_ref(), visitor),
        (DataType::Binary, nulls) => by_offsets::<BinaryType>(array, nulls.as_ref(), visitor),
        (DataType::LargeBinary, nulls) => by_offsets::<LargeBinaryType>(array, nulls.as_ref(), visitor),
        (DataType::Utf8View, nulls) => {
            let views = array.as_string_view();
            visitor.elements(
                (0..views.len()).map(|i| valid(nulls.as_ref(), i).then(|| views.value(i).as_bytes())),
            )
        }
        (DataType::BinaryView, nulls) => {
            let views = array.as_binary_view();
            visitor.elements((0..views.len()).map(|i| valid(nulls.as_ref(), i).then(|| views.value(i))))
        }
        (other, _) => unreachable!("the plan takes {other} for no text"),
    }
}

fn by_offsets<T: ByteArrayType>(
    array: &dyn Array,
    nulls: Option<&NullBuffer>,
    visitor: impl Visitor,
) -> usize {
    let array = array.as_bytes::<T>();
    if nulls.is_none() {
        return visitor.offsets(array);
    }
    visitor.elements((0..array.len()).map(|i| valid(nulls, i).then(|| array.value(i).as_ref())))
}

fn valid(nulls: Option<&NullBuffer>, i: usize) -> bool {
    nulls.is_none_or(|nulls| nulls.is_valid(i))
}

/// Counts bytes.
struct Measure<'a> {
    fill: &'a [u8],
}

impl Visitor for Measure<'_> {
    fn offsets<T: ByteArrayType>(self, array: &GenericByteArray<T>) -> usize {
        stretch(array).len()
    }

    fn elements<'a>(self, elements: impl Iterator<Item = Option<&'a [u8]>>) -> usize {
        elements.map(|element| element.unwrap_or(self.fill).len()).sum()
    }
}

/// Writes bytes and bounds, and says where it ended.
struct Write<'a> {
    fill: &'a [u8],
    data: &'a mut [u8],
    bounds: &'a mut [i64],
    start: usize,
}

impl Visitor for Write<'_> {
    fn offsets<T: ByteArrayType>(self, array: &GenericByteArray<T>) -> usize {
        let stretch = stretch(array);
        let end = self.start + stretch.len();
        self.data[self.start..end].copy_from_slice(&array.value_data()[stretch.clone()]);
        let ends = array.value_offsets().iter().skip(1);
        for (bound, offset) in self.bounds.iter_mut().zip(ends) {
            *bound = (self.start + index(*offset) - stretch.start) as i64;
        }
        end
    }

    fn elements<'a>(self, elements: impl Iterator<Item = Option<&'a [u8]>>) -> usize {
        let mut end = self.start;
        for (bound, element) in self.bounds.iter_mut().zip(elements) {
            let element = element.unwrap_or(self.fill);
            self.data[end..end + element.len()].copy_from_slice(element);
            end += element.len();
            *bound = end as i64;
        }
        end
    }
}

/// Where an array's characters lie in its buffer.
fn stretch<T: ByteArrayType>(array: &GenericByteArray<T>) -> std::ops::Range<usize> {
    let offsets = array.value_offsets();
    index(offsets[0])..index(offsets[array.len()])
}

fn index<O: arrow::datatypes::ArrowNativeType>(offset: O) -> usize {
    offset.as_usize()
}
