//! The types that lists may be of here, and how Parquet stores them.
//!
//! In: stored bytes, or dictionary indices of a byte. Out: values of the narrow type, appended. The promise:
//! the very values that parquet's own reader gives, which cuts off what does not fit.

use arrow::datatypes::{
    ArrowNativeType, ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use parquet::basic::Type;

use super::lookup;

/// A type of values.
pub(super) trait Element: ArrowNativeType {
    type Arrow: ArrowPrimitiveType<Native = Self>;
    /// How it is stored.
    const STORED: Type;
    /// Bytes that a stored value takes.
    const STORED_BYTES: usize;

    /// Appends values stored one behind the other.
    fn plain(stored: &[u8], out: &mut Vec<Self>);

    /// Appends `count` values whose first bytes lie together from `first` on, the others a stride on each.
    fn split(stored: &[u8], first: usize, count: usize, out: &mut Vec<Self>);

    /// A whole number of as many bits.
    fn of_number(number: i64) -> Self;

    /// Appends `table[index]` for every index.
    fn look_up(indices: &[u8], table: &[Self; 256], out: &mut Vec<Self>) {
        out.extend(indices.iter().map(|&index| table[usize::from(index)]));
    }
}

macro_rules! element {
    ($native:ty, $arrow:ty, $stored:ty, $physical:expr $(, $look_up:item)?) => {
        impl Element for $native {
            type Arrow = $arrow;
            const STORED: Type = $physical;
            const STORED_BYTES: usize = size_of::<$stored>();

            fn plain(stored: &[u8], out: &mut Vec<Self>) {
                let (stored, _) = stored.as_chunks::<{ size_of::<$stored>() }>();
                out.extend(stored.iter().map(|&bytes| <$stored>::from_le_bytes(bytes) as $native));
            }

            fn split(stored: &[u8], first: usize, count: usize, out: &mut Vec<Self>) {
                let stride = stored.len() / Self::STORED_BYTES;
                let streams: [&[u8]; size_of::<$stored>()] =
                    std::array::from_fn(|byte| &stored[byte * stride + first..][..count]);
                out.extend((0..count).map(|place| {
                    let bytes = std::array::from_fn(|byte| streams[byte][place]);
                    <$stored>::from_le_bytes(bytes) as $native
                }));
            }

            fn of_number(number: i64) -> Self {
                number as $native
            }

            $($look_up)?
        }
    };
}

element!(i8, Int8Type, i32, Type::INT32);
element!(
    u8,
    UInt8Type,
    i32,
    Type::INT32,
    fn look_up(indices: &[u8], table: &[u8; 256], out: &mut Vec<u8>) {
        lookup::look_up(indices, table, out);
    }
);
element!(i16, Int16Type, i32, Type::INT32);
element!(u16, UInt16Type, i32, Type::INT32);
element!(i32, Int32Type, i32, Type::INT32);
element!(u32, UInt32Type, i32, Type::INT32);
element!(i64, Int64Type, i64, Type::INT64);
element!(u64, UInt64Type, i64, Type::INT64);
element!(f32, Float32Type, f32, Type::FLOAT);
element!(f64, Float64Type, f64, Type::DOUBLE);
