//! Chunks of every kind, there and back.

use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, BinaryViewArray, BooleanArray, Decimal128Array, FixedSizeListArray, Float32Array,
    Int64Array, Int64Builder, LargeStringArray, ListBuilder, MapBuilder, NullArray, RecordBatchOptions,
    StringArray, StringBuilder, StringViewArray, StructArray, UInt8Array,
};
use arrow::datatypes::{DataType, Field, Fields, Schema};

use super::*;
use crate::read::cache::Content;

const GRID: Grid = Grid { rows: 1_000, chunk_rows: 100 };
const QUEUE: u64 = 64 << 20;

fn key(block: u32) -> Key {
    Key { content: Content::of("d"), block, class: 6 }
}

/// A column of every kind that a gateway decodes, with nulls and without.
fn columns(rows: usize) -> Vec<(&'static str, ArrayRef)> {
    let numbers = || (0..rows as i64).map(|row| row * 7_919 % 1_009);
    let texts = || numbers().map(|number| "text ".repeat(number as usize % 9));
    let some_texts = || texts().map(|text| (text.len() % 3 > 0).then_some(text));
    let mut lists = ListBuilder::new(Int64Builder::new());
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for number in numbers() {
        (0..number % 5).for_each(|item| lists.values().append_option((item != 3).then_some(item)));
        lists.append(number % 11 > 0);
        for entry in 0..number % 3 {
            maps.keys().append_value(format!("k{entry}"));
            maps.values().append_value(number);
        }
        maps.append(true).unwrap();
    }
    let pixels = UInt8Array::from_iter_values(numbers().flat_map(|number| [number as u8; 3]));
    let pixel = Arc::new(Field::new("item", DataType::UInt8, false));
    let inner: Fields =
        vec![Field::new("t", DataType::Utf8, true), Field::new("b", DataType::Boolean, true)].into();
    let bits = || numbers().map(|number| (number % 7 > 0).then_some(number % 2 == 0));
    let nested: Vec<ArrayRef> =
        vec![Arc::new(some_texts().collect::<StringArray>()), Arc::new(bits().collect::<BooleanArray>())];
    vec![
        ("id", Arc::new(Int64Array::from_iter_values(numbers()))),
        (
            "float",
            Arc::new(
                numbers().map(|number| (number > 99).then_some(number as f32)).collect::<Float32Array>(),
            ),
        ),
        ("bool", Arc::new(numbers().map(|number| Some(number % 3 == 0)).collect::<BooleanArray>())),
        ("bits", Arc::new(bits().collect::<BooleanArray>())),
        ("text", Arc::new(some_texts().collect::<StringArray>())),
        ("large", Arc::new(LargeStringArray::from_iter_values(texts()))),
        ("view", Arc::new(some_texts().collect::<StringViewArray>())),
        ("bytes", Arc::new(BinaryViewArray::from_iter_values(texts().map(String::into_bytes)))),
        ("decimal", Arc::new(Decimal128Array::from_iter_values(numbers().map(i128::from)))),
        ("lists", Arc::new(lists.finish())),
        ("maps", Arc::new(maps.finish())),
        ("pixels", Arc::new(FixedSizeListArray::new(pixel, 3, Arc::new(pixels), None))),
        ("nested", Arc::new(StructArray::new(inner, nested, None))),
        ("nothing", Arc::new(NullArray::new(rows))),
    ]
}

fn batch(rows: usize) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns(rows).into_iter().map(|(name, column)| (name, column, true)),
    )
    .unwrap()
}

fn ids(rows: usize) -> RecordBatch {
    batch(rows).project(&[0]).unwrap()
}

fn chunk(block: u32, index: u64, content: RecordBatch) -> Named<RecordBatch> {
    Named { key: key(block), grid: GRID, index, content }
}

async fn back(disk: &Disk, block: u32, index: u64, schema: &SchemaRef) -> Option<RecordBatch> {
    disk.read(key(block), GRID, index, schema).await
}

#[tokio::test]
async fn every_kind_of_column_comes_back_as_it_was_and_in_one_place() {
    let disk = Disk::of(1 << 30, QUEUE);
    let rows = batch(1_000);
    let empty = RecordBatch::try_new_with_options(
        Arc::new(Schema::empty()),
        vec![],
        &RecordBatchOptions::new().with_row_count(Some(70)),
    );
    // Whole, slices that begin within a byte of bits, one row, no columns.
    let wanted =
        [rows.clone(), rows.slice(100, 100), rows.slice(333, 77), rows.slice(999, 1), empty.unwrap()];
    for (batch, index) in wanted.iter().zip(0..) {
        disk.offer(chunk(0, index, batch.clone()));
    }
    disk.settled().await;
    for (batch, index) in wanted.iter().zip(0..) {
        let found = back(&disk, 0, index, batch.schema_ref()).await.unwrap();
        assert_eq!(&found, batch);
        found.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
        let buffers: Vec<_> =
            found.columns().iter().flat_map(|column| column.to_data().buffers().to_vec()).collect();
        let places: std::collections::BTreeSet<_> =
            buffers.iter().filter(|buffer| !buffer.is_empty()).map(|buffer| buffer.data_ptr()).collect();
        assert!(places.len() <= 1, "a column was copied");
        assert!(
            held_bytes(&found) <= held_bytes(batch) + 100 * 64,
            "a slice brought along what it is a slice of"
        );
    }
    assert!(back(&disk, 0, 9, rows.schema_ref()).await.is_none());
    assert!(back(&disk, 1, 0, rows.schema_ref()).await.is_none());
    let other = Grid { rows: 1_000, chunk_rows: 90 };
    assert!(disk.read(key(0), other, 0, rows.schema_ref()).await.is_none(), "it is cut in another way");
}

#[tokio::test]
async fn a_pass_larger_than_the_disk_drives_out_nothing_that_is_used() {
    // Ten blocks of ten chunks.
    let disk = Disk::of(100 << 12, QUEUE);
    let (rows, schema) = (ids(100), ids(1).schema());
    let read = async |blocks: std::ops::Range<u32>| {
        let mut found = 0;
        for block in blocks {
            disk.want(key(block));
            for index in 0..GRID.chunks() {
                match back(&disk, block, index, &schema).await {
                    Some(batch) => found += usize::from(batch == rows),
                    None => disk.offer(chunk(block, index, rows.clone())),
                }
            }
            disk.settled().await;
        }
        found
    };
    assert_eq!(read(0..10).await, 0);
    for _ in 0..3 {
        assert_eq!(read(0..10).await, 100);
    }
    assert_eq!(read(1_000..1_200).await, 0);
    assert_eq!(read(0..10).await, 100);
}

#[tokio::test]
async fn names_are_bounded_too() {
    let directory = tempfile::tempdir().unwrap();
    let (memory_bytes, bytes) = (16 << 20, 1 << 30);
    let config = DiskConfig { directory: directory.path().join("made"), bytes };
    let disk = Disk::open(&config, memory_bytes).unwrap();
    assert_eq!(disk.memory_bytes(), memory_bytes / 8);
    let most = (1 << 20) / NAME_BYTES;
    assert!((most / 2..=most).contains(&disk.shelf.most_chunks(bytes)));
    assert_eq!(directory.path().join("made").read_dir().unwrap().count(), 0, "nothing is seen of it");
    // A file is no directory.
    std::fs::write(directory.path().join("file"), "").unwrap();
    let config = DiskConfig { directory: directory.path().join("file"), bytes };
    assert!(Disk::open(&config, memory_bytes).is_err());
}
