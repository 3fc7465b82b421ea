//! The same Parquet from a real HDFS and from the local disk, through the same gateway to the same client; and
//! plain ranges of it beside Hadoop's Java client.

mod ranges;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use penstock_tests::hdfs::Bed;
use penstock_tests::process::Daemon;

use crate::client::{self, Run};
use crate::report::{Line, Report};

/// Interleaved runs a figure is the median of.
const RUNS: usize = 5;
const BATCH_ROWS: &str = "8192";
/// What `make_data.py` writes.
const ROWS: u64 = 7_000_000;

/// What is read, and which part of the local disk's speed it must reach.
const SCANS: &[(&str, &[&str], f64)] =
    &[("scan of 3 of 10 columns", &["c1", "c4", "c8"], 0.8), ("scan of all 10 columns", &[], 0.6)];

pub(crate) fn run() -> Result<Report> {
    let directory = client::make_data("hdfs/make_data.py")?;
    let mut bed = Bed::start(&["--tuned", "--short-circuit", "-D", "dfs.blocksize=67108864"])
        .context("this bench needs Java 17 and Maven for a real HDFS")?;
    bed.put(directory.path(), "/bench");
    // Every run reads the files: with a decoded cache all but the first would not.
    let gateway = |uri: &str, options: &[String]| {
        let mut arguments =
            vec!["--dataset".to_owned(), format!("bench={uri}"), "--cache".to_owned(), "0".to_owned()];
        arguments.extend_from_slice(options);
        Daemon::gateway(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let lent = bed.short_circuit().map(|(name, value)| format!("--hdfs-option={name}={value}"));
    let uri = format!("{}/bench", bed.uri());
    let gateways =
        [gateway(&uri, &[]), gateway(&uri, &lent), gateway(&directory.path().display().to_string(), &[])];

    let mut lines = ranges::run(&bed)?;
    for (what, columns, goal) in SCANS {
        let mut runs: [Vec<Run>; 3] = Default::default();
        for _ in 0..RUNS {
            for (gateway, runs) in gateways.iter().zip(&mut runs) {
                let arguments = [&[gateway.address.as_str(), BATCH_ROWS], *columns].concat();
                let run = Run::measure(gateway.pid(), || client::read("flight/read_flight.py", &arguments))?;
                ensure!(run.read.rows == ROWS, "a reader saw {} rows of {ROWS}", run.read.rows);
                runs.push(run);
            }
        }
        let [network, lent, disk] = &runs;
        for (way, ours) in [("over TCP", network), ("short-circuit", lent)] {
            let peers = BTreeMap::from([("local disk".to_owned(), client::rate(disk))]);
            let what = format!("{what}, {way}");
            let line = Line::rate(what, "GB/s", client::rate(ours), client::total_cpu(ours), peers);
            lines.push(line.must_reach(*goal));
        }
    }
    Ok(Report {
        title: format!(
            "hdfs: 510 MB of snappy Parquet, seven row groups of 1,000,000 rows of ten columns, blocks of 64 MB, three replicas, steps of {BATCH_ROWS} rows, medians of interleaved runs"
        ),
        lines,
    })
}
