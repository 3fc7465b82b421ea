//! Counts against a row-by-row evaluation, over files as writers make them.

use std::fs::File;
use std::path::Path;

use arrow::array::{ArrayRef, BinaryArray, FixedSizeBinaryArray, Int64Array, ListArray, RecordBatch};
use arrow::datatypes::Int64Type;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use penstock_proto::NullsInfo;
use proptest::prelude::*;
use tokio::runtime::Runtime;

use super::*;
use crate::dataset::Dataset;
use crate::expression::tests::random::{Row, Value, batch, conditions, tables};

/// A counter over much memory.
fn counter(state: Option<&Path>) -> Counter {
    let state = state.map(|path| State::open(path.to_str().unwrap()).unwrap());
    Counter::new(Budget::new(64 << 20), Duration::from_secs(60), state)
}

fn write(path: &Path, groups: &[RecordBatch], properties: WriterProperties) {
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), groups[0].schema(), Some(properties)).unwrap();
    for group in groups {
        writer.write(group).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
}

async fn snapshot(dir: &Path) -> Arc<Snapshot> {
    Dataset::new("d", dir.to_str().unwrap()).unwrap().snapshot().await.unwrap()
}

async fn count(counter: &Counter, snapshot: &Arc<Snapshot>, filter: &str) -> (Vec<u64>, Tally) {
    let filter = Arc::new(snapshot.filter(filter).unwrap());
    let (counts, tally) = counter.count(snapshot, &filter).await.unwrap();
    (counts.rows.to_vec(), tally)
}

/// Rows whose whole number is their place, in row groups of ten.
fn hundred(dir: &Path) {
    let row = |i: i64| [Some(Value::Whole(i)), None, Some(Value::Text(format!("{i:03}")))];
    let groups: Vec<RecordBatch> =
        (0..10).map(|group| batch(&(0..10).map(|i| row(group * 10 + i)).collect::<Vec<_>>())).collect();
    write(&dir.join("a.parquet"), &groups, WriterProperties::default());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Whatever a writer notes, short bounds, old pages or nothing, every block's number is that of its rows.
    #[test]
    fn counts_are_those_of_the_rows(
        condition in conditions(), short in any::<bool>(), page in 1usize..6, bloom in any::<bool>(),
        groups in prop::collection::vec(prop::collection::vec(tables(), 1..5).prop_map(|parts| parts.concat()), 1..5),
        noted in prop::sample::select(vec![EnabledStatistics::None, EnabledStatistics::Chunk, EnabledStatistics::Page]),
        version in prop::sample::select(vec![WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0]),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let batches: Vec<RecordBatch> = groups.iter().map(|rows| batch(rows)).collect();
        let properties = WriterProperties::builder()
            .set_statistics_enabled(noted)
            .set_data_page_row_count_limit(page)
            .set_bloom_filter_enabled(bloom)
            .set_write_batch_size(1)
            .set_column_index_truncate_length(short.then_some(1))
            .set_statistics_truncate_length(short.then_some(1))
            .set_writer_version(version)
            .build();
        write(&dir.path().join("a.parquet"), &batches, properties);
        let (counts, tally) = Runtime::new().unwrap().block_on(async {
            count(&counter(None), &snapshot(dir.path()).await, &condition.to_string()).await
        });
        let passes = |row: &Row| condition.of(row) == Some(true);
        let expected: Vec<u64> =
            groups.iter().map(|rows| rows.iter().filter(|row| passes(row)).count() as u64).collect();
        prop_assert_eq!(counts, expected, "{}", condition);
        prop_assert_eq!(tally.none + tally.all + tally.read, groups.len() as u64);
    }
}

#[tokio::test]
async fn statistics_spare_blocks() {
    let dir = tempfile::tempdir().unwrap();
    hundred(dir.path());
    let (snapshot, counter) = (snapshot(dir.path()).await, counter(None));
    let (counts, tally) = count(&counter, &snapshot, "w >= 25 AND w < 80").await;
    assert_eq!(counts, [0, 0, 5, 10, 10, 10, 10, 10, 0, 0]);
    assert_eq!(tally, Tally { none: 4, all: 5, read: 1, decoded: 10 });
    let (counts, tally) = count(&counter, &snapshot, "s LIKE '04%' OR d IS NOT NULL").await;
    assert_eq!((counts.iter().sum::<u64>(), tally.none), (10, 9));
    let (counts, tally) = count(&counter, &snapshot, "w % 2 = 0").await;
    assert_eq!((counts, tally.read), (vec![5; 10], 10));
    let (counts, tally) = count(&counter, &snapshot, "1 = 1").await;
    assert_eq!((counts, tally.all), (vec![10; 10], 10));
}

