//! What the bloom filters of a row group tell of a filter that wants one of a few values.
//!
//! In: a row group and a filter. Out: whether no row of it passes for certain. Integers and texts only, as their
//! bytes lie in the file; a bloom filter that is absent, large or garbled tells nothing.

use std::ops::Range;

use arrow::datatypes::DataType;
use parquet::basic::Type;
use parquet::bloom_filter::Sbbf;

use super::leaf::plain_leaf;
use crate::dataset::{File, Filter};
use crate::expression::OneOf;
use crate::read::{fetch, on_cpu};

/// Larger ones cost more than they spare.
const MAX_BYTES: u64 = 1 << 20;

/// Whether no row of a row group passes.
pub(super) async fn rules_out(file: &File, row_group: usize, filter: &Filter) -> bool {
    for (place, wanted) in filter.predicate().one_of() {
        let Some((range, physical)) = bloom_range(file, row_group, place) else { continue };
        let Ok(bytes) = fetch(file, &[range]).await else { continue };
        let is_unsigned = is_unsigned(file.footer.schema().field(place).data_type());
        let look = on_cpu(move || {
            let bloom = bytes.first().and_then(|bytes| Sbbf::from_bytes(bytes).ok())?;
            (bloom.num_blocks() > 0).then(|| match &wanted {
                OneOf::Whole(values) => {
                    values.iter().all(|&value| !may_hold(&bloom, value, physical, is_unsigned))
                }
                OneOf::Text(values) => {
                    physical == Type::BYTE_ARRAY && values.iter().all(|value| !bloom.check(value.as_str()))
                }
            })
        });
        // What falls over a garbled one is no reason to stop.
        if look.await.ok().flatten() == Some(true) {
            return true;
        }
    }
    false
}

fn bloom_range(file: &File, row_group: usize, place: usize) -> Option<(Range<u64>, Type)> {
    let (leaf, _) = plain_leaf(file, place)?;
    let chunk = file.footer.metadata().row_group(row_group).column(leaf);
    let start = u64::try_from(chunk.bloom_filter_offset()?).ok()?;
    let length = u64::try_from(chunk.bloom_filter_length()?).ok()?;
    let end = start.checked_add(length)?;
    let is_sound = length > 0 && length <= MAX_BYTES && end <= file.meta.size;
    is_sound.then(|| (start..end, chunk.column_descr().physical_type()))
}

/// A number that the column's type cannot hold is not there.
fn may_hold(bloom: &Sbbf, value: i128, physical: Type, is_unsigned: bool) -> bool {
    let found = match (physical, is_unsigned) {
        (Type::INT32, false) => i32::try_from(value).map(|value| bloom.check(&value)),
        (Type::INT32, true) => u32::try_from(value).map(|value| bloom.check(&value.cast_signed())),
        (Type::INT64, false) => i64::try_from(value).map(|value| bloom.check(&value)),
        (Type::INT64, true) => u64::try_from(value).map(|value| bloom.check(&value.cast_signed())),
        _ => Ok(true),
    };
    found.unwrap_or(false)
}

fn is_unsigned(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_unsigned(values),
        other => other.is_unsigned_integer(),
    }
}
