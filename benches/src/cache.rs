//! What was decoded before: an epoch out of the decoded cache, in memory or on disk, beside the one that filled it, and the
//! decoding for two trainers beside that for one.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;

use anyhow::{Context as _, Result, anyhow, ensure};
use penstock_tests::process::Daemon;

use crate::client::{self, Run};
use crate::median::median;
use crate::receive::{feed, feed_by};
use crate::report::{Line, Report};

const MISSES: &str = "penstock_gateway_cache_misses_total";

/// Epochs until a disk has what it could not take at the speed of the first.
const MOST_EPOCHS: u64 = 20;

/// Interleaved runs a figure is the median of.
const RUNS: usize = 5;

/// Directory, what it is, and its rows.
const SETS: &[(&str, &str, u64)] =
    &[("tab", "13 columns, zstd", 2_000_000), ("lists", "lists of 300 int64, zstd", 100_000)];
/// How it is fed.
const ORDERS: &[(&str, &str)] =
    &[("file order", r#""shuffle":"none""#), ("blocks", r#""shuffle":"blocks","lanes":4"#)];

pub(crate) fn run() -> Result<Report> {
    let directory = client::make_data("cache/make_data.py")?;
    let mut lines = Vec::new();
    for set in SETS {
        for order in ORDERS {
            lines.extend(epochs(directory.path(), set, order)?);
        }
    }
    for set in SETS {
        lines.push(from_disk(directory.path(), set, &ORDERS[1])?);
    }
    for set in SETS {
        for order in ORDERS {
            lines.push(trainers(directory.path(), set, order)?);
        }
    }
    Ok(Report {
        title: format!(
            "cache: zstd Parquet of about 250 MB decoded to the stream client, a new gateway for every run, medians of \
             {RUNS} runs"
        ),
        lines,
    })
}

/// A gateway that has decoded nothing yet.
fn gateway(directory: &Path, set: &str, memory: &[&str]) -> Daemon {
    let dataset = format!("bench={}", directory.join(set).display());
    Daemon::gateway(&[&["--dataset", &dataset, "--admin", "127.0.0.1:0"], memory].concat())
}

fn command(order: &str, epoch: u64) -> String {
    format!(r#"{{"dataset":"bench","batch_size":4096,"remainder":"keep","epoch":{epoch},{order}}}"#)
}

/// The second epoch, of which all is in the cache, beside the first: over TCP, and lent, as sidecars of the same machine read.
fn epochs(
    directory: &Path,
    &(set, what, rows): &(&str, &str, u64),
    order: &(&str, &str),
) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for is_lent in [false, true] {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let place = tempfile::tempdir()?;
            let socket = place.path().join("gateway.sock").display().to_string();
            let gateway = gateway(directory, set, &["--memory", "2GiB", "--unix-socket", &socket]);
            let lent = format!("penstock+memfd://{socket}");
            let way = if is_lent { &lent } else { &gateway.address };
            for (epoch, runs) in [(0, &mut first), (1, &mut second)] {
                let run =
                    Run::measure(gateway.pid(), || feed_by(&gateway.address, way, &command(order.1, epoch)))?;
                ensure!(run.read.rows == rows, "a reader saw {} rows of {rows}", run.read.rows);
                runs.push(run);
            }
        }
        let peers = BTreeMap::from([("first epoch".to_owned(), client::rate(&first))]);
        let way = if is_lent { "lent" } else { "TCP" };
        let what = format!("{what}, {}: second epoch, {way}", order.0);
        let line = Line::rate(what, "GB/s", client::rate(&second), client::total_cpu(&second), peers);
        lines.push(line.must_reach(3.0));
    }
    Ok(lines)
}

/// An epoch of which all is on disk, beside the first. Its pages are in the system's memory as far as that goes: what is
/// measured is the way, not the device.
fn from_disk(directory: &Path, &(set, what, rows): &(&str, &str, u64), order: &(&str, &str)) -> Result<Line> {
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let place = tempfile::tempdir()?;
        let place = place.path().to_str().context("a temporary directory has a name in UTF-8")?;
        let gateway =
            gateway(directory, set, &["--cache", "0", "--cache-dir", place, "--cache-disk", "16GiB"]);
        let mut epoch = 0;
        let last = loop {
            let misses = gateway.metric(MISSES).unwrap_or(0.0);
            let run = Run::measure(gateway.pid(), || feed(&gateway.address, &command(order.1, epoch)))?;
            ensure!(run.read.rows == rows, "a reader saw {} rows of {rows}", run.read.rows);
            if gateway.metric(MISSES) == Some(misses) {
                break run;
            }
            if epoch == 0 {
                first.push(run);
            }
            epoch += 1;
            ensure!(epoch < MOST_EPOCHS, "the disk does not come to hold the set");
        };
        later.push(last);
    }
    let peers = BTreeMap::from([("first epoch".to_owned(), client::rate(&first))]);
    let what = format!("{what}, {}: later epoch from disk", order.0);
    Ok(Line::rate(what, "GB/s", client::rate(&later), client::total_cpu(&later), peers))
}

/// What two trainers on one feed cost in decoding, beside one; the cache holds a part of the set.
fn trainers(directory: &Path, &(set, what, rows): &(&str, &str, u64), order: &(&str, &str)) -> Result<Line> {
    let (mut two, mut one) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        for (trainers, seconds) in [(2, &mut two), (1, &mut one)] {
            let gateway = gateway(directory, set, &["--memory", "512MiB", "--cache", "64MiB"]);
            let read: Vec<_> = thread::scope(|scope| {
                let reading: Vec<_> = (0..trainers)
                    .map(|_| scope.spawn(|| feed(&gateway.address, &command(order.1, 0))))
                    .collect();
                reading
                    .into_iter()
                    .map(|reader| reader.join().map_err(|_| anyhow!("a reader fell over"))?)
                    .collect::<Result<_>>()
            })?;
            ensure!(read.iter().all(|read| read.rows == rows), "a reader saw other than {rows} rows");
            let name = "penstock_gateway_decode_cpu_seconds_total";
            seconds.push(gateway.metric(name).with_context(|| format!("the gateway does not tell {name}"))?);
        }
    }
    let (two, one) = (median(two), median(one));
    let peers = BTreeMap::from([("one trainer".to_owned(), one)]);
    let what = format!("{what}, {}: decoding for two trainers", order.0);
    Ok(Line::cost(what, "cpu s", two, two, peers).must_stay_within(1.1))
}
