//! Small Parquet files in a directory of their own; what a user would do to them, and what is said.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use object_store::ObjectStoreExt as _;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use super::*;

mod corpus;
mod listing;
mod memory;
mod schema;

/// A directory that is gone at the end, and files in it.
pub(crate) struct Directory(tempfile::TempDir);

impl Directory {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes ids as one column in row groups of ten.
    pub(crate) fn write_ids(&self, name: &str, ids: std::ops::Range<i64>) {
        self.write(name, [("id", Arc::new(Int64Array::from_iter_values(ids)) as ArrayRef)]);
    }

    pub(crate) fn write<const N: usize>(&self, name: &str, columns: [(&str, ArrayRef); N]) {
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(10)).build();
        write(&self.path(name), &RecordBatch::try_from_iter(columns).unwrap(), properties);
    }

    fn uri(&self, below: &str) -> String {
        self.path(below).to_str().unwrap().to_owned()
    }

    async fn snapshot(&self, below: &str) -> Result<Arc<Snapshot>, DatasetError> {
        Dataset::new("test", &self.uri(below))?.snapshot().await
    }

    async fn refusal(&self, below: &str) -> String {
        match self.snapshot(below).await {
            Ok(_) => panic!("{below} makes a snapshot"),
            Err(e) => {
                let text = e.to_string();
                assert!(!text.contains('\n'), "one line: {text}");
                text
            }
        }
    }
}

fn write(path: &Path, batch: &RecordBatch, properties: WriterProperties) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

fn footer_at(file: &[u8]) -> usize {
    let length = u32::from_le_bytes(*file[..file.len() - 4].last_chunk().unwrap());
    file.len() - 8 - length as usize
}

fn names(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.files.iter().map(|file| file.name.as_str()).collect()
}

#[tokio::test]
async fn a_snapshot_tells_files_rows_and_blocks() {
    let directory = Directory::new();
    directory.write_ids("b.parquet", 25..30);
    directory.write_ids("a.parquet", 0..25);
    let snapshot = directory.snapshot("").await.unwrap();
    assert_eq!(names(&snapshot), ["a.parquet", "b.parquet"]);
    assert_eq!(snapshot.rows(), 30);
    let blocks: Vec<_> = snapshot.blocks.iter().map(|b| (b.file, b.row_group, b.rows.clone())).collect();
    assert_eq!(blocks, [(0, 0, 0..10), (0, 1, 0..10), (0, 2, 0..5), (1, 0, 0..5)]);
    let on_disk = ["a.parquet", "b.parquet"].map(|name| fs::metadata(directory.path(name)).unwrap().len());
    assert_eq!(snapshot.bytes(), on_disk.iter().sum::<u64>());
}

#[tokio::test]
async fn the_snapshot_stays_until_a_file_changes() {
    let directory = Directory::new();
    directory.write_ids("a.parquet", 0..25);
    directory.write_ids("b.parquet", 25..30);
    let dataset = Dataset::new("test", &directory.uri("")).unwrap();
    let first = dataset.snapshot().await.unwrap();
    assert!(Arc::ptr_eq(&first, &dataset.snapshot().await.unwrap()));

    directory.write_ids("c.parquet", 30..31);
    let second = dataset.snapshot().await.unwrap();
    assert_ne!(first.id, second.id);
    assert_eq!(second.rows(), 31);
    // The footers of files that stayed were not read again.
    let footers = |snapshot: &Snapshot| Arc::clone(snapshot.files[0].footer.metadata());
    assert!(Arc::ptr_eq(&footers(&first), &footers(&second)));

    fs::remove_file(directory.path("c.parquet")).unwrap();
    let third = dataset.snapshot().await.unwrap();
    assert_eq!(third.id, first.id, "the same files are the same snapshot");
}

#[tokio::test]
async fn the_id_follows_content_and_not_the_mount_point() {
    let (here, there) = (Directory::new(), Directory::new());
    here.write_ids("data/x/a.parquet", 0..25);
    there.write_ids("elsewhere/x/a.parquet", 0..25);
    let modified = fs::metadata(here.path("data/x/a.parquet")).unwrap().modified().unwrap();
    let copy = there.path("elsewhere/x/a.parquet");
    let touch = |time| fs::File::options().write(true).open(&copy).unwrap().set_modified(time).unwrap();

    touch(modified);
    let first = here.snapshot("data").await.unwrap();
    assert_eq!(first.id, there.snapshot("elsewhere").await.unwrap().id);
    assert_eq!(first.id, here.snapshot("data/*/a.parquet").await.unwrap().id, "a pattern of the same files");

    touch(modified + std::time::Duration::from_secs(1));
    assert_ne!(first.id, there.snapshot("elsewhere").await.unwrap().id);
    touch(modified);
    fs::rename(there.path("elsewhere/x"), there.path("elsewhere/y")).unwrap();
    assert_ne!(first.id, there.snapshot("elsewhere").await.unwrap().id);
}

/// A reader can demand the very file that was planned, by the tag the store itself gives it.
#[tokio::test]
async fn a_file_has_the_tag_of_its_store() {
    let directory = Directory::new();
    directory.write_ids("a%20 b#ü=1.parquet", 0..3);
    let snapshot = directory.snapshot("").await.unwrap();
    let file = &snapshot.files[0];
    assert_eq!(file.store.head(&file.meta.location).await.unwrap(), file.meta);
    assert_eq!(file.to_string(), directory.uri("a%20 b#ü=1.parquet"));
}

