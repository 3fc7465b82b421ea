//! Lists as other writers lay them out: pages made by hand.

use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataBuilder, RowGroupMetaData,
};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::SchemaDescriptor;

use super::*;

/// One data page of the first version.
pub(super) struct Page {
    repetition: Bytes,
    definition: Bytes,
    values: Bytes,
    encoding: Encoding,
    levels: u32,
}

/// A run of one level.
fn run(level: u8, count: u32) -> Vec<u8> {
    [number(count << 1), vec![level]].concat()
}

/// In groups of seven bits.
fn number(mut number: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

impl Page {
    /// Of INT32 values as they are; a level is one of a list's first value if it is 0.
    pub(super) fn plain(repetition: &[u8], definition: &[u8], values: &[i32]) -> Self {
        let runs = |levels: &[u8]| levels.iter().flat_map(|&level| run(level, 1)).collect::<Bytes>();
        Self {
            repetition: runs(repetition),
            definition: runs(definition),
            values: values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            encoding: Encoding::PLAIN,
            levels: repetition.len() as u32,
        }
    }

    /// A page that says it had as many levels.
    pub(super) fn saying(self, levels: u32) -> Self {
        Self { levels, ..self }
    }

    /// The page with its header, which is Thrift's compact protocol.
    fn bytes(&self) -> Vec<u8> {
        let body: Vec<u8> = [&self.repetition, &self.definition]
            .into_iter()
            .flat_map(|levels| [&(levels.len() as u32).to_le_bytes()[..], &levels[..]].concat())
            .chain(self.values.iter().copied())
            .collect();
        let field = |value: u32| [vec![0x15], number(value << 1)].concat();
        let size = field(body.len() as u32);
        // Their numbers in the format.
        let encoding = if self.encoding == Encoding::PLAIN { 0 } else { 5 };
        let (runs, end) = (field(3), vec![0]);
        let inner = [field(self.levels), field(encoding), runs.clone(), runs, end.clone()].concat();
        [field(0), size.clone(), size, vec![0x2c], inner, end, body].concat()
    }
}

/// A file of one column, without its footer; the footer as it would be read.
pub(super) fn by_hand(schema: &str, rows: i64, pages: &[Page]) -> (Bytes, ArrowReaderMetadata) {
    let schema = Arc::new(SchemaDescriptor::new(Arc::new(parse_message_type(schema).unwrap())));
    let file: Bytes = b"PAR1".iter().copied().chain(pages.iter().flat_map(Page::bytes)).collect();
    let chunk = ColumnChunkMetaData::builder(schema.column(0))
        .set_compression(Compression::UNCOMPRESSED)
        .set_num_values(pages.iter().map(|page| i64::from(page.levels)).sum())
        .set_data_page_offset(4)
        .set_total_compressed_size(file.len() as i64 - 4)
        .build()
        .unwrap();
    let group = RowGroupMetaData::builder(Arc::clone(&schema))
        .set_num_rows(rows)
        .set_column_metadata(vec![chunk])
        .build()
        .unwrap();
    let whole = FileMetaData::new(1, rows, None, None, schema, None);
    let metadata: ParquetMetaData = ParquetMetaDataBuilder::new(whole).add_row_group(group).build();
    (file, ArrowReaderMetadata::try_new(Arc::new(metadata), ArrowReaderOptions::new()).unwrap())
}

const THREE_LEVELS: &str = "message m { optional group x (LIST) { repeated group list { optional int32 element (INTEGER(8, false)); } } }";
const TWO_LEVELS: &str = "message m { required group x (LIST) { repeated int32 array; } }";
const ONE_LEVEL: &str = "message m { repeated int32 x; }";

/// Every batch size, with everything, and with some rows wanted.
fn check_all(schema: &str, rows: usize, pages: &[Page]) {
    let (file, footer) = by_hand(schema, rows as i64, pages);
    let some: [&[(bool, usize)]; 4] = [
        &[(true, rows)],
        &[(false, 1), (true, rows - 1)],
        &[(false, 2), (true, 1)],
        &[(true, 1), (false, 1), (true, 1)],
    ];
    for batch_rows in 1..=rows + 1 {
        let mut wanted = all(&footer, 0);
        assert!(check(&wanted, batch_rows, &file), "{schema}");
        for runs in some {
            wanted.rows = Some(selection(runs));
            assert!(check(&wanted, batch_rows, &file), "{schema} {runs:?}");
        }
    }
}

#[test]
fn a_list_may_lie_on_many_pages() {
    let pages = [
        Page::plain(&[0, 1, 1, 0, 1], &[3; 5], &[1, 2, 3, 4, 5]),
        Page::plain(&[1, 1], &[3; 2], &[6, 7]),
        Page::plain(&[], &[], &[]),
        Page::plain(&[1, 0, 0, 1], &[3, 1, 3, 3], &[8, 9, 10]),
        Page::plain(&[0], &[1], &[]),
    ];
    check_all(THREE_LEVELS, 5, &pages);
}

#[test]
fn lists_need_not_be_spelled_in_three_levels() {
    for schema in [TWO_LEVELS, ONE_LEVEL] {
        let pages = [
            Page::plain(&[0, 1, 0, 0], &[1, 1, 0, 1], &[1, -2, i32::MIN]),
            Page::plain(&[1, 1, 0], &[1; 3], &[4, 5, 6]),
        ];
        check_all(schema, 4, &pages);
    }
}

#[test]
fn small_numbers_may_lie_in_wide_ones() {
    // Sign-extended, and worse.
    let pages = [Page::plain(&[0, 1, 0, 0], &[3; 4], &[-1, 255, 256, i32::MAX])];
    check_all(THREE_LEVELS, 3, &pages);
}

#[test]
fn a_page_that_claims_billions_of_values_costs_only_what_is_taken() {
    let count = i32::MAX as u32;
    let page = Page {
        repetition: run(0, count).into(),
        definition: run(1, count).into(),
        // Differences of 0 in blocks of 128.
        values: Bytes::from([vec![0x80, 1, 4], number(count), [vec![14], vec![0; 50]].concat()].concat()),
        encoding: Encoding::DELTA_BINARY_PACKED,
        levels: count,
    };
    let (file, footer) = by_hand(TWO_LEVELS, i64::from(count), &[page]);
    let mut decoder = Decoder::new(all(&footer, 0), 10).unwrap();
    let Next::Needs(ranges) = decoder.next().unwrap() else { panic!("it has no bytes yet") };
    decoder.push(ranges, vec![file.slice(4..)]).unwrap();
    for _ in 0..3 {
        let Next::Rows(batch) = decoder.next().unwrap() else { panic!("there are rows") };
        assert_eq!(batch.num_rows(), 10);
    }
    assert!(matches!(decoder.way, Way::Split(_)));
}

#[test]
fn levels_that_end_early_are_an_error_whatever_is_skipped() {
    let whole = Page::plain(&[0, 1, 0, 1, 0], &[1; 5], &[1, 2, 3, 4, 5]);
    let cut = Page::plain(&[0, 1, 0], &[1; 3], &[6, 7, 8]).saying(9);
    let (file, footer) = by_hand(TWO_LEVELS, 9, &[whole, cut]);
    for skipped in 0..9 {
        let mut wanted = all(&footer, 0);
        wanted.rows = Some(selection(&[(false, skipped), (true, 9 - skipped)]));
        let error = drive(Decoder::new(wanted, 2).unwrap(), &file).err().unwrap();
        assert!(error.to_string().contains("levels of a page end"), "{error}");
    }
}
