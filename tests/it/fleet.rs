//! Three gateways that decode lanes for each other, as processes of their own, and trainers that must not notice
//! what happens to any of them.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use penstock_sidecar::TlsConfig as Trust;
use penstock_tests::data::{self, Shape};
use penstock_tests::process::Daemon;
use penstock_tests::trainer::{feed_ranks, open, read, read_some};
use serde_json::json;
use tempfile::TempDir;

use crate::sidecar_bed::{Bed, Fed, are_all, global, ids_of};

/// Large enough that nothing between a file and a trainer holds what is left when three tenths are read.
const SHAPE: Shape = Shape { files: 4, rows_per_file: 4_500, row_group: 60, payload: Some(8192) };
const WORLD: u32 = 2;
const LENT: &str = "penstock_gateway_fleet_rows_total";
const FALLEN_BACK: &str = "penstock_gateway_lanes_fallen_back_total";
const PULLED_AGAIN: &str = "penstock_gateway_lanes_pulled_again_total";
/// Between looks at what gateways count, a step each.
const LOOK: Duration = Duration::from_millis(60);

/// A data set, a key and a list for a fleet.
struct Site {
    dir: TempDir,
    dataset: String,
}

impl Site {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        data::write(&dir.path().join("data"), SHAPE);
        std::fs::write(dir.path().join("key"), "a secret of at least thirty-two bytes").unwrap();
        let dataset = format!("d={}", dir.path().join("data").display());
        Self { dir, dataset }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn list(&self, gateways: u32) {
        let lines: Vec<_> = (0..gateways)
            .map(|number| format!("grpc+unix://{}", self.path(&format!("{number}.sock"))))
            .collect();
        // In one piece, for gateways read it when they like.
        std::fs::write(self.path("list.new"), lines.join("\n")).unwrap();
        std::fs::rename(self.path("list.new"), self.path("list")).unwrap();
    }

    fn gateway(&self, number: u32) -> Daemon {
        Daemon::start(&[
            "gateway",
            "--listen",
            &format!("unix:{}", self.path(&format!("{number}.sock"))),
            "--dataset",
            &self.dataset,
            "--ticket-key-file",
            &self.path("key"),
            "--fleet",
            &format!("file:{}", self.path("list")),
            "--memory",
            "192MiB",
            "--admin",
            "127.0.0.1:0",
        ])
    }

    fn start(&self, gateways: u32) -> Fleet {
        self.list(gateways);
        let gateways: Vec<_> = (0..gateways).map(|number| self.gateway(number)).collect();
        let socket = self.path("sidecar.sock");
        let sidecar = Daemon::start(&[
            "sidecar",
            "--listen",
            &socket,
            "--gateway",
            &gateways[0].address,
            "--memory",
            "2MiB",
            "--admin",
            "127.0.0.1:0",
        ]);
        Fleet { gateways, _sidecar: sidecar, socket: socket.into() }
    }
}

struct Fleet {
    /// The first two compose a rank each. Of six lanes each gateway of three owns two.
    gateways: Vec<Daemon>,
    _sidecar: Daemon,
    socket: PathBuf,
}

impl Fleet {
    /// Feeds both ranks; `disturb` comes when each has read three tenths of its steps.
    fn feed(&mut self, disturb: impl FnOnce(&mut Vec<Daemon>)) -> Vec<Vec<Fed>> {
        let feed = json!({
            "dataset": "d", "batch_size": 24, "world_size": WORLD, "seed": 3,
            "shuffle": "rows", "shuffle_bytes": 1 << 20, "lanes": 6,
        });
        feed_ranks(&self.socket, &feed, WORLD, || disturb(&mut self.gateways))
    }
}

/// A counter's sum over some gateways; who never counted has none.
fn sum(gateways: &[Daemon], metric: &str) -> u64 {
    gateways.iter().filter_map(|gateway| gateway.metric(metric)).sum::<f64>() as u64
}

/// Until every gateway knows so many.
fn know(gateways: &[Daemon], count: u32) {
    let size = |gateway: &Daemon| gateway.metric("penstock_gateway_fleet_size");
    while gateways.iter().any(|gateway| size(gateway) != Some(f64::from(count))) {
        thread::yield_now();
    }
}