/// A thousand rows in one row group of pages of ten.
#[tokio::test]
async fn pages_spare_rows() {
    let dir = tempfile::tempdir().unwrap();
    let row = |i: i64| [Some(Value::Whole(i)), (i < 500).then_some(Value::Double(1.0)), None];
    let rows: Vec<Row> = (0..1_000).map(row).collect();
    let properties =
        WriterProperties::builder().set_data_page_row_count_limit(10).set_write_batch_size(10).build();
    write(&dir.path().join("a.parquet"), &[batch(&rows)], properties);
    let (snapshot, counter) = (snapshot(dir.path()).await, counter(None));
    for (filter, passing, decoded) in [
        ("w = 123", 1, 10),
        ("w < 95 OR w >= 995", 100, 20),
        ("w >= 30 AND w < 60", 30, 0),
        ("d IS NULL AND w < 505", 5, 10),
        ("d IS NOT NULL", 500, 0),
        ("w * 1 = 3", 1, 1_000),
    ] {
        let (counts, tally) = count(&counter, &snapshot, filter).await;
        assert_eq!((counts, tally.decoded), (vec![passing], decoded), "{filter}");
    }
}

#[tokio::test]
async fn bloom_filters_spare_blocks() {
    let dir = tempfile::tempdir().unwrap();
    // Every row group spans all values, so that bounds tell nothing.
    let row = |i: i64| [Some(Value::Whole(i)), None, Some(Value::Text(format!("{i:03}")))];
    let groups: Vec<RecordBatch> =
        (0..10).map(|group| batch(&(0..100).map(|i| row(i * 10 + group)).collect::<Vec<_>>())).collect();
    let properties = WriterProperties::builder().set_bloom_filter_enabled(true).build();
    write(&dir.path().join("a.parquet"), &groups, properties);
    let (snapshot, counter) = (snapshot(dir.path()).await, counter(None));
    for (filter, passing) in [
        ("w = 503", 1),
        ("'503' = s AND w > 0", 1),
        ("w IN (503, 513, 523) AND d IS NULL", 3),
        ("s IN ('503', 'nowhere')", 1),
    ] {
        let (counts, tally) = count(&counter, &snapshot, filter).await;
        assert_eq!((counts[3], counts.iter().sum::<u64>()), (passing, passing), "{filter}");
        assert!(tally.none >= 7, "{filter}: a filter of one in a hundred errs seldom, {tally:?}");
    }
    let (_, tally) = count(&counter, &snapshot, "NOT w = 503").await;
    assert_eq!(tally.read, 10);
}

/// A row group of many bytes is several blocks: each is counted by its own rows.
#[tokio::test]
async fn parts_of_a_row_group_are_counted_apart() {
    let dir = tempfile::tempdir().unwrap();
    hundred(dir.path());
    let mut parts = Arc::into_inner(snapshot(dir.path()).await).unwrap();
    parts.blocks = parts
        .blocks
        .iter()
        .flat_map(|block| [0..3, 3..10].map(|rows| Block { rows, ..block.clone() }))
        .collect();
    let (counts, tally) = count(&counter(None), &Arc::new(parts), "w % 10 IN (2, 5) AND w >= 30").await;
    assert_eq!(counts, [[0; 6].as_slice(), &[1; 14]].concat());
    assert_eq!(tally, Tally { none: 6, all: 0, read: 14, decoded: 70 });
}

#[tokio::test]
async fn counts_are_kept_for_the_next_gateway_and_mended_when_they_break() {
    let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    hundred(dir.path());
    let snapshot = snapshot(dir.path()).await;
    let first = count(&counter(Some(state.path())), &snapshot, "w % 2 = 0").await;
    assert_eq!(first.1.read, 10);
    let again = count(&counter(Some(state.path())), &snapshot, " w % 2 = 0 ").await;
    assert_eq!(again, (first.0.clone(), Tally::default()), "nothing is looked at");
    let other = count(&counter(Some(state.path())), &snapshot, "w % 2 = 1").await;
    assert_eq!(other.1.read, 10, "another filter is counted");

    let kept = || std::fs::read_dir(state.path().join("counts")).unwrap().map(|entry| entry.unwrap().path());
    for path in kept() {
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("5,5", "5,6")).unwrap();
    }
    let mended = count(&counter(Some(state.path())), &snapshot, "w % 2 = 0").await;
    assert_eq!(mended, first);
    let again = count(&counter(Some(state.path())), &snapshot, "w % 2 = 0").await;
    assert_eq!(again.1, Tally::default());
    assert_eq!(kept().count(), 2);
    assert!(matches!(State::open("s3://bucket/state"), Err(StateError::Place { .. })));
}

