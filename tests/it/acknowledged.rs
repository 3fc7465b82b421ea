//! Feeds whose steps are done when they are acknowledged: what is offered again, to whom, and when the
//! end is everybody's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use penstock_ring::{Batch, Consumer, NextError};
use penstock_tests::data::Shape;
use serde_json::json;

use crate::sidecar_bed::{Bed, LONG, are_all};

/// 200 rows, ten global batches of 20.
const SHAPE: Shape = Shape { files: 4, rows_per_file: 50, row_group: 20, payload: None };
/// Longer than a step takes, shorter than anybody wants to wait for nothing.
const SOON: Duration = Duration::from_millis(300);

/// Opens one rank's part in a delivery.
fn open(socket: &Path, delivery: &str, rank: u32, world: u32, patience: f64) -> Consumer {
    let feed = json!({
        "dataset": "d", "batch_size": 20, "shuffle": "rows", "seed": 3, "rank": rank, "world_size": world,
    });
    let acknowledgement = json!({"delivery": delivery, "patience_seconds": patience});
    let request = json!({"version": 1, "feed": feed, "acknowledgement": acknowledgement});
    Consumer::open(socket, &request.to_string(), LONG).unwrap()
}

fn ids(batch: &Batch) -> Vec<i64> {
    batch.column(0).data.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect()
}

/// Takes and acknowledges so many batches, or all; their steps and ids.
fn train(consumer: &Consumer, batches: usize) -> (Vec<u64>, Vec<i64>) {
    let (mut steps, mut seen) = (Vec::new(), Vec::new());
    while steps.len() < batches
        && let Some(batch) = consumer.next(LONG).unwrap()
    {
        consumer.acknowledge(batch.epoch(), batch.step()).unwrap();
        steps.push(batch.step());
        seen.extend(ids(&batch));
    }
    (steps, seen)
}

/// Runs a trainer's story on a thread of its own.
async fn story<T: Send + 'static>(bed: &Bed, tell: impl FnOnce(PathBuf) -> T + Send + 'static) -> T {
    let socket = bed.socket.clone();
    tokio::task::spawn_blocking(move || tell(socket)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trainer_that_comes_back_gets_what_its_predecessor_left_undone() {
    let bed = Bed::new(SHAPE).await;
    story(&bed, |socket| {
        let first = open(&socket, "a", 0, 1, 60.0);
        let (steps, mut seen) = train(&first, 3);
        assert_eq!(steps, [0, 1, 2]);
        // Two are on its hands and one is done out of turn when it dies.
        let [third, fourth, fifth] = std::array::from_fn(|_| first.next(LONG).unwrap().unwrap());
        first.acknowledge(0, fourth.step()).unwrap();
        seen.extend(ids(&fourth));
        drop((third, fourth, fifth, first));
        let second = open(&socket, "a", 0, 1, 60.0);
        let (steps, rest) = train(&second, usize::MAX);
        assert_eq!(steps, [3, 5, 6, 7, 8, 9]);
        seen.extend(rest);
        assert!(are_all(&seen, 200));
        // Whoever comes when all is done learns just that.
        assert_eq!(train(&open(&socket, "a", 0, 1, 60.0), 1).0, [] as [u64; 0]);
        // Another pass is another delivery.
        assert_eq!(train(&open(&socket, "b", 0, 1, 60.0), 1).0, [0]);
    })
    .await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_dropped_unacknowledged_comes_again_before_the_end() {
    let bed = Bed::new(SHAPE).await;
    story(&bed, |socket| {
        let consumer = open(&socket, "a", 0, 1, 60.0);
        drop(consumer.next(LONG).unwrap());
        let (steps, _) = train(&consumer, 5);
        assert_eq!(steps, [1, 2, 3, 4, 5]);
        let held = consumer.next(LONG).unwrap().unwrap();
        drop(consumer.next(LONG).unwrap());
        let (steps, _) = train(&consumer, 4);
        assert_eq!(steps, [8, 9, 0, 7], "in order, a round after the other");
        // The end is held for the one on our hands.
        assert!(matches!(consumer.next(SOON), Err(NextError::NotYet { .. })));
        consumer.acknowledge(0, held.step()).unwrap();
        assert!(consumer.next(LONG).unwrap().is_none());
    })
    .await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_later_of_two_consumers_is_fed() {
    let bed = Bed::new(SHAPE).await;
    story(&bed, |socket| {
        let first = open(&socket, "a", 0, 1, 60.0);
        let batch = first.next(LONG).unwrap().unwrap();
        let second = open(&socket, "a", 0, 1, 60.0);
        let told = loop {
            match first.next(LONG) {
                Ok(batch) => assert!(batch.is_some()),
                Err(error) => break error.to_string(),
            }
        };
        assert!(told.contains("another consumer has taken over"), "{told}");
        assert_eq!(train(&second, 1).0, [batch.step()]);
    })
    .await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_is_held_until_every_rank_is_done_however_late_it_joins() {
    let bed = Bed::new(SHAPE).await;
    story(&bed, |socket| {
        let early = open(&socket, "a", 0, 2, 60.0);
        let (steps, mut seen) = train(&early, 10);
        assert_eq!(steps.len(), 10);
        assert!(matches!(early.next(SOON), Err(NextError::NotYet { .. })));
        let late = open(&socket, "a", 1, 2, 60.0);
        seen.extend(train(&late, 9).1);
        assert!(matches!(early.next(SOON), Err(NextError::NotYet { .. })));
        seen.extend(train(&late, usize::MAX).1);
        assert!(early.next(LONG).unwrap().is_none());
        assert!(are_all(&seen, 200));
    })
    .await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn patience_ends_with_the_names_of_those_who_are_missing() {
    let bed = Bed::new(SHAPE).await;
    story(&bed, |socket| {
        let slow = open(&socket, "a", 1, 3, 60.0);
        train(&slow, 4);
        let done = open(&socket, "a", 0, 3, 0.5);
        train(&done, 10);
        let told = done.next(LONG).map(drop).unwrap_err().to_string();
        let missing = "missing: rank 1 (4 of 10 steps acknowledged), rank 2 (never heard of)";
        assert!(told.contains(missing), "{told}");
        // One that never says that it is done with what it got is missed too.
        let forgetful = open(&socket, "b", 0, 1, 0.5);
        train(&forgetful, 9);
        let _held = forgetful.next(LONG).unwrap().unwrap();
        let told = forgetful.next(LONG).map(drop).unwrap_err().to_string();
        assert!(told.contains("rank 0 (9 of 10 steps acknowledged)"), "{told}");
    })
    .await;
    bed.end().await;
}
