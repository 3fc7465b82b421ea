//! Rows skipped of columns that are left to parquet's own reader: the same rows as it gives, and an end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use arrow::array::{Array, Int32Array, Int64Array, ListArray, MapBuilder, StringArray, StringBuilder};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::Field;
use parquet::basic::Compression;
use parquet::file::properties::WriterVersion;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::writers::{Page, by_hand};
use super::*;

const ROWS: usize = 90;
const NESTED: &str = "message m { required group x (LIST) { repeated group list { required group element (LIST) \
    { repeated group list { required int32 element; } } } } }";

/// Runs it beside the test: one that never ends is to fail, not to stand still.
fn in_time<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, end) = mpsc::channel();
    thread::spawn(move || done.send(run()));
    end.recv_timeout(Duration::from_secs(300)).expect("it ends")
}

fn list(values: ArrayRef, lengths: impl IntoIterator<Item = usize>, nulls: Option<NullBuffer>) -> ArrayRef {
    let item = Arc::new(Field::new("element", values.data_type().clone(), true));
    Arc::new(ListArray::new(item, OffsetBuffer::from_lengths(lengths), values, nulls))
}

/// Lists of texts, lists of lists, lists with nulls, maps, and a number that is no list.
pub(super) fn nested(version: WriterVersion, codec: Compression, page_bytes: usize) -> Bytes {
    let lengths = |rows: usize, of: usize| (0..rows).map(move |row| row * 7 % of);
    let sum = |rows: usize, of: usize| lengths(rows, of).sum::<usize>();
    let texts = StringArray::from_iter_values((0..sum(ROWS, 11)).map(|place| format!("text {}", place % 37)));
    let inner = sum(ROWS, 6);
    let longs = Int64Array::from_iter_values((0..sum(inner, 5) as i64).map(|place| place * place));
    let with_nulls = (0..sum(ROWS, 9) as i32).map(|place| (place % 3 != 0).then_some(place));
    let nulls = (0..ROWS).map(|row| row % 13 != 4).collect::<NullBuffer>();
    let mut maps = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for row in 0..ROWS {
        for pair in 0..row % 4 {
            maps.keys().append_value(format!("{pair}"));
            maps.values().append_value(format!("{row}"));
        }
        maps.append(true).unwrap();
    }
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..ROWS as i64)), false),
        ("texts", list(Arc::new(texts), lengths(ROWS, 11), None), true),
        ("lists", list(list(Arc::new(longs), lengths(inner, 5), None), lengths(ROWS, 6), None), true),
        ("nulls", list(Arc::new(Int32Array::from_iter(with_nulls)), lengths(ROWS, 9), Some(nulls)), true),
        ("maps", Arc::new(maps.finish()), true),
    ];
    let properties = WriterProperties::builder()
        .set_writer_version(version)
        .set_data_page_size_limit(page_bytes)
        .set_write_batch_size(10)
        .set_compression(codec);
    file(columns, properties.build())
}

fn files() -> impl Strategy<Value = Bytes> {
    let versions = prop::sample::select(vec![WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0]);
    let codecs = prop::sample::select(vec![Compression::UNCOMPRESSED, Compression::SNAPPY]);
    (versions, codecs, prop::sample::select(vec![100usize, 400, 1 << 20]))
        .prop_map(|(version, codec, page_bytes)| nested(version, codec, page_bytes))
}

/// Some of the rows.
fn some_rows() -> impl Strategy<Value = RowSelection> {
    vec((any::<bool>(), 0..40usize), 1..8).prop_map(|runs| {
        let mut left = ROWS;
        let fitting = runs.into_iter().map(|(select, count)| {
            let count = count.min(left);
            left -= count;
            (select, count)
        });
        selection(&fitting.collect::<Vec<_>>())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, rng_seed: RngSeed::Fixed(5), ..ProptestConfig::default() })]

    #[test]
    fn rows_behind_skipped_ones_are_as_parquets_own_reader_gives_them(
        file in files(),
        rows in some_rows(),
        batch_rows in 1..50usize,
        has_index in any::<bool>(),
    ) {
        let wanted = Wanted { rows: Some(rows), ..all(&footer(&file, has_index), 0) };
        check(&wanted, batch_rows, &file);
    }

    #[test]
    fn whatever_is_damaged_skipping_ends(
        file in files(),
        rows in some_rows(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let footer = footer(&file, false);
        let group = footer.metadata().row_group(0);
        let data = group.columns().iter().map(|column| column.byte_range()).map(|(start, length)| start + length);
        let end = data.max().unwrap() as usize;
        let mut changed = file.to_vec();
        for (place, value) in changes {
            changed[4..end][place.index(end - 4)] = value;
        }
        let wanted = Wanted { rows: Some(rows), ..all(&footer, 0) };
        let read = move || {
            let read = || drive(Decoder::new(wanted, 20).unwrap(), &Bytes::from(changed)).map(drop);
            catch_unwind(AssertUnwindSafe(read)).map(drop)
        };
        // What becomes of it is for others to say.
        let _ended = in_time(read);
    }
}

#[test]
fn levels_that_end_early_in_nested_lists_are_an_error_whatever_is_skipped() {
    let whole = Page::plain(&[0, 1, 2, 0, 2], &[2; 5], &[1, 2, 3, 4, 5]);
    let cut = Page::plain(&[0, 2, 0], &[2; 3], &[6, 7, 8]).saying(9);
    let (file, footer) = by_hand(NESTED, 9, &[whole, cut]);
    for skipped in (1..9).rev() {
        let wanted =
            Wanted { rows: Some(selection(&[(false, skipped), (true, 9 - skipped)])), ..all(&footer, 0) };
        let file = file.clone();
        let error = in_time(move || drive(Decoder::new(wanted, 2).unwrap(), &file).err()).unwrap();
        assert!(error.to_string().contains("levels of a page end"), "{error}");
    }
}
