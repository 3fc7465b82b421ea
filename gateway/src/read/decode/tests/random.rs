//! Files of any lengths, types, encodings, codecs and page sizes.

use std::sync::Arc;

use arrow::array::{
    Array, FixedSizeListArray, Int32Array, LargeListArray, ListArray, StringArray, UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{EnabledStatistics, WriterVersion};
use parquet::schema::types::ColumnPath;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

const TYPES: [DataType; 10] = [
    DataType::UInt8,
    DataType::Int8,
    DataType::UInt16,
    DataType::Int16,
    DataType::UInt32,
    DataType::Int32,
    DataType::UInt64,
    DataType::Int64,
    DataType::Float32,
    DataType::Float64,
];

/// How long lists are.
#[derive(Debug, Clone)]
enum Lengths {
    Fixed(usize),
    Ragged(Vec<usize>),
}

#[derive(Debug, Clone)]
struct Case {
    rows: usize,
    item: DataType,
    lengths: Lengths,
    is_large: bool,
    /// Different numbers in it.
    distinct: u64,
    /// Whether anything in it is null: every how manieth value, every how manieth list.
    nulls: Option<(usize, usize)>,
    is_nullable: (bool, bool),
    encoding: Option<Encoding>,
    properties: (bool, usize, usize, usize, Compression, bool),
    selection: Option<Vec<(bool, usize)>>,
    batch_rows: usize,
    has_index: bool,
    has_others: bool,
}

fn case() -> impl Strategy<Value = Case> {
    let lengths = prop_oneof![
        prop::sample::select(vec![1usize, 2, 3, 7, 8, 9, 31, 64, 100]).prop_map(Lengths::Fixed),
        vec(prop_oneof![4 => 0..20usize, 1 => Just(0), 1 => 50..90usize], 1..12).prop_map(Lengths::Ragged),
        vec(1..40usize, 1..12).prop_map(Lengths::Ragged),
    ];
    let encoding = prop::sample::select(vec![
        None,
        None,
        Some(Encoding::PLAIN),
        Some(Encoding::DELTA_BINARY_PACKED),
        Some(Encoding::BYTE_STREAM_SPLIT),
    ]);
    let codec = prop::sample::select(vec![
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::LZ4_RAW,
        Compression::ZSTD(Default::default()),
    ]);
    let data = (1..300usize, prop::sample::select(TYPES.to_vec()), lengths, any::<bool>());
    let numbers = (
        prop::sample::select(vec![1u64, 2, 5, 200, 256, 257, 5000, u64::MAX]),
        prop::option::weighted(0.2, (1..50usize, 1..20usize)),
        any::<(bool, bool)>(),
        encoding,
    );
    let properties = (
        any::<bool>(),
        prop::sample::select(vec![50usize, 500, 5000, 1 << 20]),
        prop::sample::select(vec![1usize, 7, 100, 1024]),
        prop::sample::select(vec![100usize, 2000, 1 << 20]),
        codec,
        any::<bool>(),
    );
    let reading = (
        prop::option::of(vec((any::<bool>(), 0..60usize), 1..10)),
        prop::sample::select(vec![1usize, 3, 16, 50, 1000]),
        any::<bool>(),
        any::<bool>(),
    );
    (data, numbers, properties, reading).prop_map(|(data, numbers, properties, reading)| Case {
        rows: data.0,
        item: data.1,
        lengths: data.2,
        is_large: data.3,
        distinct: numbers.0,
        nulls: numbers.1,
        is_nullable: numbers.2,
        encoding: numbers.3,
        properties,
        selection: reading.0,
        batch_rows: reading.1,
        has_index: reading.2,
        has_others: reading.3,
    })
}

impl Case {
    fn lists(&self) -> ArrayRef {
        let lengths: Vec<usize> = match &self.lengths {
            Lengths::Fixed(length) => vec![*length; self.rows],
            Lengths::Ragged(lengths) => lengths.iter().copied().cycle().take(self.rows).collect(),
        };
        let count = lengths.iter().sum::<usize>();
        let numbers = (0..count as u64).map(|place| place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11);
        let numbers: Vec<u64> = numbers.map(|number| number % self.distinct).collect();
        let nulls = |every: usize, count: usize| {
            (0..count).map(|place| place % every != every - 1).collect::<NullBuffer>()
        };
        let item_nulls = self.nulls.map(|(every, _)| nulls(every, count));
        let numbers = cast(&wrapped(&numbers, &self.item), &self.item).unwrap();
        let values = match &item_nulls {
            Some(_) => arrow::array::make_array(
                numbers.to_data().into_builder().nulls(item_nulls.clone()).build().unwrap(),
            ),
            None => numbers,
        };
        let list_nulls = self.nulls.map(|(_, every)| nulls(every, self.rows));
        let nullable = self.nulls.is_some() || self.is_nullable.1;
        let item = Arc::new(Field::new("element", self.item.clone(), nullable));
        let offsets = std::iter::once(0).chain(lengths.iter().scan(0, |end, length| {
            *end += length;
            Some(*end)
        }));
        match &self.lengths {
            Lengths::Fixed(length) if !self.is_large => {
                Arc::new(FixedSizeListArray::new(item, *length as i32, values, list_nulls))
            }
            _ if self.is_large => {
                let offsets = offsets.map(|offset| offset as i64).collect::<ScalarBuffer<_>>();
                Arc::new(LargeListArray::new(item, OffsetBuffer::new(offsets), values, list_nulls))
            }
            _ => {
                let offsets = offsets.map(|offset| offset as i32).collect::<ScalarBuffer<_>>();
                Arc::new(ListArray::new(item, OffsetBuffer::new(offsets), values, list_nulls))
            }
        }
    }

    fn file(&self) -> Bytes {
        let nullable = self.nulls.is_some() || self.is_nullable.0;
        let mut columns = vec![("lists", self.lists(), nullable)];
        if self.has_others {
            let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(0..self.rows as i32));
            let names = (0..self.rows).map(|row| (row % 5 != 0).then(|| format!("row {row}")));
            let names: ArrayRef = Arc::new(StringArray::from_iter(names));
            columns.insert(0, ("id", ids, false));
            columns.push(("again", self.lists(), nullable));
            columns.push(("name", names, true));
        }
        let (is_second, page_bytes, write_rows, dictionary_bytes, codec, has_dictionary) = self.properties;
        let version = if is_second { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
        let mut properties = WriterProperties::builder()
            .set_writer_version(version)
            .set_data_page_size_limit(page_bytes)
            .set_write_batch_size(write_rows)
            .set_dictionary_page_size_limit(dictionary_bytes)
            .set_compression(codec)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_dictionary_enabled(has_dictionary);
        let takes_it = |encoding: Encoding| {
            let is_float = matches!(self.item, DataType::Float32 | DataType::Float64);
            !(is_float && encoding == Encoding::DELTA_BINARY_PACKED)
        };
        if let Some(encoding) = self.encoding.filter(|&encoding| takes_it(encoding)) {
            for name in ["lists", "again"] {
                let path = ColumnPath::new([name, "list", "element"].map(str::to_owned).to_vec());
                properties = properties
                    .set_column_dictionary_enabled(path.clone(), false)
                    .set_column_encoding(path, encoding);
            }
        }
        file(columns, properties.build())
    }

    fn wanted(&self, file: &Bytes) -> Wanted {
        let mut wanted = all(&footer(file, self.has_index), 0);
        wanted.rows = self.selection.as_ref().map(|runs| {
            let mut left = self.rows;
            let fitting = runs.iter().map(|&(select, count)| {
                let count = count.min(left);
                left -= count;
                (select, count)
            });
            selection(&fitting.collect::<Vec<_>>())
        });
        wanted
    }
}

/// Numbers that fit into a type.
fn wrapped(numbers: &[u64], item: &DataType) -> UInt64Array {
    let bits = match item {
        DataType::UInt8 => 8,
        DataType::Int8 => 7,
        DataType::UInt16 => 16,
        DataType::Int16 => 15,
        DataType::UInt32 => 32,
        DataType::Int32 => 31,
        DataType::UInt64 => 64,
        _ => 63,
    };
    numbers.iter().map(|number| Some(number & (u64::MAX >> (64 - bits)))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, rng_seed: RngSeed::Fixed(3), ..ProptestConfig::default() })]

    #[test]
    fn lists_are_as_parquets_own_reader_gives_them(case in case()) {
        let file = case.file();
        let wanted = case.wanted(&file);
        let own = check(&wanted, case.batch_rows, &file);
        let is_empty = wanted.rows.as_ref().is_some_and(|rows| !rows.selects_any());
        prop_assert!(own || is_empty || case.nulls.is_some(), "without nulls nothing is left to another");
    }
}
