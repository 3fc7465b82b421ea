//! What happens to links, and what a trainer gets.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;

use penstock_tests::data::{self, Shape};
use penstock_tests::process::Daemon;
use penstock_tests::trainer::{Fed, are_all, ids_of, open, read, read_some};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::machines::{Machine, in_own_network, until};

/// Far more than lies in sockets and rings while nothing passes.
const SHAPE: Shape = Shape { files: 4, rows_per_file: 2500, row_group: 50, payload: Some(8192) };

/// Machines with a gateway each, and a sidecar here that knows all of them.
struct Site {
    machines: Vec<Machine>,
    sidecar: Daemon,
    socket: PathBuf,
    /// Dropped before their machines' data.
    _gateways: Vec<Daemon>,
    _dir: TempDir,
}

impl Site {
    fn new(machines: u8) -> Self {
        let dir = tempfile::tempdir().unwrap();
        data::write(&dir.path().join("data"), SHAPE);
        let key = dir.path().join("key");
        std::fs::write(&key, "a secret of at least thirty-two bytes").unwrap();
        let dataset = format!("d={}", dir.path().join("data").display());
        // Not even a test that is killed leaves a process behind.
        let own = std::process::id().to_string();
        let arguments = [
            "--dataset",
            &dataset,
            "--ticket-key-file",
            key.to_str().unwrap(),
            "--memory",
            "64MiB",
            "--exit-with",
            &own,
        ];
        let machines: Vec<Machine> = (1..=machines).map(Machine::new).collect();
        let gateways: Vec<_> = machines.iter().map(|machine| machine.gateway(&arguments)).collect();
        let addresses: Vec<_> = gateways.iter().map(|gateway| gateway.address.as_str()).collect();
        let socket = dir.path().join("sidecar.sock");
        let sidecar = Daemon::start(&[
            "sidecar",
            "--listen",
            socket.to_str().unwrap(),
            "--gateway",
            &addresses.join(","),
            "--memory",
            "2MiB",
            "--admin",
            "127.0.0.1:0",
            "--exit-with",
            &own,
        ]);
        Self { machines, sidecar, socket, _gateways: gateways, _dir: dir }
    }

    fn reconnects(&self) -> f64 {
        // Not counted yet is none.
        self.sidecar.metric("penstock_sidecar_reconnects_total").unwrap_or(0.0)
    }

    /// Feeds a trainer that waits after a fifth of its steps until `hurt` is done; `heal` comes while it goes on.
    fn feed(&self, hurt: impl FnOnce(), heal: impl FnOnce()) -> Vec<Fed> {
        let feed =
            json!({"dataset": "d", "batch_size": 20, "seed": 3, "shuffle": "rows", "shuffle_bytes": 1 << 20});
        let consumer = open(&self.socket, &feed, 1);
        let description: Value = serde_json::from_str(consumer.description()).unwrap();
        let steps = description["steps_per_epoch"].as_u64().unwrap() as usize;
        let (reached, hurting) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            let trainer = scope.spawn(|| {
                let mut fed = read_some(&consumer, steps / 5);
                reached.wait();
                hurting.wait();
                fed.extend(read(&consumer));
                fed
            });
            reached.wait();
            hurt();
            hurting.wait();
            heal();
            trainer.join().unwrap()
        })
    }

    /// What comes when nothing happens, and that it comes as well with this.
    fn check(&self, hurt: impl FnOnce(), heal: impl FnOnce()) {
        let undisturbed = self.feed(|| {}, || {});
        assert!(are_all(&ids_of(&undisturbed, 0), SHAPE.rows()));
        assert!(self.feed(hurt, heal) == undisturbed);
    }
}

#[test]
fn a_link_of_a_kilobyte_a_second_delays_and_no_more() {
    in_own_network(|| {
        let site = Site::new(1);
        let machine = &site.machines[0];
        site.check(
            || machine.slow(),
            || {
                until("more than the link takes", || machine.was_held_up() > 10);
                machine.quicken();
            },
        );
    });
}

#[test]
fn a_link_that_is_cut_and_healed_is_gone_on_with() {
    in_own_network(|| {
        let site = Site::new(1);
        let machine = &site.machines[0];
        let before = Cell::new(0);
        site.check(
            || {
                before.set(machine.sent_again());
                machine.silence();
            },
            || {
                until("a segment without an answer", || machine.sent_again() > before.get());
                machine.heal();
            },
        );
    });
}

#[test]
fn a_machine_that_falls_silent_is_left_for_another() {
    in_own_network(|| {
        let site = Site::new(2);
        // Ranks begin at the gateways in order.
        site.check(|| site.machines[0].silence(), || until("another gateway", || site.reconnects() > 0.0));
    });
}

#[test]
fn a_machine_that_is_silent_for_long_is_come_back_to() {
    in_own_network(|| {
        let site = Site::new(1);
        let machine = &site.machines[0];
        site.check(
            || machine.silence(),
            || {
                until("a connection that is given up", || site.reconnects() > 0.0);
                machine.heal();
            },
        );
    });
}
