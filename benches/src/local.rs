//! Parquet on this machine's disk to our own stream client, all columns: beside decoding alone and bare bytes, below which
//! nothing can go, and beside all cores at the CPU that it takes itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;

use anyhow::{Context as _, Result, ensure};
use penstock_tests::process::Daemon;

use crate::client::{self, Run};
use crate::floor;
use crate::receive::feed_by;
use crate::report::{Line, Report};
use crate::sets::{self, Set};

/// Interleaved runs a figure is the median of.
const RUNS: usize = 5;
/// What may be spent on the way beside what bare bytes cost.
const WAY: f64 = 1.3;
/// Whole files after each other, and a few rows of every block in each step.
const ORDERS: &[(&str, &str)] = &[("none", "in file order"), ("blocks", "by blocks")];
/// Of the sets that there are, and what they are.
const SETS: &[(&str, &str)] = &[
    ("tab_codes", "40 columns of numbers"),
    ("img3k_bin", "images of 3 KB, binary"),
    ("img3k", "images of 3 KB, lists"),
];

pub(crate) fn run() -> Result<Report> {
    let (data, sets) = sets::make()?;
    let bare = floor::tcp()?;
    let mut lines = Vec::new();
    for (name, what) in SETS {
        let set = sets::named(&sets, name)?;
        lines.extend(measure(set, what, &data, bare)?);
    }
    Ok(Report {
        title: format!(
            "local: one epoch, nothing cached, from the files in the system's memory to the stream client over TCP and by lent \
             memory; bare bytes cost {bare:.3} CPU s a GB over TCP; medians of {RUNS} interleaved runs"
        ),
        lines,
    })
}

fn measure(set: &Set, what: &str, data: &Path, bare: f64) -> Result<Vec<Line>> {
    let decoded = floor::decode(&set.files(data)?, set.lists, set.rows, set.row_bytes)?;
    let place = tempfile::tempdir().context("cannot make a temporary directory")?;
    let socket = place.path().join("gateway.sock").display().to_string();
    let dataset = format!("bench={}", set.directory(data).display());
    let gateway = Daemon::gateway(&["--dataset", &dataset, "--cache", "0", "--unix-socket", &socket]);
    let ways = [("TCP", gateway.address.clone()), ("lent", format!("penstock+memfd://{socket}"))];
    let cases = ORDERS.iter().flat_map(|order| ways.iter().map(move |way| (order, way)));
    let mut runs: Vec<Vec<Run>> = cases.clone().map(|_| Vec::new()).collect();
    for _ in 0..RUNS {
        for (((shuffle, _), (_, way)), runs) in cases.clone().zip(&mut runs) {
            let command = format!(
                r#"{{"dataset":"bench","batch_size":1024,"remainder":"keep","shuffle":"{shuffle}"}}"#
            );
            let run = Run::measure(gateway.pid(), || feed_by(&gateway.address, way, &command))?;
            ensure!(run.read.rows == set.rows, "a reader saw {} rows of {}", run.read.rows, set.rows);
            runs.push(run);
        }
    }
    let gigabytes = (set.rows * set.row_bytes) as f64 / 1e9;
    let cores = thread::available_parallelism().map_or(1, usize::from) as f64;
    let lines = cases.zip(&runs).flat_map(|(((_, order), (way, _)), runs)| {
        let cpu = client::total_cpu(runs);
        let seconds = client::seconds(runs);
        let peers = BTreeMap::from([
            ("decoding".to_owned(), decoded.cpu_s_a_gb),
            (format!("and {WAY} x bare TCP"), decoded.cpu_s_a_gb + WAY * bare),
        ]);
        let cost = Line::cost(format!("{what} {order}: CPU, {way}"), "s/GB", cpu / gigabytes, cpu, peers);
        let peers = BTreeMap::from([(format!("{cores} cores at that CPU"), set.rows as f64 * cores / cpu)]);
        let (what, rows) = (format!("{what} {order}: rows, {way}"), set.rows as f64 / seconds);
        let rate = Line::rate(what, "rows/s", rows, cpu, peers);
        [cost.at_most(decoded.cpu_s_a_gb + WAY * bare), rate.must_reach(0.85)]
    });
    Ok(lines.collect())
}
