//! Files with bytes changed: what parquet's own reader makes of them, and never a panic of ours.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Int64Array, ListArray, UInt8Array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::WriterVersion;
use parquet::schema::types::ColumnPath;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

/// Lists of bytes and of long numbers, of changing length.
fn sound(version: WriterVersion, codec: Compression, encoding: Option<Encoding>) -> Bytes {
    let lengths = || (0..60usize).map(|row| row * 7 % 23);
    let count = lengths().sum::<usize>();
    let list = |values: ArrayRef, data_type: DataType| -> ArrayRef {
        let item = Arc::new(Field::new("element", data_type, false));
        Arc::new(ListArray::new(item, OffsetBuffer::from_lengths(lengths()), values, None))
    };
    let bytes = Arc::new(UInt8Array::from_iter_values((0..count).map(|place| (place * 89 % 251) as u8)));
    let longs = Arc::new(Int64Array::from_iter_values((0..count as i64).map(|place| place * place % 1009)));
    let mut properties = WriterProperties::builder()
        .set_writer_version(version)
        .set_data_page_size_limit(300)
        .set_write_batch_size(10)
        .set_compression(codec);
    if let Some(encoding) = encoding {
        for name in ["bytes", "longs"] {
            let path = ColumnPath::new([name, "list", "element"].map(str::to_owned).to_vec());
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, encoding);
        }
    }
    let columns =
        vec![("bytes", list(bytes, DataType::UInt8), true), ("longs", list(longs, DataType::Int64), false)];
    file(columns, properties.build())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, rng_seed: RngSeed::Fixed(3), ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes_change_nothing_that_another_reader_would_not_see(
        version in prop::sample::select(vec![WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0]),
        codec in prop::sample::select(vec![Compression::UNCOMPRESSED, Compression::SNAPPY]),
        encoding in prop::sample::select(vec![
            None,
            Some(Encoding::PLAIN),
            Some(Encoding::DELTA_BINARY_PACKED),
            Some(Encoding::BYTE_STREAM_SPLIT),
        ]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        batch_rows in 1..100usize,
        has_index in any::<bool>(),
    ) {
        let sound = sound(version, codec, encoding);
        let footer = footer(&sound, has_index);
        let group = footer.metadata().row_group(0);
        let data = group.columns().iter().map(|column| column.byte_range()).map(|(start, length)| start + length);
        let end = data.max().unwrap() as usize;
        let mut changed = sound.to_vec();
        for (place, value) in changes {
            changed[4..end][place.index(end - 4)] = value;
        }
        let changed = Bytes::from(changed);
        // All rows: parquet's own reader skips some damaged ones for ever.
        let wanted = all(&footer, 0);
        let ours = || drive(Decoder::new(wanted.clone(), batch_rows).unwrap(), &changed);
        let theirs = || drive_general(wanted.clone(), batch_rows, &changed);
        let theirs = catch_unwind(AssertUnwindSafe(theirs));
        let ours = match (catch_unwind(AssertUnwindSafe(ours)), &theirs) {
            (Ok(ours), _) => ours,
            // What the pages are read with is parquet's, too.
            (Err(_), Err(_)) => return Ok(()),
            (Err(_), Ok(_)) => panic!("only ours panicked"),
        };
        if let (Ok(ours), Ok(Ok(theirs))) = (&ours, &theirs)
            && let Some(schema) = theirs.batches.first().map(RecordBatch::schema)
        {
            let [ours, theirs] = [ours, theirs].map(|read| concat_batches(&schema, &read.batches).unwrap());
            prop_assert_eq!(ours, theirs);
        }
        prop_assert!(ours.is_ok() || !matches!(theirs, Ok(Ok(_))), "only ours refused");
    }
}