/// Who asks while it is counted gets what is found, and whoever leaves takes nothing along.
#[tokio::test]
async fn a_pass_that_was_given_up_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    hundred(dir.path());
    let (snapshot, counter) = (snapshot(dir.path()).await, counter(None));
    let filter = Arc::new(snapshot.filter("w % 2 = 0").unwrap());
    {
        let counting = counter.count(&snapshot, &filter);
        tokio::pin!(counting);
        // Polled once: it waits for the first footer, and is dropped. Were it done, the rest would hold as well.
        let _begun = futures::poll!(&mut counting);
    }
    let (one, other) = tokio::join!(counter.count(&snapshot, &filter), counter.count(&snapshot, &filter));
    assert_eq!(one.unwrap().0.rows.as_ref(), [5; 10]);
    assert_eq!(other.unwrap().0.total(), 50);
}

#[tokio::test]
async fn a_broken_page_is_named() {
    let dir = tempfile::tempdir().unwrap();
    hundred(dir.path());
    let path = dir.path().join("a.parquet");
    let snapshot_before = snapshot(dir.path()).await;
    let column = snapshot_before.files[0].footer.metadata().row_group(3).column(2).clone();
    let mut bytes = std::fs::read(&path).unwrap();
    let (start, length) = column.byte_range();
    bytes[start as usize..(start + length) as usize].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    let broken = snapshot(dir.path()).await;
    let filter = Arc::new(broken.filter("length(s) + w = 5").unwrap());
    let error = counter(None).count(&broken, &filter).await.unwrap_err();
    assert_eq!(error.code, Code::BadFile, "{error}");
    assert!(error.message.contains("a.parquet, row group 3, column \"s\""), "{error}");
}

/// Statistics have bounds of bytes, too; nothing here orders them.
#[tokio::test]
async fn what_is_never_looked_into_may_be_null() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = [Some(b"ab".as_slice()), None, Some(b"cd")];
    let rows = RecordBatch::try_from_iter_with_nullable([
        ("bytes", Arc::new(BinaryArray::from_iter(bytes)) as ArrayRef, true),
        (
            "pairs",
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes.into_iter(), 2).unwrap()),
            true,
        ),
    ]);
    write(&dir.path().join("a.parquet"), &[rows.unwrap()], WriterProperties::default());
    let snapshot = snapshot(dir.path()).await;
    for (filter, passes) in
        [("bytes IS NULL", 1), ("bytes IS NOT NULL", 2), ("pairs IS NULL", 1), ("pairs IS NOT NULL", 2)]
    {
        assert_eq!(count(&counter(None), &snapshot, filter).await.0, [passes], "{filter}");
    }
}

#[tokio::test]
async fn nulls_are_told_of_by_the_first_file_that_has_some_and_never_of_lists() {
    let dir = tempfile::tempdir().unwrap();
    let rows = |values: [Option<i64>; 2]| {
        // An empty list counts as a null in what is written of its values.
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![]), Some(vec![Some(1)])]);
        let values = Arc::new(Int64Array::from_iter(values)) as ArrayRef;
        let columns = [("lists", Arc::new(lists) as ArrayRef, true), ("x", values, true)];
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    };
    let (whole, some) = (rows([Some(1), Some(2)]), rows([None, Some(2)]));
    write(&dir.path().join("a.parquet"), std::slice::from_ref(&whole), WriterProperties::default());
    write(&dir.path().join("b.parquet"), &[some.clone(), whole.clone(), some], WriterProperties::default());
    let told = told_nulls(&*snapshot(dir.path()).await, &[1, 0]).await;
    let [Some(NullsInfo { file, count: 2 }), None] = &told[..] else { panic!("{told:?}") };
    assert!(file.ends_with("b.parquet"), "{file}");
    let silent = WriterProperties::builder().set_statistics_enabled(EnabledStatistics::None).build();
    std::fs::remove_file(dir.path().join("b.parquet")).unwrap();
    write(&dir.path().join("c.parquet"), &[rows([None, None])], silent);
    assert_eq!(told_nulls(&*snapshot(dir.path()).await, &[1]).await, [None]);
}
