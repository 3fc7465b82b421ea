use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::NullBuffer;
use arrow::datatypes::*;
use proptest::prelude::*;
use serde_json::{Value, json};

use penstock_ring::SlotLayout;

use super::*;

mod ragged;
mod unit;

/// What the trainer would read: bytes, and offsets of texts.
struct Packed {
    data: Vec<u8>,
    offsets: Vec<i64>,
}

fn batch(name: &str, array: ArrayRef) -> RecordBatch {
    let field = Field::new(name, array.data_type().clone(), true);
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).unwrap()
}

fn rules(rules: Value) -> NullRules {
    serde_json::from_value(rules).unwrap()
}

fn pack(parts: &[RecordBatch], nulls: Value) -> Result<Vec<(Column, Packed)>, PackError> {
    pack_in(parts, nulls, json!({}))
}

fn pack_in(parts: &[RecordBatch], nulls: Value, units: Value) -> Result<Vec<(Column, Packed)>, PackError> {
    let units = serde_json::from_value(units).unwrap();
    let plan = PackPlan::new(&parts[0].schema(), &rules(nulls), &units)?;
    let specs = plan.specs(0, 0, parts)?;
    SlotLayout::plan(&specs).unwrap();
    Ok(plan
        .columns()
        .iter()
        .zip(&specs)
        .map(|(column, spec)| {
            let elements = spec.dims.iter().product::<u64>() as usize;
            let mut data = vec![0xEE; spec.bytes as usize];
            let mut offsets = vec![-1; elements + 1];
            let text = column.dtype.size().is_none();
            column.write(parts, &mut data, text.then_some(&mut offsets[..]));
            (column.clone(), Packed { data, offsets })
        })
        .collect())
}

impl Packed {
    fn texts(&self) -> Vec<&[u8]> {
        self.offsets.windows(2).map(|w| &self.data[w[0] as usize..w[1] as usize]).collect()
    }
}

/// Cuts an array into parts at odd places, so that slices with offsets are packed.
fn parts(array: &ArrayRef, cut: usize) -> Vec<RecordBatch> {
    let cut = cut.min(array.len());
    vec![batch("x", array.slice(0, cut)), batch("x", array.slice(cut, array.len() - cut))]
}

fn numbers<T: ArrowPrimitiveType>(values: &[Option<T::Native>], cut: usize) -> bool
where
    PrimitiveArray<T>: From<Vec<Option<T::Native>>>,
{
    let array: ArrayRef = Arc::new(PrimitiveArray::<T>::from(values.to_vec()));
    let columns = pack(&parts(&array, cut), json!({"*": "mask"})).unwrap();
    let expected: Vec<u8> =
        values.iter().flat_map(|v| v.unwrap_or_default().to_byte_slice().to_vec()).collect();
    let valid: Vec<u8> = values.iter().map(|v| u8::from(v.is_some())).collect();
    columns[0].1.data == expected && columns[1].1.data == valid && columns[1].0.name == "x_valid"
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) }
}

