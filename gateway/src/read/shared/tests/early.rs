//! Blocks that are decoded before their turn.

use std::thread::available_parallelism;

use super::*;
use crate::read::cache::Key;

/// As often as somebody looks.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let looking = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), looking).await.unwrap_or_else(|_| panic!("never {what}"));
}

fn has_early_blocks() -> bool {
    available_parallelism().is_ok_and(|cores| cores.get() > 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_block_is_decoded_while_nobody_asks_for_it() {
    let stage = Stage::new(MEMORY, usize::MAX >> 3).await;
    let mut rows = stage.rows(100).await;
    let mut ids = read(&mut rows, 1).await;
    if has_early_blocks() {
        let content = Content::of("d");
        let last_of = |block| Key::near(content, block, 100).any(|key| stage.shared.cache.has(&key, 9));
        until("decoded", || last_of(1)).await;
        assert!(!last_of(0), "the first block waits for its reader");
    }
    ids.extend(read(&mut rows, usize::MAX).await);
    assert_eq!(ids, all());
    drop(rows);
    assert_eq!(stage.budget.leased(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_room_blocks_wait_for_their_turn() {
    let stage = Stage::new(0, usize::MAX >> 3).await;
    let mut rows = stage.rows(100).await;
    let own = stage.budget.leased();
    // As much is left as another stream like this one needs.
    let rest = stage.budget.try_lease(MEMORY - 2 * own).unwrap();
    let mut ids = Vec::new();
    while ids.len() < ROWS as usize {
        ids.extend(read(&mut rows, 1).await);
        assert_eq!(stage.budget.leased(), MEMORY - own);
    }
    assert_eq!(ids, all());
    drop((rows, rest));
    assert_eq!(stage.budget.leased(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_larger_than_told_are_decoded_in_their_turn() {
    let stage = Stage::new(0, usize::MAX >> 3).await;
    // Room for one chunk of a hundred ids, and for two.
    for batch_bytes in [900, 1_700] {
        let lie = |need: &mut Need| (need.row_bytes, need.batch_bytes) = (0, batch_bytes);
        let source = stage.source_of(100, lie).await;
        let mut rows = Rows::new(source, Area::Lane(0), 0..ROWS, Stripe::WHOLE);
        assert_eq!(read(&mut rows, usize::MAX).await, all());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_cannot_be_read_is_told_in_its_turn() {
    let stage = Stage::new(0, 2).await;
    let mut rows = stage.rows(100).await;
    // The first block and the second come; the store then fails.
    let ids = read(&mut rows, 1).await;
    stage.gate.passes.close();
    let mut count = ids.len();
    let error = loop {
        match rows.next().await {
            Ok(Some(batch)) => count += batch.num_rows(),
            Ok(None) => panic!("all rows came of a store that fails"),
            Err(error) => break error,
        }
    };
    assert!(count >= 1_000 && count % 1_000 == 0, "{count} rows came before {error}");
}
