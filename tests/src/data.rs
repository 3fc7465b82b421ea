//! Data sets on disk. Every row has an `id`, its index in the whole set, so that exactly-once is an
//! equality of sets and an order is a list of numbers.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeBinaryBuilder, Float32Array, Int64Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

/// A data set to be written: `files` files of `rows_per_file` rows in row groups of `row_group` rows.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub files: usize,
    pub rows_per_file: usize,
    pub row_group: usize,
    /// Bytes of the `payload` column a row; incompressible. None without the column.
    pub payload: Option<usize>,
}

impl Shape {
    pub fn rows(&self) -> usize {
        self.files * self.rows_per_file
    }
}

/// Writes `part-00000.parquet` … with columns `id: int64`, `x: float32` (half the id), and `payload`.
pub fn write(dir: &Path, shape: Shape) {
    std::fs::create_dir_all(dir).unwrap();
    for file in 0..shape.files {
        let first = file * shape.rows_per_file;
        let path = dir.join(format!("part-{file:05}.parquet"));
        write_file(&path, first, shape);
    }
}

fn write_file(path: &Path, first: usize, shape: Shape) {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(shape.row_group))
        .set_compression(Compression::UNCOMPRESSED)
        .set_dictionary_enabled(false)
        .build();
    let mut writer = None;
    for start in (0..shape.rows_per_file).step_by(shape.row_group) {
        let rows = shape.row_group.min(shape.rows_per_file - start);
        let batch = rows_from(first + start, rows, shape.payload);
        let writer = writer.get_or_insert_with(|| {
            ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties.clone()))
                .unwrap()
        });
        writer.write(&batch).unwrap();
    }
    if let Some(writer) = writer {
        writer.close().unwrap();
    }
}

/// Rows `first..first + rows` of the set.
pub fn rows_from(first: usize, rows: usize, payload: Option<usize>) -> RecordBatch {
    let ids: Vec<i64> = (first..first + rows).map(|id| id as i64).collect();
    let halves: Vec<f32> = ids.iter().map(|&id| id as f32 / 2.0).collect();
    let mut columns: Vec<(&str, ArrayRef)> =
        vec![("id", Arc::new(Int64Array::from(ids.clone()))), ("x", Arc::new(Float32Array::from(halves)))];
    if let Some(bytes) = payload {
        let mut builder = FixedSizeBinaryBuilder::with_capacity(rows, i32::try_from(bytes).unwrap());
        for &id in &ids {
            builder.append_value(noise(id.cast_unsigned(), bytes)).unwrap();
        }
        columns.push(("payload", Arc::new(builder.finish())));
    }
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Bytes that no codec shrinks: SplitMix64 (Steele, Lea, Flood 2014) from the row's id.
fn noise(id: u64, bytes: usize) -> Vec<u8> {
    let mut state = id;
    let words = std::iter::repeat_with(|| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    });
    words.flat_map(u64::to_le_bytes).take(bytes).collect()
}
