//! A gateway and its memory.

use futures::TryStreamExt as _;
use penstock_tests::data::{self, Shape};
use penstock_tests::process::Daemon;

use crate::client::Client;

const MIB: f64 = 1_048_576.0;
const MEMORY_MIB: f64 = 32.0;

/// Ten times the gateway's memory; a row is 3 KiB.
const LARGE: Shape = Shape { files: 4, rows_per_file: 28_000, row_group: 400, payload: Some(3_060) };

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_stays_within_its_memory_while_a_reader_stalls() {
    let dir = tempfile::tempdir().unwrap();
    data::write(dir.path(), LARGE);
    assert!((LARGE.rows() * 3_072) as f64 >= 10.0 * MEMORY_MIB * MIB);
    let dataset = format!("d={}", dir.path().display());
    let memory = format!("{MEMORY_MIB}MiB");
    let gateway = Daemon::gateway(&["--dataset", &dataset, "--memory", &memory, "--admin", "127.0.0.1:0"]);
    let at_start = gateway.metric("process_resident_memory_bytes").unwrap();

    let mut stalled = Client::connect(&gateway.address).await;
    let mut reader = Client::connect(&gateway.address).await;
    for shuffle in ["none", "rows"] {
        let feed = format!(
            r#"{{"dataset":"d","batch_size":96,"shuffle":"{shuffle}","shuffle_bytes":1500000,"remainder":"keep"}}"#
        );
        let info = reader.info(&feed).await.unwrap();
        let ticket = info.endpoint[0].ticket.clone().unwrap().ticket.to_vec();
        let mut stream = stalled.stream(ticket.clone()).await.unwrap();
        assert!(stream.try_next().await.unwrap().is_some());

        let mut ids = reader.ids(ticket).await.unwrap();
        ids.sort_unstable();
        assert!(ids.into_iter().eq(0..LARGE.rows() as i64));
        assert!(gateway.metric("penstock_gateway_budget_bytes").unwrap() <= MEMORY_MIB * MIB);
    }
    let peak = gateway.metric("process_resident_memory_peak_bytes").unwrap();
    // The allocator keeps some of what was given back.
    let allowed = 2.0 * MEMORY_MIB + 32.0;
    assert!((peak - at_start) / MIB < allowed, "{} MiB", (peak - at_start) / MIB);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_memory_does_not_keep_is_fed_from_disk_and_nothing_is_left_there() {
    const SET: Shape = Shape { files: 2, rows_per_file: 1_500, row_group: 400, payload: Some(3_060) };
    let dir = tempfile::tempdir().unwrap();
    data::write(dir.path(), SET);
    let dataset = format!("d={}", dir.path().display());
    let place = dir.path().join("cache");
    let disk = ["--cache", "0", "--cache-dir", place.to_str().unwrap(), "--cache-disk", "64MiB"];
    let mut gateway =
        Daemon::gateway(&[&["--dataset", &dataset, "--admin", "127.0.0.1:0"], disk.as_slice()].concat());
    let metric = |name: &str| gateway.metric(&format!("penstock_gateway_cache_{name}")).unwrap_or(0.0);

    let mut reader = Client::connect(&gateway.address).await;
    // What the disk could not take at the speed of one epoch it takes in the next ones.
    let mut epoch = 0;
    loop {
        let decoded = metric("misses_total");
        let feed = format!(
            r#"{{"dataset":"d","batch_size":96,"shuffle":"blocks","epoch":{epoch},"remainder":"keep"}}"#
        );
        let info = reader.info(&feed).await.unwrap();
        let ticket = info.endpoint[0].ticket.clone().unwrap().ticket.to_vec();
        let mut ids = reader.ids(ticket).await.unwrap();
        ids.sort_unstable();
        assert!(ids.into_iter().eq(0..SET.rows() as i64));
        // What is found on its way to the disk is no miss, and not there yet.
        let holds_all = metric("disk_bytes") >= (SET.rows() * 3_060) as f64;
        if metric("misses_total") == decoded && holds_all {
            break;
        }
        epoch += 1;
        assert!(epoch < 100, "the disk does not come to hold the set");
    }
    let used = metric("disk_bytes");
    assert!(epoch > 0 && metric("disk_hits_total") > 0.0 && metric("bytes") == 0.0);
    assert!(used <= 64.0 * MIB, "{used}");

    gateway.kill();
    assert_eq!(place.read_dir().unwrap().count(), 0);
}
