//! Lists of many lengths.

use arrow::buffer::{OffsetBuffer, ScalarBuffer};

use super::*;

type Words = Option<Vec<Option<String>>>;

fn numbers_of(packed: &Packed) -> Vec<i64> {
    packed.data.chunks_exact(8).map(|word| i64::from_ne_bytes(word.try_into().unwrap())).collect()
}

/// Bounds of lists that follow each other.
fn bounds(lengths: impl Iterator<Item = usize>) -> Vec<i64> {
    let ends = lengths.scan(0, |end, length| {
        *end += length as i64;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

proptest! {
    #![proptest_config(config())]
    #[test]
    fn lists_of_lists_are_their_values_and_the_bounds_of_each_level(
        rows in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<i64>(), 0..4), 0..4), 0..40),
        cut in 0_usize..40,
    ) {
        let mut builder = ListBuilder::new(ListBuilder::new(Int64Builder::new()));
        for row in &rows {
            for list in row {
                builder.values().append_value(list.iter().copied().map(Some));
            }
            builder.append(true);
        }
        let array: ArrayRef = Arc::new(builder.finish());
        let columns = pack(&parts(&array, cut), json!({})).unwrap();
        let names: Vec<_> = columns.iter().map(|(column, _)| column.name.as_str()).collect();
        prop_assert_eq!(names, ["x", "x/row_splits_0", "x/row_splits_1"]);
        prop_assert_eq!(columns[1].0.splits_of.as_deref(), Some("x"));
        prop_assert_eq!(numbers_of(&columns[0].1), rows.concat().concat());
        prop_assert_eq!(numbers_of(&columns[1].1), bounds(rows.iter().map(Vec::len)));
        prop_assert_eq!(numbers_of(&columns[2].1), bounds(rows.concat().iter().map(Vec::len)));
    }

    #[test]
    fn texts_in_lists_are_filled_and_masked_where_they_are_null(
        rows in prop::collection::vec(prop::option::weighted(0.7, prop::collection::vec(prop::option::of("[a-z]{0,9}"), 0..4)), 1..40),
        cut in 0_usize..40,
    ) {
        let mut builder = LargeListBuilder::new(StringBuilder::new());
        rows.iter().for_each(|row: &Words| builder.append_option(row.clone()));
        let array: ArrayRef = Arc::new(builder.finish());
        let words = rows.iter().flatten().flatten();
        let splits = bounds(rows.iter().map(|row| row.as_ref().map_or(0, Vec::len)));

        let filled = pack(&parts(&array, cut), json!({"x": "?"})).unwrap();
        let expected: Vec<&[u8]> = words.clone().map(|word| word.as_deref().unwrap_or("?").as_bytes()).collect();
        prop_assert_eq!(filled[0].1.texts(), expected);
        prop_assert_eq!(numbers_of(&filled[1].1), splits.clone());

        let masked = pack(&parts(&array, cut), json!({"x": "mask"})).unwrap();
        let names: Vec<_> = masked.iter().map(|(column, _)| column.name.as_str()).collect();
        prop_assert_eq!(names, ["x", "x/row_splits_0", "x_valid", "x_valid/row_splits_0"]);
        let valid: Vec<u8> = words.clone().map(|word| u8::from(word.is_some())).collect();
        prop_assert_eq!(&masked[2].1.data, &valid);
        prop_assert_eq!(numbers_of(&masked[3].1), splits);

        let nulls = rows.iter().filter(|row| row.is_none()).count() + words.filter(|word| word.is_none()).count();
        match pack(&parts(&array, cut), json!({})) {
            Ok(_) => prop_assert_eq!(nulls, 0),
            Err(PackError::Nulls { count, .. }) => prop_assert_eq!(count, nulls),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn what_a_null_list_hides_is_not_fed() {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5]));
    let field = Arc::new(Field::new_list_field(DataType::Int64, false));
    let offsets = OffsetBuffer::new(ScalarBuffer::from(vec![0, 2, 4, 5]));
    let array: ArrayRef =
        Arc::new(ListArray::new(field, offsets, values, Some(vec![true, false, true].into())));
    let columns = pack(&[batch("x", array)], json!({"x": 0})).unwrap();
    assert_eq!(numbers_of(&columns[0].1), [1, 2, 5]);
    assert_eq!(numbers_of(&columns[1].1), [0, 2, 2, 3]);
}

#[test]
fn elements_of_one_shape_keep_it_inside_lists_of_many_lengths() {
    let mut builder = ListBuilder::new(FixedSizeListBuilder::new(Int64Builder::new(), 2));
    for row in [vec![[1, 2]], vec![], vec![[3, 4], [5, 6]]] {
        for pair in row {
            builder.values().values().append_slice(&pair);
            builder.values().append(true);
        }
        builder.append(true);
    }
    let array: ArrayRef = Arc::new(builder.finish());
    assert_eq!(fed_as("x", array.data_type()).unwrap(), "int64 [*, 2]");
    let part = batch("x", array);
    let specs = PackPlan::new(&part.schema(), &rules(json!({})), &UnitRules::default())
        .unwrap()
        .specs(0, 0, &[part])
        .unwrap();
    assert_eq!(specs[0].dims, [3, 2]);
    assert_eq!(specs[1].dims, [4]);
    assert!(specs.iter().all(|spec| spec.own_rows));
}