fn optional<S: Strategy>(value: S) -> impl Strategy<Value = Vec<Option<S::Value>>>
where
    S::Value: Clone,
{
    prop::collection::vec(prop::option::weighted(0.8, value), 1..200)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn numbers_of_every_width_come_out_as_they_are(values in optional(any::<i64>()), cut in 0_usize..200) {
        macro_rules! check {
            ($($arrow:ty as $native:ty),*) => {$(
                let narrow: Vec<_> = values.iter().map(|v| v.map(|v| v as $native)).collect();
                prop_assert!(numbers::<$arrow>(&narrow, cut), stringify!($arrow));
            )*};
        }
        check!(
            Int8Type as i8, Int16Type as i16, Int32Type as i32, Int64Type as i64,
            UInt8Type as u8, UInt16Type as u16, UInt32Type as u32, UInt64Type as u64,
            Float32Type as f32, Float64Type as f64,
            Date32Type as i32, Date64Type as i64, Time32SecondType as i32, Time64NanosecondType as i64,
            TimestampMicrosecondType as i64, DurationSecondType as i64
        );
        let halves: Vec<_> = values
            .iter()
            .map(|v| v.map(|v| <Float16Type as ArrowPrimitiveType>::Native::from_f64(v as f64 / 1e18)))
            .collect();
        prop_assert!(numbers::<Float16Type>(&halves, cut));
    }

    #[test]
    fn bools_become_bytes(values in optional(any::<bool>()), cut in 0_usize..200, fill: bool) {
        let array: ArrayRef = Arc::new(BooleanArray::from(values.clone()));
        let columns = pack(&parts(&array, cut), json!({"x": fill})).unwrap();
        let expected: Vec<u8> = values.iter().map(|v| u8::from(v.unwrap_or(fill))).collect();
        prop_assert_eq!(&columns[0].1.data, &expected);
    }

    #[test]
    fn texts_of_every_layout_come_out_as_they_are(values in optional(".{0,20}"), cut in 0_usize..200) {
        let texts: Vec<Option<&str>> = values.iter().map(Option::as_deref).collect();
        let bytes: Vec<Option<&[u8]>> = texts.iter().map(|t| t.map(str::as_bytes)).collect();
        let expected: Vec<&[u8]> = bytes.iter().map(|b| b.unwrap_or(b"none")).collect();
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(texts.clone())),
            Arc::new(LargeStringArray::from(texts.clone())),
            Arc::new(StringViewArray::from(texts.clone())),
            Arc::new(BinaryArray::from(bytes.clone())),
            Arc::new(LargeBinaryArray::from(bytes.clone())),
            Arc::new(BinaryViewArray::from(bytes.clone())),
        ];
        for array in arrays {
            let columns = pack(&parts(&array, cut), json!({"x": "none"})).unwrap();
            prop_assert_eq!(columns[0].1.texts(), expected.clone());
        }
        // Without nulls whole stretches are copied: another way, the same result.
        let whole: Vec<&str> = texts.iter().map(|t| t.unwrap_or("none")).collect();
        for array in [Arc::new(StringArray::from(whole.clone())) as ArrayRef, Arc::new(LargeStringArray::from(whole))] {
            let columns = pack(&parts(&array, cut), json!({})).unwrap();
            prop_assert_eq!(columns[0].1.texts(), expected.clone());
        }
    }

    #[test]
    fn nested_lists_of_fixed_size_are_rows_of_a_shape(
        rows in prop::collection::vec(prop::option::weighted(0.8, prop::collection::vec(prop::option::weighted(0.9, any::<i16>()), 6)), 1..60),
        cut in 0_usize..60,
    ) {
        // Rows of shape [2, 3]; nulls at the row and at the number.
        let flat: Vec<Option<i16>> = rows.iter().flat_map(|row| row.clone().unwrap_or_else(|| vec![Some(77); 6])).collect();
        let inner = FixedSizeListArray::new(
            Arc::new(Field::new_list_field(DataType::Int16, true)), 3, Arc::new(Int16Array::from(flat)), None,
        );
        let outer = FixedSizeListArray::new(
            Arc::new(Field::new_list_field(inner.data_type().clone(), false)), 2, Arc::new(inner),
            Some(NullBuffer::from_iter(rows.iter().map(Option::is_some))),
        );
        let columns = pack(&parts(&(Arc::new(outer) as ArrayRef), cut), json!({"*": "mask"})).unwrap();
        let cells: Vec<Option<i16>> = rows.iter().flat_map(|row| row.clone().unwrap_or_else(|| vec![None; 6])).collect();
        let expected: Vec<u8> = cells.iter().flat_map(|c| c.unwrap_or(0).to_le_bytes()).collect();
        let valid: Vec<u8> = cells.iter().map(|c| u8::from(c.is_some())).collect();
        prop_assert_eq!(&columns[0].0.shape, &[2, 3]);
        prop_assert_eq!(&columns[1].0.shape, &[2, 3]);
        prop_assert_eq!(&columns[0].1.data, &expected);
        prop_assert_eq!(&columns[1].1.data, &valid);
    }

    #[test]
    fn fixed_binaries_are_rows_of_bytes(rows in optional(any::<[u8; 3]>()), cut in 0_usize..200) {
        let array = FixedSizeBinaryArray::try_from_sparse_iter_with_size(rows.iter().copied(), 3).unwrap();
        let columns = pack(&parts(&(Arc::new(array) as ArrayRef), cut), json!({"x": "mask"})).unwrap();
        let expected: Vec<u8> = rows.iter().flat_map(|r| r.unwrap_or_default()).collect();
        let valid: Vec<u8> = rows.iter().flat_map(|r| [u8::from(r.is_some()); 3]).collect();
        prop_assert_eq!((columns[0].0.dtype, columns[0].0.shape.as_slice()), (DType::UInt8, &[3_u64][..]));
        prop_assert_eq!(&columns[0].1.data, &expected);
        prop_assert_eq!(&columns[1].1.data, &valid);
    }
}

