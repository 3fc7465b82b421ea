//! Streams over one store that notes what is asked of it and can be shut.

mod disk;
mod early;

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray as _, Int64Array};
use arrow::datatypes::Int64Type;
use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as Stored,
};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use penstock_proto::{Rank, Remainder, Shuffle, WorldSize};
use tokio::sync::{AcquireError, Semaphore};

use super::*;
use crate::dataset::{Dataset, Snapshot};
use crate::partition::Partition;
use crate::plan::{Order, Plan};
use crate::read::cache::Content;
use crate::read::rows::{Rows, Stripe};
use crate::read::source::Area;
use crate::read::{Need, Share, block_bytes};

const ROWS: u64 = 4_000;
const MEMORY: u64 = 64 << 20;

/// A local store that lets as many requests pass as there are permits.
#[derive(Debug)]
struct Gate {
    files: LocalFileSystem,
    passes: Semaphore,
    asked: Mutex<Vec<Option<Range<u64>>>>,
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a gate")
    }
}

#[async_trait]
impl ObjectStore for Gate {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Stored<GetResult> {
        let range = options.range.as_ref().map(|range| range.as_range(u64::MAX).unwrap());
        self.asked.lock().unwrap().push(range);
        let shut = |error: AcquireError| Error::Generic { store: "gate", source: error.into() };
        self.passes.acquire().await.map_err(shut)?.forget();
        self.files.get_opts(location, options).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Stored<ObjectMeta>> {
        self.files.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Stored<ListResult> {
        self.files.list_with_delimiter(prefix).await
    }

    async fn put_opts(&self, at: &Path, bytes: PutPayload, options: PutOptions) -> Stored<PutResult> {
        self.files.put_opts(at, bytes, options).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> Stored<Box<dyn MultipartUpload>> {
        self.files.put_multipart_opts(at, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Stored<Path>>) -> BoxStream<'static, Stored<Path>> {
        self.files.delete_stream(paths)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Stored<()> {
        self.files.copy_opts(from, to, options).await
    }
}

/// Ids in row groups of a thousand, behind a gate.
struct Stage {
    _dir: tempfile::TempDir,
    snapshot: Arc<Snapshot>,
    gate: Arc<Gate>,
    budget: Budget,
    shared: Arc<Shared>,
}

impl Stage {
    async fn new(cache_bytes: u64, passes: usize) -> Self {
        Self::with_disk(cache_bytes, passes, None).await
    }

    async fn with_disk(cache_bytes: u64, passes: usize, disk: Option<Disk>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
        let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
        let groups = WriterProperties::builder().set_max_row_group_row_count(Some(1_000)).build();
        let file = File::create(dir.path().join("a.parquet")).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(groups)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();

        let seen = Dataset::new("d", dir.path().to_str().unwrap()).unwrap().snapshot().await.unwrap();
        let gate = Arc::new(Gate {
            files: LocalFileSystem::new(),
            passes: Semaphore::new(passes),
            asked: Mutex::default(),
        });
        let mut snapshot = Arc::into_inner(seen).unwrap();
        snapshot.files[0].store = Arc::clone(&gate) as Arc<dyn ObjectStore>;
        let snapshot = Arc::new(snapshot);
        let budget = Budget::new(MEMORY);
        let shared = Shared::new(&budget, cache_bytes, disk);
        Self { _dir: dir, snapshot, gate, budget, shared }
    }

    /// What a stream of its own reads from, in chunks of so many rows.
    async fn source(&self, chunk_rows: u64) -> Arc<Source> {
        self.source_of(chunk_rows, |_| {}).await
    }

    /// The same, with a need that is told otherwise.
    async fn source_of(&self, chunk_rows: u64, told: impl FnOnce(&mut Need)) -> Arc<Source> {
        let projection = self.snapshot.project(&[]).unwrap();
        let order = Order {
            batch_size: 100,
            lanes: None,
            shuffle: Shuffle::None,
            shuffle_bytes: 0,
            seed: 0,
            remainder: Remainder::Keep,
        };
        let plan = Plan::new(&self.snapshot.block_shapes(&projection, None), order).unwrap();
        let partition = Partition::new(&plan, WorldSize::new(1).unwrap(), Rank::ZERO).unwrap();
        let blocks = block_bytes(&self.snapshot, &projection, None);
        let mut need = Need::new(u128::from(8 * ROWS), &blocks, &plan, &partition, 1 << 20, 0);
        need.batch_rows = chunk_rows as usize;
        told(&mut need);
        let shares = Share::lease(&self.budget, &[need], 0, Duration::from_secs(60)).await.unwrap();
        let share = Arc::new(shares.into_iter().next().unwrap());
        let view = View { content: Content::of("d"), shared: Arc::clone(&self.shared) };
        Arc::new(Source::new(Arc::clone(&self.snapshot), projection, plan.epoch(0), None, view, share))
    }

    async fn rows(&self, chunk_rows: u64) -> Rows {
        Rows::new(self.source(chunk_rows).await, Area::Lane(0), 0..ROWS, Stripe::WHOLE)
    }

    /// The ranges that were asked for, and whether one was asked for again.
    fn asked(&self) -> (usize, bool) {
        let asked = self.gate.asked.lock().unwrap();
        let ranges: BTreeSet<_> = asked.iter().map(|range| range.as_ref().map(|range| range.start)).collect();
        (asked.len(), ranges.len() < asked.len())
    }
}

/// The ids of the next batches, at most so many.
async fn read(rows: &mut Rows, batches: usize) -> Vec<i64> {
    let mut ids = Vec::new();
    for _ in 0..batches {
        let Some(batch) = rows.next().await.unwrap() else { break };
        ids.extend(batch.column(0).as_primitive::<Int64Type>().values());
    }
    ids
}

fn all() -> Vec<i64> {
    (0..ROWS as i64).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_at_once_and_readers_after_them_read_every_byte_once() {
    let stage = Stage::new(MEMORY, usize::MAX >> 3).await;
    let mut reading = Vec::new();
    for _ in 0..4 {
        let mut rows = stage.rows(70).await;
        reading.push(tokio::spawn(async move { read(&mut rows, usize::MAX).await }));
    }
    for reader in reading {
        assert_eq!(reader.await.unwrap(), all());
    }
    // Chunks of about the same size are one and the same.
    for chunk_rows in [40, 63, 64, 65, 80, 128, 140] {
        assert_eq!(read(&mut stage.rows(chunk_rows).await, usize::MAX).await, all());
        assert_eq!(stage.asked(), (4, false), "{chunk_rows}");
    }
    // Of another size they are others.
    assert_eq!(read(&mut stage.rows(300).await, usize::MAX).await, all());
    assert_eq!(stage.asked(), (8, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_goes_on_where_the_first_gave_up() {
    let stage = Stage::new(MEMORY, 0).await;
    let (mut first, mut second) = (stage.rows(100).await, stage.rows(100).await);
    let first = tokio::spawn(async move { read(&mut first, 1).await });
    while stage.asked().0 == 0 {
        tokio::task::yield_now().await;
    }
    let mut waiting = Box::pin(read(&mut second, usize::MAX));
    assert!(futures::poll!(&mut waiting).is_pending());
    assert_eq!(stage.asked().0, 1, "it waits for the first");
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    stage.gate.passes.add_permits(1_000);
    assert_eq!(waiting.await, all());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_stands_still_holds_nobody_up_and_goes_on_where_it_stood() {
    // Nothing is kept.
    let stage = Stage::new(0, usize::MAX >> 3).await;
    let (mut slow, mut quick) = (stage.rows(100).await, stage.rows(100).await);
    let mut ids = read(&mut slow, 3).await;
    let asked = stage.asked().0;
    assert_eq!(read(&mut quick, usize::MAX).await, all());
    let between = stage.asked().0;
    ids.extend(read(&mut slow, usize::MAX).await);
    assert_eq!(ids, all());
    // The block that it stood in was opened once by each.
    assert!(asked >= 1 && between > asked && stage.asked().0 <= 8, "{asked} {between} {:?}", stage.asked());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_is_there_for_streams() {
    let stage = Stage::new(MEMORY, usize::MAX >> 3).await;
    assert_eq!(read(&mut stage.rows(100).await, usize::MAX).await, all());
    assert_eq!(stage.budget.leased(), 0, "what is kept is as good as free");
    assert!(stage.budget.lend(MEMORY).is_none(), "something is kept");
    let everything = stage.budget.try_lease(MEMORY).unwrap();
    // A stream that has all the memory leaves none to the cache.
    drop(everything);
    assert_eq!(read(&mut stage.rows(100).await, usize::MAX).await, all());
    assert_eq!(stage.asked(), (8, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_world_shares_every_decode_whatever_its_lanes() {
    let stage = Stage::new(MEMORY, usize::MAX >> 3).await;
    let mut reading = Vec::new();
    for rank in 0..7u64 {
        let stripe = Stripe { width: 21, part: 3 * rank..3 * rank + 3 };
        let mut rows = Rows::new(stage.source(105).await, Area::Lane(0), 0..ROWS, stripe);
        reading.push(tokio::spawn(async move { read(&mut rows, usize::MAX).await }));
    }
    let mut ids = Vec::new();
    for (rank, reader) in reading.into_iter().enumerate() {
        let own = reader.await.unwrap();
        assert!(own.is_sorted() && own.iter().all(|id| (id % 21) as usize / 3 == rank));
        ids.extend(own);
    }
    ids.sort_unstable();
    assert_eq!(ids, all());
    assert_eq!(stage.asked(), (4, false));
}
