//! Lists of many lengths: their values laid end to end, and where each list begins.
//!
//! In: one array of a column, and how many lists lie around its values. Out: for every level the bounds of
//! its lists, and the values inside all of them. The promise: what a null list hides is not fed, it has no
//! values; slices are followed to where they begin. It knows nothing of steps and slots.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, GenericListArray, OffsetSizeTrait};
use arrow::buffer::NullBuffer;
use arrow::compute::filter;
use arrow::datatypes::{DataType, FieldRef};

/// What lists of many lengths hold; `None` for any other type.
pub(super) fn item(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) => Some(item),
        _ => None,
    }
}

/// The values of an array, `depth` lists inside it.
pub(super) fn values(array: &ArrayRef, depth: usize) -> ArrayRef {
    (0..depth).fold(array.clone(), |lists, _| held(&lists))
}

/// Lists that are null, at any of `depth` levels.
pub(super) fn null_lists(array: &ArrayRef, depth: usize) -> usize {
    let (_, count) =
        (0..depth).fold((array.clone(), 0), |(lists, count), _| (held(&lists), count + lists.null_count()));
    count
}

/// Where every list of an array ends among all that they hold.
///
/// # Panics
/// The array is none of lists of many lengths.
pub(super) fn ends(array: &ArrayRef) -> Vec<i64> {
    match array.data_type() {
        DataType::LargeList(_) => ends_of(array.as_list::<i64>()),
        _ => ends_of(array.as_list::<i32>()),
    }
}

/// What all lists of an array hold.
fn held(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::LargeList(_) => held_by(array.as_list::<i64>()),
        _ => held_by(array.as_list::<i32>()),
    }
}

fn ends_of<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> Vec<i64> {
    let mut end = 0;
    let ends = |length: usize| {
        end += length as i64;
        end
    };
    match nulls(list) {
        None => lengths(list).map(ends).collect(),
        Some(nulls) => {
            lengths(list).zip(nulls).map(|(length, valid)| if valid { length } else { 0 }).map(ends).collect()
        }
    }
}

fn held_by<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> ArrayRef {
    let offsets = list.value_offsets();
    let (first, last) = (offsets[0].as_usize(), offsets[list.len()].as_usize());
    let values = list.values().slice(first, last - first);
    let Some(nulls) = nulls(list) else { return values };
    let hides_values = lengths(list).zip(nulls).any(|(length, valid)| !valid && length > 0);
    if !hides_values {
        return values;
    }
    let kept = lengths(list).zip(nulls).flat_map(|(length, valid)| std::iter::repeat_n(Some(valid), length));
    filter(&values, &kept.collect::<BooleanArray>()).expect("as many flags as values")
}

fn lengths<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> impl Iterator<Item = usize> + '_ {
    list.value_offsets().windows(2).map(|bounds| bounds[1].as_usize() - bounds[0].as_usize())
}

fn nulls<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> Option<&NullBuffer> {
    list.nulls().filter(|nulls| nulls.null_count() > 0)
}
