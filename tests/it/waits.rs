//! Where a feed's time went, as a sidecar tells it of a trainer that had to wait.

use std::process::Command;
use std::time::Duration;

use penstock_launcher::report::FeedRecord;
use penstock_launcher::report::metrics::Metrics;
use penstock_ring::NextError;
use penstock_tests::data::{self, Shape};
use penstock_tests::process::{Daemon, penstock_bin};
use serde_json::{Value, json};

use crate::sidecar_bed::{LONG, open};

const SHAPE: Shape = Shape { files: 1, rows_per_file: 4000, row_group: 100, payload: Some(1024) };

#[test]
fn a_trainer_that_waits_for_a_frozen_gateway_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    data::write(&dir.path().join("data"), SHAPE);
    let dataset = format!("d={}", dir.path().join("data").display());
    let gateway = Daemon::gateway(&["--dataset", &dataset, "--admin", "127.0.0.1:0"]);
    let socket = dir.path().join("sidecar.sock");
    let path = socket.to_str().unwrap();
    let common = ["--gateway", &gateway.address, "--memory", "1MiB", "--admin", "127.0.0.1:0"];
    let sidecar = Daemon::start(&[&["sidecar", "--listen", path], &common[..]].concat());

    let consumer = open(&socket, &json!({"dataset": "d", "batch_size": 20}), 1);
    gateway.signal("-STOP");
    let mut steps = 0;
    loop {
        match consumer.next(Duration::from_millis(100)) {
            Ok(batch) => assert!(batch.is_some(), "the rest is with the gateway"),
            Err(NextError::NotYet { .. }) => break,
            Err(error) => panic!("{error}"),
        }
        steps += 1;
    }
    gateway.signal("-CONT");
    while consumer.next(LONG).unwrap().is_some() {
        steps += 1;
    }

    let [feed] = FeedRecord::all(&Metrics::parse(&sidecar.metrics())).try_into().unwrap();
    assert_eq!((feed.feed.as_str(), feed.rank, feed.steps, feed.rows), ("test", 0, steps, 4000));
    assert!(feed.waited() > 0.0 && feed.wait_p99_seconds > 0.0, "{feed:?}");
    assert!(feed.waited() <= feed.open_seconds, "{feed:?}");
    assert!(
        feed.waited_seconds.len() == 5 && feed.verdict.is_some() && feed.slow_stage.is_some(),
        "{feed:?}"
    );
    assert!(feed.slots > 0, "it is open until its trainer leaves: {feed:?}");

    let [gateway, sidecar] = [&gateway, &sidecar].map(|daemon| daemon.admin.clone().unwrap());
    let looked = Command::new(penstock_bin())
        .args(["top", "--once", "--json", "--sidecar", &sidecar, "--gateway", &gateway])
        .output()
        .unwrap();
    let sample: Value = serde_json::from_slice(&looked.stdout).unwrap();
    let rank = &sample["ranks"][0];
    assert_eq!((&rank["feed"], &rank["verdict"]), (&json!("test"), &json!(feed.verdict)), "{sample}");
    assert!(
        rank["rows_per_second"].as_f64().unwrap() > 0.0 && rank["waiting"].as_f64().unwrap() > 0.0,
        "{rank}"
    );
    assert!(sample["gateways"][0]["memory_bytes"].as_u64().unwrap() > 0, "{sample}");
}
