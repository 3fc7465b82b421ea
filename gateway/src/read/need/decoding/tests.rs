//! What is told of chunks beside what they are.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, Int64Array, ListArray, StringArray};
use arrow::datatypes::UInt8Type;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::ZstdLevel;
use parquet::column::page::Page;
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::file::reader::FileReader as _;
use parquet::file::serialized_reader::SerializedFileReader;

use super::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn writer() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()))
}

/// As Arrow in C++ writes, which looks at pages and dictionaries after every 1,024 values.
fn late() -> WriterPropertiesBuilder {
    let most = 1 << 30;
    writer()
        .set_dictionary_page_size_limit(most)
        .set_data_page_size_limit(most)
        .set_max_row_group_row_count(Some(1024))
}

/// Bytes that nothing is made of, the same for the same seed.
fn noise(mut seed: u64, length: usize) -> Vec<u8> {
    let mut next = || {
        seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (seed ^ seed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB) >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// So many rows of noise, each of some different ones.
fn rows(count: u64, length: usize, different: u64) -> ArrayRef {
    let rows = (0..count).map(|row| noise((row % different) << 32, length));
    Arc::new(BinaryArray::from_iter_values(rows))
}

struct File {
    bytes: Bytes,
    footer: ArrowReaderMetadata,
}

impl File {
    fn new(values: ArrayRef, properties: WriterPropertiesBuilder) -> Self {
        let batch = RecordBatch::try_from_iter([("x", values)]).unwrap();
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let bytes = Bytes::from(bytes);
        let footer = ArrowReaderMetadata::load(&bytes, ArrowReaderOptions::new()).unwrap();
        Self { bytes, footer }
    }

    fn with_locations(self) -> Self {
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
        let footer = ArrowReaderMetadata::load(&self.bytes, options).unwrap();
        Self { footer, ..self }
    }

    fn chunk(&self) -> Chunk<'_> {
        Chunk::new(self.footer.metadata(), 0, 0)
    }

    /// Bytes of the dictionary and of the largest page, as they are.
    fn real(&self) -> (u64, u64) {
        let reader = SerializedFileReader::new(self.bytes.clone()).unwrap();
        let pages = reader.get_row_group(0).unwrap().get_column_page_reader(0).unwrap();
        pages.fold((0, 0), |(dictionary, largest), page| match page.unwrap() {
            Page::DictionaryPage { buf, .. } => (buf.len() as u64, largest),
            page => (dictionary, largest.max(page.buffer().len() as u64)),
        })
    }

    /// What its decoder keeps is no more than is told, and that is at most `most`.
    fn check(&self, most: u64) {
        let ((dictionary, page), chunk) = (self.real(), self.chunk());
        let (kept, opening) = (chunk.kept(), chunk.opening());
        let is_compressed = chunk.is_compressed();
        let held = dictionary + if is_compressed { page } else { 0 };
        let told = format!("a dictionary of {dictionary} and a page of {page}; told {kept} and {opening}");
        assert!(held <= kept && kept <= most, "{told}, {most} at most");
        assert!(!is_compressed || dictionary <= opening, "{told}");
    }
}

#[test]
fn a_dictionary_of_large_rows_is_all_of_them() {
    let file = File::new(rows(1000, 8 << 10, 1000), late());
    assert!(file.real().0 >= 8000 * KIB, "{:?}", file.real());
    file.check(8 * MIB);
}

#[test]
fn a_page_of_large_rows_is_a_thousand_of_them() {
    let file = File::new(rows(1000, 8 << 10, 1000), late().set_dictionary_enabled(false));
    assert!(file.real().1 >= 8000 * KIB, "{:?}", file.real());
    file.check(8 * MIB);
}

#[test]
fn pages_are_as_large_as_the_offset_index_says() {
    let properties = writer().set_dictionary_enabled(false).set_write_batch_size(16);
    let file = File::new(rows(1000, 8 << 10, 1000), properties);
    file.check(8 * MIB);
    assert!(file.chunk().kept() > 7 * MIB, "who does not know takes the worst for true");
    file.with_locations().check(2 * MIB);
}

#[test]
fn a_dictionary_that_was_given_up_is_as_large_as_it_may_be() {
    let texts = (0..200_000).map(|row| format!("the text of row {row:08} of many"));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let properties = || writer().set_dictionary_page_size_limit(1 << 20).set_max_row_group_row_count(None);
    let file = File::new(Arc::clone(&texts), properties());
    assert!(file.real().0 >= MIB, "{:?}", file.real());
    file.check(5 * MIB / 2);
    file.with_locations().check(5 * MIB / 2);
    File::new(texts, properties().set_compression(Compression::SNAPPY)).check(5 * MIB / 2);
}

#[test]
fn few_different_rows_are_a_small_dictionary() {
    let file = File::new(rows(10_000, 8 << 10, 10), late().set_max_row_group_row_count(None));
    assert!(file.real().0 < 81 * KIB, "{:?}", file.real());
    file.check(100 * KIB);
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..500_000).map(|row| row * row % 1013)));
    File::new(numbers, writer().set_max_row_group_row_count(None)).check(5 * MIB / 4);
}

#[test]
fn pages_that_are_not_compressed_lie_in_what_was_fetched() {
    let plain = || late().set_compression(Compression::UNCOMPRESSED);
    let file = File::new(rows(1000, 8 << 10, 1000), plain());
    file.check(8 * MIB);
    assert!(file.chunk().kept() >= 8000 * KIB && file.chunk().opening() == 0);
    let file = File::new(rows(1000, 8 << 10, 1000), plain().set_dictionary_enabled(false));
    assert_eq!(file.chunk().kept(), 0);
}

#[test]
fn a_writer_of_large_pages_is_known() {
    let texts = (0..100_000).map(|row| format!("{:x?}", noise(row << 32, 16)));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let properties = late().set_dictionary_enabled(false).set_max_row_group_row_count(None);
    let properties = properties
        .set_data_page_row_count_limit(usize::MAX)
        .set_created_by("DuckDB version v1.4.0".to_owned());
    let file = File::new(texts, properties);
    assert!(file.real().1 > 4 * MIB, "{:?}", file.real());
    file.check(file.real().1 * 2);
}

#[test]
fn a_page_of_lists_holds_whole_rows() {
    let list = |row: u64| Some(noise(row << 32, 3 << 20).into_iter().map(Some).collect::<Vec<_>>());
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<UInt8Type, _, _>((0..3).map(list)));
    for properties in [writer(), writer().set_dictionary_enabled(false)] {
        let file = File::new(Arc::clone(&lists), properties.set_write_batch_size(1024));
        file.check(18 * MIB);
        file.with_locations().check(18 * MIB);
    }
}

#[test]
fn some_rows_are_fetched_with_their_pages_where_these_are_known() {
    let properties = writer().set_dictionary_enabled(false).set_write_batch_size(16);
    let file = File::new(rows(1000, 8 << 10, 1000), properties);
    let all = file.chunk().compressed();
    assert_eq!((file.chunk().stored(&(0..1000)), file.chunk().stored(&(10..20))), (all, all));
    let file = file.with_locations();
    assert_eq!(file.chunk().stored(&(0..1000)), all);
    let (few, half) = (file.chunk().stored(&(10..20)), file.chunk().stored(&(0..500)));
    assert!((80 * KIB..2 * MIB).contains(&few), "{few}");
    assert!((4000 * KIB..6 * MIB).contains(&half), "{half} of {all}");
}
