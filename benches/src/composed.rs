//! Steps that are put together from several sides, rows of two datasets or lanes of two gateways, beside the same rows of one
//! dataset from one gateway.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use penstock_tests::process::Daemon;

use crate::client::{self, Read, Run};
use crate::receive::feed;
use crate::report::{Line, Report};
use crate::sets::{self, Set};

/// Interleaved runs a figure is the median of.
const RUNS: usize = 5;
/// Of the sets that there are, and what they are.
const SETS: &[(&str, &str)] = &[("tab_codes", "40 columns of numbers"), ("img3k", "images of 3 KB, lists")];

const BATCH_ROWS: u64 = 1024;
const PLAIN: &str = r#"{"dataset":"all","batch_size":1024,"shuffle":"rows"}"#;
const MIXED: &str = r#"{"mixture":[{"dataset":"a","weight":0.5},{"dataset":"b","weight":0.5}],"batch_size":1024,"shuffle":"rows"}"#;

pub(crate) fn run() -> Result<Report> {
    let (data, sets) = sets::make()?;
    let mut lines = Vec::new();
    for (name, what) in SETS {
        let set = sets::named(&sets, name)?;
        lines.extend(measure(set, what, &data)?);
    }
    Ok(Report {
        title: format!(
            "composed: one epoch of shuffled rows, nothing cached, to the stream client over TCP, of the two halves of a set mixed, \
             and of a set whose lanes two gateways share; medians of {RUNS} interleaved runs"
        ),
        lines,
    })
}

fn measure(set: &Set, what: &str, data: &Path) -> Result<Vec<Line>> {
    let place = tempfile::tempdir().context("cannot make a temporary directory")?;
    let key = place.path().join("key");
    std::fs::write(&key, "a secret of at least thirty-two bytes")?;
    let ports = [free_port()?, free_port()?];
    let fleet = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
    let alone = gateway(set, data, &["--listen", "127.0.0.1:0"]);
    let [first, second] = ports.map(|port| {
        let listen = format!("127.0.0.1:{port}");
        let key = key.display().to_string();
        gateway(set, data, &["--listen", &listen, "--fleet", &fleet, "--ticket-key-file", &key])
    });
    let [mut plain, mut mixed, mut pulled]: [Vec<Run>; 3] = Default::default();
    for _ in 0..RUNS {
        plain.push(Run::measure(alone.pid(), || read(set, &alone, PLAIN))?);
        mixed.push(Run::measure(alone.pid(), || read(set, &alone, MIXED))?);
        let mut of_second = 0.0;
        let run = Run::measure(first.pid(), || {
            let run = Run::measure(second.pid(), || read(set, &first, PLAIN))?;
            of_second = run.server_cpu_s;
            Ok(run.read)
        })?;
        pulled.push(Run { server_cpu_s: run.server_cpu_s + of_second, ..run });
    }
    let gigabytes = (set.rows * set.row_bytes) as f64 / 1e9;
    let cost = |runs: &[Run]| client::total_cpu(runs) / gigabytes;
    let rate = |runs: &[Run]| set.rows as f64 / client::seconds(runs);
    let beside = |value| BTreeMap::from([("one dataset, one gateway".to_owned(), value)]);
    let lines = [("two datasets mixed", &mixed), ("lanes of two gateways", &pulled)];
    let lines = lines.into_iter().flat_map(|(how, runs)| {
        let cpu = client::total_cpu(runs);
        [
            Line::cost(format!("{what}: CPU, {how}"), "s/GB", cost(runs), cpu, beside(cost(&plain))),
            Line::rate(format!("{what}: rows, {how}"), "rows/s", rate(runs), cpu, beside(rate(&plain))),
        ]
    });
    Ok(lines.collect())
}

/// A gateway of the whole set and of its halves.
fn gateway(set: &Set, data: &Path, arguments: &[&str]) -> Daemon {
    let directory = set.directory(data).display().to_string();
    let datasets = [
        format!("all={directory}"),
        format!("a={directory}/part-[01].parquet"),
        format!("b={directory}/part-[23].parquet"),
    ];
    let datasets = datasets.iter().flat_map(|dataset| ["--dataset", dataset]);
    let common = ["gateway", "--cache", "0", "--memory", "2GiB"];
    let arguments: Vec<&str> = common.into_iter().chain(datasets).chain(arguments.iter().copied()).collect();
    Daemon::start(&arguments)
}

/// An epoch, but for what makes no whole batch.
fn read(set: &Set, gateway: &Daemon, command: &str) -> Result<Read> {
    let read = feed(&gateway.address, command)?;
    ensure!(
        read.rows <= set.rows && read.rows + 2 * BATCH_ROWS > set.rows,
        "a reader saw {} rows of {}",
        read.rows,
        set.rows
    );
    Ok(read)
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
    Ok(listener.local_addr()?.port())
}
