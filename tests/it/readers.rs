//! Many readers of one gateway, and among them some that stall, trickle and leave.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use futures::TryStreamExt as _;
use futures::future::try_join_all;
use penstock_tests::data::{self, Shape};
use penstock_tests::process::Daemon;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::Client;
use crate::sidecar_bed::{LONG, are_all};

const MEMORY: u64 = 448 << 20;
/// What a gateway may weigh beyond the memory that it was given.
const BESIDE: u64 = 256_000_000;

/// Each reads a rank's share; with the three sick ones they are 32.
const HEALTHY: u32 = 29;
const EPOCHS: u64 = 8;
const SHAPE: Shape = Shape { files: 4, rows_per_file: 1_450, row_group: 50, payload: Some(8192) };

/// What the sick ones read, each all of it: more than the gateway may weigh, out of one file with many names.
const LARGE_FILE: Shape = Shape { files: 1, rows_per_file: 2_000, row_group: 100, payload: Some(8192) };
const NAMES: usize = 50;
/// Batches that the trickling one takes, and streams that the leaving one leaves, while the healthy ones read.
const SICK_TURNS: u64 = 20;

/// A gateway that all can read at once.
fn gateway(dir: &Path) -> Daemon {
    let (shared, large) = (dir.join("shared"), dir.join("large"));
    data::write(&shared, SHAPE);
    data::write(&large, LARGE_FILE);
    for name in 1..NAMES {
        fs::hard_link(large.join("part-00000.parquet"), large.join(format!("part-{name:05}.parquet")))
            .unwrap();
    }
    let bytes = LARGE_FILE.rows() * LARGE_FILE.payload.unwrap() * NAMES;
    assert!(bytes as u64 > MEMORY + BESIDE);
    let datasets = [format!("shared={}", shared.display()), format!("large={}", large.display())];
    let memory = MEMORY.to_string();
    Daemon::gateway(&[
        "--dataset",
        &datasets[0],
        "--dataset",
        &datasets[1],
        "--memory",
        &memory,
        "--admin",
        "127.0.0.1:0",
    ])
}

async fn ticket(client: &mut Client, feed: &str) -> Vec<u8> {
    let info = client.info(feed).await.unwrap();
    info.endpoint[0].ticket.clone().unwrap().ticket.to_vec()
}

/// How many epochs the healthy ones have read together.
type Progress = watch::Sender<u64>;

/// Reads a rank's share of every epoch; gives the ids of each.
async fn healthy(address: String, rank: u32, progress: Progress) -> Vec<Vec<i64>> {
    let mut client = Client::connect(&address).await;
    let mut epochs = Vec::new();
    for epoch in 0..EPOCHS {
        let feed = format!(
            r#"{{"dataset":"shared","batch_size":290,"world_size":{HEALTHY},"rank":{rank},"lanes":{HEALTHY},"epoch":{epoch},
                "shuffle":"rows","shuffle_bytes":15000000}}"#
        );
        let ticket = ticket(&mut client, &feed).await;
        epochs.push(client.ids(ticket).await.unwrap());
        progress.send_modify(|epochs| *epochs += 1);
    }
    epochs
}

/// All healthy ones at once: the ids of each epoch, and how long it took.
async fn all_healthy(gateway: &Daemon, progress: &Progress) -> (Vec<Vec<i64>>, Duration) {
    let began = Instant::now();
    let ranks = (0..HEALTHY).map(|rank| healthy(gateway.address.clone(), rank, progress.clone()));
    let ranks = try_join_all(ranks.map(tokio::spawn)).await.unwrap();
    let of_epoch = |epoch: usize| ranks.iter().flat_map(|epochs| epochs[epoch].clone()).collect();
    ((0..EPOCHS as usize).map(of_epoch).collect(), began.elapsed())
}

const ALL: &str = r#"{"dataset":"large","batch_size":100}"#;

/// Takes a batch now and then, or leaves now and then and comes back, as the healthy ones get on.
async fn sick(address: String, leaves: bool, mut progress: watch::Receiver<u64>) {
    let mut client = Client::connect(&address).await;
    let ticket = ticket(&mut client, ALL).await;
    let mut stream = client.stream(ticket.clone()).await.unwrap();
    for turn in 0..SICK_TURNS {
        let due = turn * EPOCHS * u64::from(HEALTHY) / SICK_TURNS;
        progress.wait_for(|&epochs| epochs >= due).await.unwrap();
        assert!(stream.try_next().await.unwrap().is_some());
        if leaves {
            stream = client.stream(ticket.clone()).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_32_readers_the_sick_ones_cost_the_others_nothing_and_the_gateway_no_more_than_its_memory() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path());
    let progress = watch::Sender::new(0);
    let (expected, alone) = all_healthy(&gateway, &progress).await;
    assert!(expected.iter().all(|ids| are_all(ids, SHAPE.rows())));

    let mut client = Client::connect(&gateway.address).await;
    let all = ticket(&mut client, ALL).await;
    let mut stalled = client.stream(all).await.unwrap();
    assert!(stalled.try_next().await.unwrap().is_some());
    progress.send_replace(0);
    let mut others = JoinSet::new();
    for leaves in [false, true] {
        others.spawn(sick(gateway.address.clone(), leaves, progress.subscribe()));
    }
    let (ids, beside_sick) = all_healthy(&gateway, &progress).await;
    assert!(ids == expected);
    others.join_all().await;
    // Time in which a gateway that reads on for who stalls would have read all of it for them.
    let all = ticket(&mut client, ALL).await;
    let mut whole = client.stream(all).await.unwrap();
    while whole.try_next().await.unwrap().is_some() {}
    assert!(stalled.try_next().await.unwrap().is_some(), "who stalls is waited for");
    let peak = gateway.metric("process_resident_memory_peak_bytes").unwrap();
    #[expect(clippy::print_stderr, reason = "a rate is for people to judge, on a machine that they know")]
    {
        eprintln!(
            "{HEALTHY} readers took {alone:.2?}, beside sick ones {beside_sick:.2?}; the gateway weighed {} MiB of {}",
            peak as u64 >> 20,
            MEMORY >> 20
        );
    }
    assert!(peak <= (MEMORY + BESIDE) as f64, "{peak}");

    // Whoever left holds nothing any more.
    drop(stalled);
    let began = Instant::now();
    for held in ["penstock_gateway_streams", "penstock_gateway_budget_bytes"] {
        while gateway.metric(held).unwrap() > 0.0 {
            assert!(began.elapsed() < LONG, "{held} does not come down");
            tokio::task::yield_now().await;
        }
    }
}
