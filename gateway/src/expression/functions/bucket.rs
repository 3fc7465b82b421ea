//! `hash_bucket(x, n[, seed])`: a number from 0 to n − 1 that is the same in every release and on every machine.
//!
//! XXH64 (<https://xxhash.com>) under the seed, over the UTF-8 bytes of a text or the eight little-endian
//! bytes of an integer, modulo n. In Python: `xxhash.xxh64_intdigest(x, seed) % n`.

use std::sync::Arc;

use arrow::array::types::{Int64Type, UInt64Type};
use arrow::array::{Array as _, ArrayRef, AsArray as _, Int64Array};
use arrow::datatypes::DataType;
use twox_hash::XxHash64;

use crate::expression::tree::Node;
use crate::expression::values::{Values, map};

/// Whether buckets can be told by such constants: n of at least 1, a seed of at least 0.
pub(super) fn is_sound(constants: &[Node]) -> bool {
    let constant = |node: Option<&Node>| match node {
        Some(Node::Literal(value)) => value.is_valid(0).then(|| first(value)),
        _ => None,
    };
    let is_seeded = constants.len() < 2 || constant(constants.get(1)).is_some_and(|seed| seed >= 0);
    constant(constants.first()).is_some_and(|buckets| buckets >= 1) && is_seeded
}

pub(super) fn hash_bucket(x: &Values, constants: &[Values]) -> Values {
    let constant = |index: usize| constants.get(index).map_or(0, |values| first(&values.array));
    let (buckets, seed) = (constant(0).unsigned_abs().max(1), constant(1).unsigned_abs());
    let bucket = |bytes: &[u8]| i64::try_from(XxHash64::oneshot(seed, bytes) % buckets).ok();
    match x.array.data_type() {
        DataType::Int64 => map::<Int64Type, Int64Type>(x, |x| bucket(&x.to_le_bytes())),
        DataType::UInt64 => map::<UInt64Type, Int64Type>(x, |x| bucket(&x.to_le_bytes())),
        _ => {
            let texts = x.array.as_string::<i32>().iter();
            let made: Int64Array = texts.map(|text| text.and_then(|text| bucket(text.as_bytes()))).collect();
            Values { array: Arc::new(made), is_scalar: x.is_scalar }
        }
    }
}

fn first(constant: &ArrayRef) -> i64 {
    constant.as_primitive::<Int64Type>().value(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of the reference implementation; if one changes, buckets of trained models mean other things.
    #[test]
    fn the_hash_is_pinned() {
        assert_eq!(XxHash64::oneshot(0, b""), 0xef46_db37_51d8_e999);
        assert_eq!(XxHash64::oneshot(0, b"a"), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(XxHash64::oneshot(0, b"abc"), 0x44bc_2cf5_ad77_0999);
    }
}
