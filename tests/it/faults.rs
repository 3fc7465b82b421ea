//! Two gateways and a sidecar as processes of their own, a data set ten times what they may hold
//! together, and trainers that must not notice what happens to the gateways.

use std::path::PathBuf;

use penstock_tests::data::{self, Shape};
use penstock_tests::process::Daemon;
use penstock_tests::trainer::feed_ranks;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::sidecar_bed::{Fed, LONG, are_all, global, ids_of, open, read_some};

const MIB: u64 = 1 << 20;
/// Enough for the streams of both ranks, so that one gateway can serve them alone.
const GATEWAY_MEMORY: u64 = 27 * MIB;
const SIDECAR_MEMORY: u64 = 2 * MIB;
/// What a process weighs without data: code, threads, allocator.
const PROCESS: u64 = 96 * MIB;
const SHAPE: Shape = Shape { files: 4, rows_per_file: 18_000, row_group: 60, payload: Some(8192) };
const WORLD: u32 = 2;

/// A data set and a key for a fleet.
struct Site {
    dir: TempDir,
    dataset: String,
    /// Of each gateway.
    memory: u64,
}

struct Fleet {
    gateways: Vec<Daemon>,
    sidecar: Daemon,
    socket: PathBuf,
}

impl Site {
    fn new(shape: Shape, memory: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        data::write(&dir.path().join("data"), shape);
        std::fs::write(dir.path().join("key"), "a secret of at least thirty-two bytes").unwrap();
        let dataset = format!("d={}", dir.path().join("data").display());
        Self { dir, dataset, memory }
    }

    /// Two gateways and a sidecar; with `socket`, the second gateway lends memory.
    fn start(&self, socket: Option<&str>) -> Fleet {
        let key = self.dir.path().join("key");
        let memory = self.memory.to_string();
        let common = [
            "--dataset",
            &self.dataset,
            "--ticket-key-file",
            key.to_str().unwrap(),
            "--memory",
            &memory,
            "--admin",
            "127.0.0.1:0",
        ];
        let first = Daemon::gateway(&common);
        // The sidecar is told of the second alone; it is from its answer that it learns of the first.
        let of_first = first.address.strip_prefix("grpc://").unwrap();
        let path = socket.map(|name| self.dir.path().join(name));
        let socket: Vec<&str> =
            path.iter().flat_map(|path| ["--unix-socket", path.to_str().unwrap()]).collect();
        let second = Daemon::gateway(&[&common[..], &["--fleet", of_first], &socket].concat());
        let socket = self.dir.path().join("sidecar.sock");
        let memory = SIDECAR_MEMORY.to_string();
        let sidecar = Daemon::start(&[
            "sidecar",
            "--listen",
            socket.to_str().unwrap(),
            "--gateway",
            &second.address,
            "--memory",
            &memory,
            "--admin",
            "127.0.0.1:0",
        ]);
        Fleet { gateways: vec![first, second], sidecar, socket }
    }
}

impl Fleet {
    /// Feeds both ranks; `disturb` comes when each has read three tenths of its steps.
    fn feed(&mut self, feed: &Value, disturb: impl FnOnce(&mut [Daemon])) -> Vec<Vec<Fed>> {
        feed_ranks(&self.socket, feed, WORLD, || disturb(&mut self.gateways))
    }
}

/// The value of a metric on an admin port.
fn scrape(daemon: &Daemon, metric: &str) -> u64 {
    daemon.metric(metric).unwrap_or_else(|| panic!("no {metric} of {}", daemon.address)) as u64
}

fn have_served(gateways: &[Daemon]) {
    for gateway in gateways {
        assert!(scrape(gateway, "penstock_gateway_rows_total") > 0, "{} served nothing", gateway.address);
    }
}

fn feed() -> Value {
    json!({
        "dataset": "d", "batch_size": 24, "world_size": WORLD, "seed": 3,
        "shuffle": "rows", "shuffle_bytes": MIB, "lanes": 2,
    })
}

