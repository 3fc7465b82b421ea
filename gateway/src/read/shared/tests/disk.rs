//! Stories of a disk behind the memory.

use super::*;

const OPEN: usize = usize::MAX >> 3;
/// All chunks, each of which takes a page and more on disk.
const DISK: u64 = 4 << 20;

impl Stage {
    /// Reads everything, and says how many ranges of files that took.
    async fn pass(&self, chunk_rows: u64) -> usize {
        let before = self.asked().0;
        assert_eq!(read(&mut self.rows(chunk_rows).await, usize::MAX).await, all());
        self.shared.cache.disk().settled().await;
        self.asked().0 - before
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_larger_than_memory_is_decoded_once() {
    // No memory, less than the set, and less than that of some chunks.
    for cache_bytes in [0, 10_000, 30_000] {
        let stage = Stage::with_disk(cache_bytes, OPEN, Some(Disk::of(DISK, MEMORY))).await;
        assert_eq!(stage.pass(100).await, 4, "{cache_bytes}");
        for _ in 0..3 {
            assert_eq!(stage.pass(100).await, 0, "{cache_bytes}");
        }
        // Chunks of about the same size are found, others are others.
        assert_eq!((stage.pass(70).await, stage.pass(300).await), (0, 4), "{cache_bytes}");
        assert_eq!((stage.pass(300).await, stage.pass(100).await), (0, 0), "{cache_bytes}");
        assert_eq!(stage.budget.leased(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_streams_drive_out_of_memory_is_found_on_disk() {
    let stage = Stage::with_disk(MEMORY, OPEN, Some(Disk::of(DISK, MEMORY))).await;
    assert_eq!(stage.pass(100).await, 4);
    let everything = stage.budget.try_lease(MEMORY).unwrap();
    assert_eq!(everything.bytes(), MEMORY, "what waits for the disk keeps nobody waiting");
    drop(everything);
    stage.shared.cache.disk().settled().await;
    assert_eq!(stage.pass(100).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_full_is_done_without() {
    let stage = Stage::with_disk(0, OPEN, Some(Disk::full(DISK, MEMORY))).await;
    for _ in 0..3 {
        assert_eq!(stage.pass(100).await, 4);
    }
    let stage = Stage::with_disk(MEMORY, OPEN, Some(Disk::full(DISK, MEMORY))).await;
    assert_eq!((stage.pass(100).await, stage.pass(100).await), (4, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_finds_no_room_to_wait_in_is_decoded_again() {
    let stage = Stage::with_disk(0, OPEN, Some(Disk::of(DISK, 1))).await;
    // A chunk of a hundred ids fits into the 1 KiB that may wait, one of five hundred never does.
    assert_eq!((stage.pass(500).await, stage.pass(500).await), (4, 4));
    stage.pass(100).await;
    // Whatever had to be left out before.
    while stage.pass(100).await > 0 {}
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_decoded_again_and_fed_to_nobody() {
    let stage = Stage::with_disk(0, OPEN, Some(Disk::of(DISK, MEMORY))).await;
    assert_eq!((stage.pass(100).await, stage.pass(100).await), (4, 0));
    stage.shared.cache.disk().damage();
    assert_eq!((stage.pass(100).await, stage.pass(100).await), (4, 0), "it is written again");
    stage.shared.cache.disk().cut();
    assert_eq!((stage.pass(100).await, stage.pass(100).await), (4, 0), "it is written again");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_at_once_over_a_disk_that_is_too_small_read_every_row_once() {
    // Some thirty of eighty chunks, and half of them again.
    let stage = Arc::new(Stage::with_disk(4_000, OPEN, Some(Disk::of(120 << 10, MEMORY))).await);
    let mut reading = Vec::new();
    for chunk_rows in [40, 50, 64, 70, 100, 130] {
        let stage = Arc::clone(&stage);
        reading.push(tokio::spawn(async move {
            for _ in 0..6 {
                assert_eq!(read(&mut stage.rows(chunk_rows).await, usize::MAX).await, all());
            }
        }));
    }
    for reader in reading {
        reader.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_whose_block_is_only_partly_on_disk_decodes_the_rest_in_one_go() {
    let stage = Stage::with_disk(0, OPEN, Some(Disk::of(DISK, MEMORY))).await;
    // The first half of every block.
    for block in 0..4 {
        let positions = block * 1_000..block * 1_000 + 500;
        let mut rows = Rows::new(stage.source(100).await, Area::Lane(0), positions, Stripe::WHOLE);
        assert_eq!(read(&mut rows, usize::MAX).await.len(), 500);
    }
    stage.shared.cache.disk().settled().await;
    assert_eq!(stage.asked().0, 4);
    assert_eq!((stage.pass(100).await, stage.pass(100).await), (4, 0));
}
