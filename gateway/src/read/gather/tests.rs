//! Rows out of windows, beside arrow's own way to pick them.

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Decimal256Array, DictionaryArray,
    FixedSizeBinaryArray, FixedSizeListArray, Float32Array, Int8Array, Int16Array, Int64Array,
    LargeStringArray, ListArray, StringArray, StringViewArray, TimestampMicrosecondArray,
};
use arrow::compute::{concat_batches, interleave_record_batch};
use arrow::datatypes::{Field, Int16Type, Int32Type, Schema, UInt8Type};
use proptest::prelude::*;

use super::*;

/// Rows whose values tell where they were; a third of them null where `with_nulls` says so.
fn batch(first: usize, rows: usize, with_nulls: bool) -> RecordBatch {
    let at = first..first + rows;
    let held = |row: usize| (!with_nulls || !row.is_multiple_of(3)).then_some(row);
    let list = |row: usize| held(row).map(|row| vec![Some(row as u8), Some(7), Some(row as u8 / 2)]);
    // Null items, a layout that is left to arrow.
    let odd = |row: usize| held(row).map(|row| vec![Some(row as i16), None]);
    let text = |row: usize| held(row).map(|row| "ü".repeat(row % 5) + &row.to_string());
    let wide = |row: usize| held(row).map(|row| vec![row as u8; WIDE_BYTES]);
    let wide: Vec<Option<Vec<u8>>> = at.clone().map(wide).collect();
    // Wide in some windows, and narrow in others.
    let long = |row: usize| held(row).map(|row| "l".repeat(row % 700));
    let bytes: Vec<Option<Vec<u8>>> = at.clone().map(|row| held(row).map(|row| vec![row as u8; 5])).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i8", Arc::new(at.clone().map(|row| held(row).map(|row| row as i8)).collect::<Int8Array>())),
        ("i16", Arc::new(at.clone().map(|row| held(row).map(|row| row as i16)).collect::<Int16Array>())),
        ("f32", Arc::new(at.clone().map(|row| held(row).map(|row| row as f32)).collect::<Float32Array>())),
        ("i64", Arc::new(at.clone().map(|row| Some(row as i64)).collect::<Int64Array>())),
        (
            "d128",
            Arc::new(at.clone().map(|row| held(row).map(|row| row as i128)).collect::<Decimal128Array>()),
        ),
        (
            "d256",
            Arc::new(
                at.clone().map(|row| held(row).map(|row| (row as i128).into())).collect::<Decimal256Array>(),
            ),
        ),
        (
            "time",
            Arc::new(
                at.clone()
                    .map(|row| held(row).map(|row| row as i64))
                    .collect::<TimestampMicrosecondArray>()
                    .with_timezone("UTC"),
            ),
        ),
        ("flag", Arc::new(at.clone().map(|row| held(row).map(|row| row % 2 == 0)).collect::<BooleanArray>())),
        ("text", Arc::new(at.clone().map(text).collect::<StringArray>())),
        ("large", Arc::new(at.clone().map(text).collect::<LargeStringArray>())),
        ("view", Arc::new(at.clone().map(text).collect::<StringViewArray>())),
        ("bytes", Arc::new(bytes.iter().map(Option::as_deref).collect::<BinaryArray>())),
        (
            "five",
            Arc::new(
                FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes.iter().map(Option::as_deref), 5)
                    .unwrap(),
            ),
        ),
        (
            "wide",
            Arc::new(
                FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                    wide.iter().map(Option::as_deref),
                    WIDE_BYTES as i32,
                )
                .unwrap(),
            ),
        ),
        ("long", Arc::new(at.clone().map(long).collect::<StringArray>())),
        (
            "list",
            Arc::new(FixedSizeListArray::from_iter_primitive::<UInt8Type, _, _>(at.clone().map(list), 3)),
        ),
        ("odd", Arc::new(FixedSizeListArray::from_iter_primitive::<Int16Type, _, _>(at.clone().map(odd), 2))),
        (
            "ragged",
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
                at.clone().map(|row| held(row).map(|row| vec![Some(row as i32); row % 4])),
            )),
        ),
        (
            "word",
            Arc::new(
                at.map(|row| held(row).map(|row| ["a", "b"][row % 2]))
                    .collect::<DictionaryArray<Int32Type>>(),
            ),
        ),
    ];
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let columns = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

proptest! {
    #[test]
    fn what_is_picked_is_what_arrow_picks(
        // Rows, whether some are null, and how many of the first are cut off.
        windows in proptest::collection::vec(
            proptest::collection::vec((1_usize..12, any::<bool>(), 0_usize..3), 1..4), 1..4,
        ),
        mut seed in any::<u64>(),
        rows_beside in 0_usize..4,
    ) {
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize % below.max(1)
        };
        let mut first = 0;
        let mut taken = Vec::new();
        let (mut lying, mut picks) = (Vec::new(), Vec::new());
        for lengths in &windows {
            let batches = lengths.iter().map(|&(rows, with_nulls, cut)| {
                first += 100;
                batch(first, rows + cut, with_nulls).slice(cut, rows)
            });
            let batches: Vec<RecordBatch> = batches.collect();
            let rows = batches.iter().enumerate();
            let rows = rows.flat_map(|(index, batch)| (0..batch.num_rows()).map(move |row| (index, row)));
            let rows: Vec<(usize, usize)> = rows.map(|(index, row)| (lying.len() + index, row)).collect();
            let permutation: Vec<u32> = (0..rows.len()).map(|_| random(rows.len()) as u32).collect();
            let range = random(rows.len())..rows.len();
            picks.extend(permutation[range.clone()].iter().map(|&row| rows[row as usize]));
            lying.extend(batches.iter().cloned());
            let window = Arc::new(Window::new(batches, Some(&permutation), (None, None)).unwrap());
            taken.push(Taken::Picks { window, range });
        }
        if rows_beside > 0 {
            let beside = Arc::new(batch(7, rows_beside + 3, true).slice(1, rows_beside + 1));
            picks.extend((1..=rows_beside).map(|row| (lying.len(), row)));
            lying.push(RecordBatch::clone(&beside));
            taken.push(Taken::Rows { batch: beside, range: 1..rows_beside + 1 });
        }
        let expected = interleave_record_batch(&lying.iter().collect::<Vec<_>>(), &picks).unwrap();
        prop_assert_eq!(join(&expected.schema(), &taken).unwrap(), expected);
    }
}

proptest! {
    #[test]
    fn pieces_are_copied_as_arrow_joins_slices(
        // Rows, whether some are null, and how many of them are left out on either side.
        pieces in proptest::collection::vec((0_usize..80, any::<bool>(), 0_usize..10, 0_usize..10), 1..5),
    ) {
        let mut first = 0;
        let taken: Vec<Taken> = pieces.iter().map(|&(rows, with_nulls, before, behind)| {
            first += 200;
            let batch = Arc::new(batch(first, 3 + before + rows + behind, with_nulls).slice(3, before + rows + behind));
            Taken::Rows { batch, range: before..before + rows }
        }).collect();
        let slices: Vec<RecordBatch> = taken.iter().filter_map(lying).map(|(batch, range)| batch.slice(range.start, range.len())).collect();
        let expected = concat_batches(&slices[0].schema(), &slices).unwrap();
        prop_assert_eq!(join(&expected.schema(), &taken).unwrap(), expected);
    }
}
