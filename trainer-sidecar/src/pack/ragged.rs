//! Lists of many lengths: their values laid end to end, and where each list begins.
//!
//! In: one array of a column, and how many lists lie around its values. Out: for every level the bounds of
//! its lists, and the values inside all of them. The promise: what a null list hides is not fed, it has no
//! values; slices are followed to where they begin. It knows nothing of steps and slots.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, GenericListArray, OffsetSizeTrait};
use arrow::buffer::NullBuffer;
use arrow::compute::filter;
use arrow::datatypes::{DataType, FieldRef};

/// One level of an array: lists, and what they hold.
pub(super) struct Level {
    /// Where every list ends among the values.
    pub(super) ends: Vec<i64>,
    /// Lists that are null; they are empty.
    pub(super) null_lists: usize,
    /// What all lists hold.
    pub(super) values: ArrayRef,
}

/// What lists of many lengths hold; `None` for any other type.
pub(super) fn item(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) => Some(item),
        _ => None,
    }
}

impl Level {
    /// # Panics
    /// The array is none of lists of many lengths.
    pub(super) fn of(array: &ArrayRef) -> Self {
        match array.data_type() {
            DataType::LargeList(_) => lists(array.as_list::<i64>()),
            _ => lists(array.as_list::<i32>()),
        }
    }
}

/// The values of an array, `depth` lists inside it.
pub(super) fn values(array: &ArrayRef, depth: usize) -> ArrayRef {
    (0..depth).fold(array.clone(), |array, _| Level::of(&array).values)
}

/// Lists that are null, at any of `depth` levels.
pub(super) fn null_lists(array: &ArrayRef, depth: usize) -> usize {
    let mut level = array.clone();
    let mut count = 0;
    for _ in 0..depth {
        let Level { null_lists, values, .. } = Level::of(&level);
        count += null_lists;
        level = values;
    }
    count
}

fn lists<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> Level {
    let offsets = list.value_offsets();
    let (first, last) = (offsets[0].as_usize(), offsets[list.len()].as_usize());
    let values = list.values().slice(first, last - first);
    match list.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => {
            let ends = offsets.iter().skip(1).map(|end| (end.as_usize() - first) as i64).collect();
            Level { ends, null_lists: 0, values }
        }
        Some(nulls) => without_null_lists(offsets, nulls, values),
    }
}

fn without_null_lists<O: OffsetSizeTrait>(offsets: &[O], nulls: &NullBuffer, values: ArrayRef) -> Level {
    let mut end = 0;
    let lengths = offsets.windows(2).map(|bounds| bounds[1].as_usize() - bounds[0].as_usize());
    let ends: Vec<i64> = (lengths.clone().zip(nulls))
        .map(|(length, valid)| {
            end += if valid { length } else { 0 };
            end as i64
        })
        .collect();
    let hides_values = end < values.len();
    let values = if hides_values {
        let kept = lengths.zip(nulls).flat_map(|(length, valid)| std::iter::repeat_n(Some(valid), length));
        filter(&values, &kept.collect::<BooleanArray>()).expect("as many flags as values")
    } else {
        values
    };
    Level { ends, null_lists: nulls.null_count(), values }
}
