//! Rows of the types that clients of other languages read, and what each of them must write.

use std::fmt::Display;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, FixedSizeListArray, Float32Array, Float64Array, Int8Array, Int64Array, ListArray,
    RecordBatch, StringArray, TimestampMicrosecondArray, UInt32Array,
};
use arrow::datatypes::{Float32Type, Int16Type};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

pub(crate) const ROWS: usize = 1_000;
/// Not a divisor of a batch, so that batches are put together from several.
const ROW_GROUP: usize = 64;

/// The values of one row; every column but the id's has nulls, each at rows of its own.
struct Row {
    id: i64,
    small: Option<i8>,
    large: Option<u32>,
    half: Option<f32>,
    third: Option<f64>,
    flag: Option<bool>,
    text: Option<String>,
    time: Option<i64>,
    pair: Option<[Option<f32>; 2]>,
    ragged: Option<Vec<Option<i16>>>,
}

impl Row {
    fn new(index: usize) -> Self {
        let id = index as i64;
        let low = (id % 128) as i8;
        Self {
            id,
            small: (id % 3 != 0).then_some(-low),
            large: (id % 5 != 0).then_some(u32::MAX - index as u32),
            half: (id % 7 != 0).then_some(if id % 11 == 0 { f32::NAN } else { -(index as f32) / 2.0 }),
            third: (id % 4 != 0).then_some(index as f64 / 3.0),
            flag: (id % 6 != 0).then_some(id % 2 == 0),
            text: (id % 9 != 0).then(|| "größer ".repeat(index % 5)),
            time: (id % 8 != 0).then_some((id - 500) * 86_400_000_001),
            pair: (id % 10 != 0).then_some([Some(index as f32), None]),
            ragged: (id % 12 != 0).then(|| (0..id % 4).map(|i| (i != 2).then_some(i as i16 - 1)).collect()),
        }
    }
}

/// What a client writes of one row.
pub(crate) fn row(index: usize) -> String {
    let row = Row::new(index);
    let bits = |value: f32| format!("{:08x}", value.to_bits());
    [
        row.id.to_string(),
        or_null(row.small),
        or_null(row.large),
        or_null(row.half.map(bits)),
        or_null(row.third.map(|value| format!("{:016x}", value.to_bits()))),
        or_null(row.flag),
        or_null(row.text),
        or_null(row.time),
        or_null(row.pair.map(|items| list(items.map(|item| item.map(bits))))),
        or_null(row.ragged.map(list)),
    ]
    .join("|")
}

fn or_null(value: Option<impl Display>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| value.to_string())
}

fn list(items: impl IntoIterator<Item = Option<impl Display>>) -> String {
    let items: Vec<String> = items.into_iter().map(or_null).collect();
    format!("[{}]", items.join(" "))
}

/// Writes all rows as one file.
pub(crate) fn write(path: &Path) {
    let batch = batch();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(ROW_GROUP)).build();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn batch() -> RecordBatch {
    let rows: Vec<Row> = (0..ROWS).map(Row::new).collect();
    let rows = || rows.iter();
    let time: TimestampMicrosecondArray = rows().map(|row| row.time).collect();
    let columns: [(&str, ArrayRef); 10] = [
        ("id", Arc::new(rows().map(|row| Some(row.id)).collect::<Int64Array>())),
        ("small", Arc::new(rows().map(|row| row.small).collect::<Int8Array>())),
        ("large", Arc::new(rows().map(|row| row.large).collect::<UInt32Array>())),
        ("half", Arc::new(rows().map(|row| row.half).collect::<Float32Array>())),
        ("third", Arc::new(rows().map(|row| row.third).collect::<Float64Array>())),
        ("flag", Arc::new(rows().map(|row| row.flag).collect::<BooleanArray>())),
        ("text", Arc::new(rows().map(|row| row.text.as_deref()).collect::<StringArray>())),
        ("time", Arc::new(time.with_timezone("UTC"))),
        ("pair", pairs(rows().map(|row| row.pair))),
        (
            "ragged",
            Arc::new(ListArray::from_iter_primitive::<Int16Type, _, _>(rows().map(|row| row.ragged.clone()))),
        ),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn pairs(rows: impl Iterator<Item = Option<[Option<f32>; 2]>>) -> ArrayRef {
    Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, 2))
}
