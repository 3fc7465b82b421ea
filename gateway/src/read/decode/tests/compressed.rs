//! Pages of any codec, columns of every kind: what parquet's own reader makes of them.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{BinaryArray, BooleanArray, Float32Array, Int64Array, StringArray};
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::page::Page;
use parquet::file::properties::WriterVersion;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::super::decompress::Decompressed;
use super::*;

/// Numbers with and without nulls, flags, texts that repeat and bytes that do not.
fn columns(rows: usize) -> Vec<(&'static str, ArrayRef, bool)> {
    let numbers = (0..rows).map(|row| (row % 7 != 3).then_some((row * row % 1009) as f32));
    let texts = (0..rows).map(|row| (row % 11 != 5).then(|| format!("text {}", row % 13)));
    let bytes = (0..rows).map(|row| (0..row * 37 % 90).map(|at| (at * row % 251) as u8).collect::<Vec<u8>>());
    vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..rows as i64)), false),
        ("number", Arc::new(numbers.collect::<Float32Array>()), true),
        ("flag", Arc::new((0..rows).map(|row| Some(row % 3 == 0)).collect::<BooleanArray>()), false),
        ("text", Arc::new(texts.collect::<StringArray>()), true),
        ("bytes", Arc::new(BinaryArray::from_iter_values(bytes)), false),
    ]
}

fn written(version: WriterVersion, codec: Compression, page_bytes: usize, rows: usize) -> Bytes {
    let properties = WriterProperties::builder()
        .set_writer_version(version)
        .set_compression(codec)
        .set_data_page_size_limit(page_bytes)
        .set_write_batch_size(10);
    file(columns(rows), properties.build())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, rng_seed: RngSeed::Fixed(5), ..ProptestConfig::default() })]

    #[test]
    fn columns_of_every_kind_are_as_parquets_own_reader_gives_them(
        version in prop::sample::select(vec![WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0]),
        codec in prop::sample::select(vec![
            Compression::UNCOMPRESSED,
            Compression::SNAPPY,
            Compression::ZSTD(ZstdLevel::default()),
            Compression::LZ4_RAW,
        ]),
        page_bytes in 100..3_000usize,
        (skipped, taken) in (0..400usize, 1..400usize),
        batch_rows in 1..200usize,
        has_index in any::<bool>(),
    ) {
        let file = written(version, codec, page_bytes, 800);
        let footer = footer(&file, has_index);
        let wanted = all(&footer, 0);
        check(&wanted, batch_rows, &file);
        let rows = Some(selection(&[(false, skipped), (true, taken)]));
        check(&Wanted { rows, ..wanted }, batch_rows, &file);
    }
}

/// Where the pages of a column lay whose values are all of one size, if each is held for as long as `hold` says.
fn addresses(hold: impl Fn(&mut Vec<Bytes>)) -> (HashSet<usize>, Vec<Bytes>) {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(false)
        .set_data_page_row_count_limit(100)
        .set_write_batch_size(100);
    let file = file(columns(800).drain(..1).collect(), properties.build());
    let footer = footer(&file, false);
    let column = footer.metadata().row_group(0).column(0);
    let mut pages = Decompressed::new(file, column, 800, None).unwrap();
    let (mut held, mut addresses) = (Vec::new(), HashSet::new());
    while let Some(Page::DataPage { buf, .. }) = pages.next().unwrap() {
        addresses.insert(buf.as_ptr() as usize);
        held.push(buf);
        hold(&mut held);
    }
    (addresses, held)
}

#[test]
fn a_page_takes_the_place_of_one_that_nobody_holds() {
    let (addresses_of_none, _) = addresses(Vec::clear);
    assert_eq!(addresses_of_none.len(), 1);
    let (addresses_of_all, held) = addresses(|_| {});
    assert_eq!((addresses_of_all.len(), held.len()), (8, 8));
    let expected: Vec<u8> = (0..800i64).flat_map(i64::to_le_bytes).collect();
    assert!(held.concat() == expected, "a page was written over while it was held");
}

#[test]
fn a_page_longer_than_its_column_is_refused() {
    let file = written(WriterVersion::PARQUET_1_0, Compression::SNAPPY, 3_000, 800);
    let footer = footer(&file, false);
    let column = footer.metadata().row_group(0).column(0).clone();
    let column = column.into_builder().set_total_uncompressed_size(10).build().unwrap();
    let mut pages = Decompressed::new(file, &column, 800, None).unwrap();
    assert!(pages.next().is_err_and(|error| error.to_string().contains("longer than its column")));
}