#[tokio::test]
async fn what_is_no_whole_parquet_file_is_refused_by_name() {
    let directory = Directory::new();
    directory.write_ids("good.parquet", 0..25);
    let bytes = fs::read(directory.path("good.parquet")).unwrap();
    let footer_at = footer_at(&bytes);
    let bad = directory.path("bad.parquet");
    let mut lying = bytes.clone();
    let length_at = lying.len() - 8;
    lying[length_at..length_at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut garbled = bytes.clone();
    garbled[length_at - 40..length_at].fill(0xff);
    // The footer is whole, but data in front of it is missing.
    let beheaded = bytes[footer_at - 50..].to_vec();
    for (broken, reason) in [
        (Vec::new(), "it has only 0 bytes"),
        (b"PAR1".to_vec(), "it has only 4 bytes"),
        (bytes[..bytes.len() / 2].to_vec(), "its end is missing"),
        (b"id,label\n1,2\n3,4\n".to_vec(), "its end is missing"),
        (lying, "its footer claims 4294967295 of"),
        (garbled, "its footer cannot be parsed"),
        (beheaded, "lies outside"),
    ] {
        fs::write(&bad, broken).unwrap();
        let text = directory.refusal("").await;
        assert!(text.starts_with(bad.to_str().unwrap()) && text.contains(reason), "{text}");
        assert!(text.contains("take it out of the dataset"), "{text}");
    }
    fs::remove_file(&bad).unwrap();
    assert_eq!(directory.snapshot("").await.unwrap().rows(), 25);
}

/// However a footer is cut or flipped, the answer is a snapshot or a refusal.
#[tokio::test]
async fn no_broken_byte_is_a_panic() {
    let directory = Directory::new();
    directory.write_ids("x.parquet", 0..25);
    let whole = fs::read(directory.path("x.parquet")).unwrap();
    for at in (footer_at(&whole)..whole.len()).step_by(3) {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            fs::write(directory.path("x.parquet"), &bytes).unwrap();
            if let Ok(snapshot) = directory.snapshot("x.parquet").await {
                snapshot.block_shapes(&snapshot.project(&[]).unwrap(), None);
            }
        }
    }
}

#[tokio::test]
async fn large_row_groups_with_page_locations_are_several_blocks() {
    let directory = Directory::new();
    let rows = 20_000_001;
    let zeros = Arc::new(Int64Array::from_value(0, rows)) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("zero", zeros)]).unwrap();
    for (name, offset_index) in [("with.parquet", true), ("without.parquet", false)] {
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(None)
            .set_compression(Compression::SNAPPY)
            .set_dictionary_enabled(false)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_offset_index_disabled(!offset_index)
            .build();
        write(&directory.path(name), &batch, properties);
    }
    // 160 MB in pieces of at most 64 MiB.
    let with = directory.snapshot("with.parquet").await.unwrap();
    let blocks: Vec<_> = with.blocks.iter().map(|b| (b.row_group, b.rows.clone())).collect();
    assert_eq!(blocks, [(0, 0..6_666_667), (0, 6_666_667..13_333_334), (0, 13_333_334..20_000_001)]);
    let shapes = with.block_shapes(&with.project(&[]).unwrap(), None);
    assert!(shapes.iter().zip(&blocks).all(|(shape, (_, rows))| shape.rows == rows.end - rows.start));
    assert!(shapes.iter().all(|shape| shape.bytes == shape.rows * 8));
    assert_eq!(directory.snapshot("without.parquet").await.unwrap().blocks.len(), 1);
}

#[tokio::test]
async fn an_inspection_reads_well() {
    let directory = Directory::new();
    let columns = |ids: std::ops::Range<i32>| {
        let labels = StringArray::from_iter(ids.clone().map(|id| (id % 2 == 0).then(|| format!("{id:04}"))));
        [
            ("id", Arc::new(Int32Array::from_iter_values(ids)) as ArrayRef),
            ("label", Arc::new(labels) as ArrayRef),
        ]
    };
    directory.write("a.parquet", columns(0..25));
    directory.write("b.parquet", columns(25..31));
    let dataset = Dataset::new("test", &directory.uri("*.parquet")).unwrap();
    let snapshot = dataset.snapshot().await.unwrap();
    let order = crate::plan::tests::order(4, penstock_proto::Shuffle::Rows);
    let inspection = inspect::Inspection::new(dataset.location(), &snapshot, order, None).unwrap();
    let nulls = crate::count::nulls(&snapshot).await.unwrap();
    assert_eq!(nulls, [Some(0), Some(15)]);
    let inspection = inspection.with_nulls(nulls).with_fed_as(|_, data_type| Ok(data_type.to_string()));
    let text = inspection.to_string();
    let text = text.replace(directory.0.path().to_str().unwrap(), "DIR").replace(snapshot.id.as_str(), "ID");
    let bytes = format!("{:.1} KiB", snapshot.bytes() as f64 / 1024.0);
    insta::assert_snapshot!(text.replace(&bytes, "BYTES"), @r"
    DIR/*.parquet
      snapshot  ID
      files     2 (BYTES)
      blocks    4 of 4 row groups
      rows      31 (about 318 bytes decoded)
      columns
        id     Int32: fed as Int32
        label  Utf8, 15 nulls: fed as Utf8, its nulls as nulls= says
      epoch     7 steps of 4 rows, shuffle rows, remainder drop (3 rows left out, others every epoch)
      lanes     4, windows of 17 rows
      shuffled  rows move 30.2 % of the dataset (by chance 33.3 %)
                a batch mixes 3.6 blocks (by chance 2.7)
                a column sorted through all files has autocorrelation 0.298 (by chance 0)
    ");
}