#[test]
fn trainers_do_not_notice_a_gateway_that_dies_or_leaves() {
    let payload = SHAPE.rows() as u64 * SHAPE.payload.unwrap() as u64;
    assert!(payload >= 10 * (2 * GATEWAY_MEMORY + SIDECAR_MEMORY));
    let site = Site::new(SHAPE, GATEWAY_MEMORY);
    let feed = feed();

    let mut fleet = site.start(None);
    let undisturbed = fleet.feed(&feed, |gateways| have_served(gateways));
    assert!(are_all(&ids_of(&global(&undisturbed), 0), SHAPE.rows()));
    let peak = |daemon| scrape(daemon, "process_resident_memory_peak_bytes");
    assert!(peak(&fleet.sidecar) < SIDECAR_MEMORY + PROCESS, "{}", peak(&fleet.sidecar));
    for gateway in &fleet.gateways {
        assert!(peak(gateway) < GATEWAY_MEMORY + PROCESS, "{}", peak(gateway));
    }

    let killed = fleet.feed(&feed, |gateways| {
        have_served(gateways);
        gateways[0].kill();
    });
    assert!(killed == undisturbed, "killed");
    assert!(scrape(&fleet.sidecar, "penstock_sidecar_reconnects_total") > 0);
    drop(fleet);

    let mut fleet = site.start(None);
    let mut exit = None;
    let drained = fleet.feed(&feed, |gateways| {
        gateways[1].terminate();
        exit = Some(gateways[1].wait());
    });
    assert!(drained == undisturbed, "drained");
    assert!(exit.is_some_and(|status| status.success()));
    fleet.sidecar.terminate();
    assert!(fleet.sidecar.wait().success());
    assert!(!fleet.socket.exists());
}

/// More than all that gateways and sidecar may hold, and memory for both ranks' streams to be lent.
const LENT_SHAPE: Shape = Shape { rows_per_file: 6_000, ..SHAPE };
const LENDING_MEMORY: u64 = 64 * MIB;

#[test]
fn trainers_do_not_notice_that_a_gateway_which_lent_dies_or_leaves() {
    let payload = LENT_SHAPE.rows() as u64 * LENT_SHAPE.payload.unwrap() as u64;
    assert!(payload > 2 * LENDING_MEMORY + SIDECAR_MEMORY);
    let site = Site::new(LENT_SHAPE, LENDING_MEMORY);
    let feed = feed();
    let lent = |gateways: &[Daemon]| scrape(&gateways[1], "penstock_gateway_lent_bytes_total");

    let undisturbed = site.start(None).feed(&feed, |_| {});
    assert!(are_all(&ids_of(&global(&undisturbed), 0), LENT_SHAPE.rows()));

    let mut fleet = site.start(Some("first.sock"));
    let killed = fleet.feed(&feed, |gateways| {
        assert!(lent(gateways) > 0, "nothing was lent");
        gateways[1].kill();
    });
    assert!(killed == undisturbed, "killed");
    assert!(scrape(&fleet.sidecar, "penstock_sidecar_reconnects_total") > 0);
    drop(fleet);

    let mut fleet = site.start(Some("second.sock"));
    let mut exit = None;
    let drained = fleet.feed(&feed, |gateways| {
        assert!(lent(gateways) > 0, "nothing was lent");
        gateways[1].terminate();
        exit = Some(gateways[1].wait());
    });
    assert!(drained == undisturbed, "drained");
    assert!(exit.is_some_and(|status| status.success()));
}

#[test]
fn a_sidecar_that_dies_is_named_at_once() {
    let shape = Shape { files: 1, rows_per_file: 100_000, row_group: 1000, payload: Some(1024) };
    let dir = tempfile::tempdir().unwrap();
    data::write(&dir.path().join("data"), shape);
    let dataset = format!("d={}", dir.path().join("data").display());
    let gateway = Daemon::gateway(&["--dataset", &dataset]);
    let socket = dir.path().join("sidecar.sock");
    let mut sidecar =
        Daemon::start(&["sidecar", "--listen", socket.to_str().unwrap(), "--gateway", &gateway.address]);
    let consumer = open(&socket, &json!({"dataset": "d", "batch_size": 100}), 1);
    assert_eq!(read_some(&consumer, 3).len(), 3);
    sidecar.kill();
    // What lies in the ring is still whole; after it the death is said, and at once.
    let error = loop {
        match consumer.next(LONG) {
            Ok(batch) => assert!(batch.is_some(), "an end that nobody said"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("sidecar"), "{error}");
    assert!(!error.contains('\n'), "{error}");
}
