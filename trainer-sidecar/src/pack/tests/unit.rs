#![expect(clippy::needless_pass_by_value, reason = "arrays are made where they are packed")]

use super::*;

fn whole(array: ArrayRef, nulls: Value, unit: &str) -> Vec<i64> {
    let columns = pack_in(&parts(&array, 1), nulls, json!({"x": unit})).unwrap();
    assert_eq!((columns[0].0.dtype, columns[0].0.shape.as_slice()), (DType::Int64, [].as_slice()));
    columns[0].1.data.chunks_exact(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn floats(array: ArrayRef) -> Vec<f64> {
    let columns = pack_in(&parts(&array, 1), json!({}), json!({"*": "float64"})).unwrap();
    assert_eq!(columns[0].0.dtype, DType::Float64);
    columns[0].1.data.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn refusal(array: ArrayRef, unit: &str) -> String {
    pack_in(&parts(&array, 1), json!({}), json!({"x": unit})).map(|_| ()).unwrap_err().to_string()
}

fn decimals(values: &[i128], precision: u8, scale: i8) -> ArrayRef {
    let array = Decimal128Array::from(values.to_vec());
    Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
}

#[test]
fn decimals_of_every_width_are_whole_numbers_of_their_unit() {
    let values = [0, 1, -250, 999_999_999];
    let arrays: [ArrayRef; 4] = [
        Arc::new(Decimal32Array::from_iter_values(values).with_precision_and_scale(9, 2).unwrap()),
        Arc::new(
            Decimal64Array::from_iter_values(values.map(i64::from)).with_precision_and_scale(18, 2).unwrap(),
        ),
        decimals(&values.map(i128::from), 38, 2),
        Arc::new(
            Decimal256Array::from_iter_values(values.map(|v| i256::from_i128(i128::from(v))))
                .with_precision_and_scale(76, 2)
                .unwrap(),
        ),
    ];
    for array in arrays {
        assert_eq!(whole(array.clone(), json!({}), "0.01"), values.map(i64::from));
        assert_eq!(whole(array.clone(), json!({}), "0.001"), values.map(|v| 10 * i64::from(v)));
        assert_eq!(floats(array), [0.0, 0.01, -2.5, 9_999_999.99]);
    }
}

#[test]
fn a_unit_may_be_any_number_that_every_value_is_a_multiple_of() {
    assert_eq!(whole(decimals(&[0, 15, -250], 9, 2), json!({}), "0.05"), [0, 3, -50]);
    assert_eq!(whole(decimals(&[0, 500_000, -250_000], 9, 2), json!({}), "250"), [0, 20, -10]);
    // 10^57 of scale 40 in units of 1: no 128 bits hold it, and 64 hold what it is.
    let wide = i256::from_i128(10_i128.pow(18)) * i256::from_i128(10_i128.pow(37)) * i256::from_i128(1_000);
    let wide = Decimal256Array::from_iter_values([wide]).with_precision_and_scale(76, 40).unwrap();
    assert_eq!(whole(Arc::new(wide), json!({}), "1"), [10_i64.pow(18)]);
    // Times 10^20 no 128 bits hold this either, and a third of a unit is none.
    let most = i128::from(i64::MAX);
    assert_eq!(whole(decimals(&[most], 38, 0), json!({}), "1"), [i64::MAX]);
    assert!(refusal(decimals(&[1, most + 1], 38, 0), "1").contains("holds 9223372036854775808 at"));
}

#[test]
fn floats_are_the_nearest() {
    let values = [i128::from(i64::MAX), 10_i128.pow(37) + 1, -((1 << 53) + 1), 12_345];
    for scale in [0, 7, 30] {
        let nearest = values.map(|value| format!("{value}e-{scale}").parse::<f64>().unwrap());
        assert_eq!(floats(decimals(&values, 38, scale)), nearest);
    }
}

#[test]
fn what_is_no_whole_number_of_the_unit_is_named() {
    let array = decimals(&[100, 250, 12_345], 9, 2);
    let message = refusal(array, "0.1");
    assert!(message.contains(r#"column "x" holds 123.45 at epoch 0, step 0"#), "{message}");
    assert!(message.contains(r#"no int64 in units of "0.1""#), "{message}");
    let moments: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![1_000, 1_001]));
    assert!(refusal(moments, "s").contains("holds 1970-01-01T00:00:01.001"));
    let zoned: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![1, 0]).with_timezone("Europe/Paris"));
    assert!(refusal(zoned, "s").contains("holds 1970-01-01T00:00:00.001"));
    let date: ArrayRef = Arc::new(Date64Array::from(vec![0, -1]));
    assert!(refusal(date, "day").contains("holds 19"));
    let late: ArrayRef = Arc::new(TimestampSecondArray::from(vec![i64::MAX, 0]));
    assert!(refusal(late, "ms").contains("no int64"));
}

#[test]
fn nulls_and_what_hides_behind_them_are_no_misfits() {
    let hidden = Decimal128Array::new(vec![100, 33].into(), Some(NullBuffer::from(vec![true, false])))
        .with_precision_and_scale(9, 2)
        .unwrap();
    assert_eq!(whole(Arc::new(hidden.clone()), json!({"x": -7}), "1"), [1, -7]);
    let masked = pack_in(&parts(&(Arc::new(hidden) as ArrayRef), 1), json!({"x": "mask"}), json!({"*": "1"}));
    assert_eq!(masked.unwrap()[1].1.data, [1, 0]);
}

#[test]
fn moments_are_had_in_any_unit_of_time() {
    let seconds: ArrayRef = Arc::new(TimestampSecondArray::from(vec![86_400, -172_800]).with_timezone("UTC"));
    assert_eq!(whole(seconds.clone(), json!({}), "day"), [1, -2]);
    assert_eq!(whole(seconds, json!({}), "ns"), [86_400_000_000_000, -172_800_000_000_000]);
    assert_eq!(whole(Arc::new(Date32Array::from(vec![3, -1])), json!({}), "s"), [259_200, -86_400]);
    assert_eq!(whole(Arc::new(Time32MillisecondArray::from(vec![5, 0])), json!({}), "us"), [5_000, 0]);
    assert_eq!(whole(Arc::new(DurationNanosecondArray::from(vec![2_000, 0])), json!({}), "us"), [2, 0]);
}

#[test]
fn lists_of_decimals_are_converted_inside() {
    let item = Arc::new(Field::new("item", DataType::Decimal128(9, 2), true));
    let pairs = FixedSizeListArray::new(item.clone(), 2, decimals(&[100, 200, 300, 400], 9, 2), None);
    let columns = pack_in(&parts(&(Arc::new(pairs) as ArrayRef), 1), json!({}), json!({"x": "1"})).unwrap();
    assert_eq!(columns[0].0.shape, [2]);
    let expected: Vec<u8> = [1_i64, 2, 3, 4].iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!(columns[0].1.data, expected);
    let offsets = arrow::buffer::OffsetBuffer::from_lengths([1, 3]);
    let lists = ListArray::new(item, offsets, decimals(&[100, 200, 300, 400], 9, 2), None);
    let columns = pack_in(&parts(&(Arc::new(lists) as ArrayRef), 1), json!({}), json!({"x": "1"})).unwrap();
    assert_eq!(columns[0].1.data, expected);
    assert_eq!(columns[1].0.name, "x/row_splits_0");
}

#[test]
fn units_that_cannot_be_name_the_choices() {
    let check = |array: ArrayRef, unit: &str, expected: &str| {
        let message = refusal(array, unit);
        assert!(message.contains(unit) && message.contains(expected), "{message}");
    };
    for unit in ["", "0", "0.00", "-1", "1e-2", "cent", ".5", "float32", "s"] {
        check(decimals(&[1, 2], 9, 2), unit, r#"as in "0.01", or "float64""#);
    }
    for unit in ["float64", "0.001", "minute"] {
        check(Arc::new(TimestampSecondArray::from(vec![1, 2])), unit, r#""day", "s", "ms", "us" or "ns""#);
    }
    check(Arc::new(Int64Array::from(vec![1, 2])), "0.01", "units are of decimals");
    let unknown = pack_in(&parts(&decimals(&[1, 2], 9, 2), 1), json!({}), json!({"y": "1"}));
    assert!(unknown.map(|_| ()).unwrap_err().to_string().contains(r#"units names column "y""#));
    // "*" reaches what it fits and nothing else.
    let moments: ArrayRef = Arc::new(TimestampSecondArray::from(vec![1, 2]));
    let columns = pack_in(&parts(&moments, 1), json!({}), json!({"*": "float64"})).unwrap();
    assert_eq!(columns[0].0.dtype, DType::Int64);
}