#[test]
fn lists_of_texts_and_bools_have_a_shape_too() {
    let list = |values: ArrayRef| -> ArrayRef {
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        Arc::new(FixedSizeListArray::new(field, 2, values, None))
    };
    let texts = list(Arc::new(StringArray::from(vec!["a", "", "ccc", "dd"])));
    let columns = pack(&parts(&texts, 1), json!({})).unwrap();
    assert_eq!(columns[0].0.shape, [2]);
    assert_eq!(columns[0].1.texts(), [&b"a"[..], b"", b"ccc", b"dd"]);
    let bools = list(Arc::new(BooleanArray::from(vec![true, false, false, true])));
    assert_eq!(pack(&parts(&bools, 1), json!({})).unwrap()[0].1.data, [1, 0, 0, 1]);
    let empty = list(Arc::new(Int32Array::from(Vec::<i32>::new())));
    assert!(pack(&parts(&empty, 0), json!({})).unwrap()[0].1.data.is_empty());
}

#[test]
fn lists_of_nothing_are_rows_all_the_same() {
    let field = Arc::new(Field::new_list_field(DataType::Int32, true));
    let nulls = Some(NullBuffer::from(vec![true, false, true]));
    let values = Arc::new(Int32Array::from(Vec::<i32>::new()));
    let array = FixedSizeListArray::try_new_with_length(field, 0, values, nulls, 3).unwrap();
    let columns = pack(&parts(&(Arc::new(array) as ArrayRef), 2), json!({})).unwrap();
    assert_eq!(columns[0].0.shape, [0]);
    assert!(columns[0].1.data.is_empty());
}

fn refusal(array: ArrayRef, nulls: Value) -> String {
    match pack(&[batch("x", array)], nulls) {
        Ok(_) => panic!("packed"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_null_without_a_word_about_it_names_column_step_and_choices() {
    let plan_of = |array: ArrayRef| {
        let part = batch("age", array);
        PackPlan::new(&part.schema(), &rules(json!({})), &UnitRules::default()).unwrap().specs(3, 41, &[part])
    };
    let error = plan_of(Arc::new(Int32Array::from(vec![Some(1), None]))).unwrap_err().to_string();
    for said in ["\"age\"", "epoch 3", "step 41", "mask", "VALUE"] {
        assert!(error.contains(said), "{error}");
    }
    assert!(plan_of(Arc::new(Int32Array::from(vec![Some(1)]))).is_ok());
}

#[test]
fn what_is_no_tensor_is_refused_with_a_way_out() {
    let check = |array: ArrayRef, said: &str| {
        let refusal = refusal(array, json!({}));
        assert!(
            refusal.contains("\"x\"") && refusal.contains(said) && refusal.contains("columns="),
            "{refusal}"
        );
    };
    let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)])]));
    let field = Arc::new(Field::new_list_field(list.data_type().clone(), true));
    check(Arc::new(FixedSizeListArray::new(field, 1, list, None)), "around those of one fixed size");
    check(Arc::new(Decimal128Array::from(vec![1])), r#""0.0000000001" for int64 in that unit or "float64""#);
    check(Arc::new(IntervalYearMonthArray::from(vec![1])), "int64 or float64");
    check(Arc::new(NullArray::new(1)), "a type that holds values");
    let mut deep: ArrayRef = Arc::new(Int8Array::from(vec![1]));
    for _ in 0..8 {
        let field = Arc::new(Field::new_list_field(deep.data_type().clone(), true));
        deep = Arc::new(FixedSizeListArray::new(field, 1, deep, None));
    }
    check(deep, "9 dimensions");
}

#[test]
fn rules_that_fit_no_column_are_refused() {
    let ints = || Arc::new(Int32Array::from(vec![1])) as ArrayRef;
    assert!(refusal(ints(), json!({"y": 0})).contains("it has \"x\""));
    assert!(refusal(ints(), json!({"x": 0.5})).contains("no int32"));
    let schema = Schema::new(vec![
        Field::new("x", DataType::Int8, true),
        Field::new("x_valid", DataType::Boolean, true),
    ]);
    let error = PackPlan::new(&schema, &rules(json!({"x": "mask"})), &UnitRules::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the mask of column \"x\" would be called \"x_valid\", and so is another column of the feed: fill the nulls of \"x\" with a value, \
         nulls={\"x\": VALUE}, leave \"x_valid\" out with columns=[…], or rename one with select={…}"
    );
}

#[test]
fn a_star_reaches_what_may_hold_nulls_and_fits() {
    let schema = Schema::new(vec![
        Field::new("a", DataType::Int8, true),
        Field::new("b", DataType::Int8, false),
        Field::new("c", DataType::Utf8, true),
    ]);
    let names = |nulls| {
        let plan = PackPlan::new(&schema, &rules(nulls), &UnitRules::default()).unwrap();
        plan.columns().iter().map(|c| c.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(json!({"*": "mask"})), ["a", "a_valid", "b", "c", "c_valid"]);
    assert_eq!(names(json!({"*": "mask", "a": 7})), ["a", "b", "c", "c_valid"]);
    assert_eq!(names(json!({"*": 0, "b": "mask"})), ["a", "b", "b_valid", "c"]);
}