#[test]
fn trainers_do_not_notice_what_becomes_of_gateways_that_decode_for_each_other() {
    let site = Site::new();
    let expected = site.start(1).feed(|_| {});
    assert!(are_all(&ids_of(&global(&expected), 0), SHAPE.rows()));

    let mut fleet = site.start(3);
    assert!(fleet.feed(|_| {}) == expected, "undisturbed");
    assert!(sum(&fleet.gateways[2..], LENT) > 0, "nothing was pulled");
    // The one that only decodes for others.
    let killed = fleet.feed(|gateways| gateways[2].kill());
    assert!(killed == expected, "an owner killed");
    assert!(sum(&fleet.gateways[..2], FALLEN_BACK) > 0);
    drop(fleet);

    // It answers no more, but the kernel goes on for it.
    let mut fleet = site.start(3);
    assert!(fleet.feed(|gateways| gateways[2].signal("-STOP")) == expected, "frozen");
    assert!(sum(&fleet.gateways[..2], FALLEN_BACK) > 0);
    drop(fleet);

    // One that composes and decodes for others.
    let mut fleet = site.start(3);
    let restarted = fleet.feed(|gateways| {
        gateways[1].kill();
        gateways[1] = site.gateway(1);
    });
    assert!(restarted == expected, "restarted");
    drop(fleet);

    let mut fleet = site.start(3);
    let mut exit = None;
    let drained = fleet.feed(|gateways| {
        gateways[1].terminate();
        exit = Some(gateways[1].wait());
    });
    assert!(drained == expected, "drained");
    assert!(exit.is_some_and(|status| status.success()));
    drop(fleet);

    let mut fleet = site.start(2);
    let joined = fleet.feed(|gateways| {
        gateways.push(site.gateway(2));
        site.list(3);
        know(gateways, 3);
    });
    assert!(joined == expected, "joined");
    assert!(fleet.feed(|_| {}) == expected, "after one has joined");
    assert!(sum(&fleet.gateways[2..], LENT) > 0, "nothing was pulled from the one that joined");
}

#[test]
fn lanes_of_an_owner_that_is_back_come_from_it_in_the_same_epoch() {
    let site = Site::new();
    let feed = json!({
        "dataset": "d", "batch_size": 12, "seed": 3, "shuffle": "rows", "shuffle_bytes": 1 << 20, "lanes": 6,
    });
    let alone = site.start(1);
    let expected = read(&open(&alone.socket, &feed, 1));
    assert!(are_all(&ids_of(&expected, 0), SHAPE.rows()));
    drop(alone);

    let Fleet { gateways, socket, .. } = &mut site.start(3);
    let consumer = open(socket, &feed, 1);
    let mut fed = read_some(&consumer, 100);
    assert!(sum(&gateways[2..], LENT) > 0, "nothing was pulled");
    gateways[2].kill();
    // Step by step, for what is read at once is over before anybody is back.
    let mut read_until = |is_so: &dyn Fn() -> bool| {
        while !is_so() {
            let step = read_some(&consumer, 1);
            assert!(!step.is_empty(), "the epoch is over");
            fed.extend(step);
            thread::sleep(LOOK);
        }
    };
    read_until(&|| sum(&gateways[..1], FALLEN_BACK) > 0);
    gateways[2] = site.gateway(2);
    read_until(&|| sum(&gateways[..1], PULLED_AGAIN) > 0);
    let lent = sum(&gateways[2..], LENT);
    fed.extend(read(&consumer));
    assert!(fed == expected, "an owner is back");
    assert!(sum(&gateways[2..], LENT) > lent, "nothing was pulled again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_with_tls_decodes_for_each_other_under_certificates() {
    let bed = Bed::without_gateway();
    let files = bed.dir.path().join("data");
    let shape = Shape { files: 3, rows_per_file: 400, row_group: 30, payload: Some(24) };
    data::write(&files, shape);
    let key = bed.dir.path().join("key");
    std::fs::write(&key, "a secret of at least thirty-two bytes").unwrap();
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trainer-sidecar/testdata");
    let pem = |name: &str| testdata.join(name).to_str().unwrap().to_owned();
    let dataset = format!("d={}", files.display());
    let path = bed.dir.path().join("list");
    std::fs::write(&path, "").unwrap();
    let list = format!("file:{}", path.display());
    let (own, secret, authority) = (pem("gateway.pem"), pem("gateway.key"), pem("authority.pem"));
    let common = [
        ["--dataset", &dataset],
        ["--ticket-key-file", key.to_str().unwrap()],
        ["--tls-cert", &own],
        ["--tls-key", &secret],
        ["--tls-client-ca", &authority],
        ["--fleet-ca", &authority],
        ["--fleet", &list],
        ["--admin", "127.0.0.1:0"],
    ]
    .concat();
    let gateways = [Daemon::gateway(&common), Daemon::gateway(&common)];
    std::fs::write(&path, format!("{}\n{}\n", gateways[0].address, gateways[1].address)).unwrap();
    know(&gateways, 2);
    let (ca, own) = (authority.into(), Some((own.into(), secret.into())));
    bed.sidecar(vec![gateways[0].address.clone()], |sidecar| sidecar.tls = Some(Trust { ca, own }));
    // Of four lanes each gateway owns two.
    let feed = json!({"dataset": "d", "batch_size": 20, "seed": 7, "shuffle": "rows", "lanes": 4});
    let batches = global(&bed.world(&feed, 1, 1).await);
    assert!(are_all(&ids_of(&batches, 0), shape.rows()));
    assert!(sum(&gateways, LENT) > 0, "nothing was pulled");
    bed.end().await;
}
