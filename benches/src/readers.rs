//! 32 readers of one gateway, of whom one stalls, one trickles and one leaves every second: what that costs the
//! others, and the gateway.

mod sick;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use penstock_gateway::config::DEFAULT_MEMORY_BYTES;
use penstock_tests::data::{self, Shape};
use penstock_tests::process::Daemon;

use self::sick::Sick;
use crate::client::{self, Run};
use crate::receive;
use crate::report::{Line, Report};

/// With the three sick ones they are 32.
const HEALTHY: u64 = 29;
/// How often each healthy one reads its share in a run.
const TIMES: u64 = 16;
const RUNS_AT_LEAST: usize = 5;
/// How long the runs go on when `SOAK_S` does not say it.
const SECONDS: u64 = 90;
/// What the gateway may weigh beyond its memory.
const BESIDE_BYTES: u64 = 256_000_000;
/// 1 KiB a row, 8 MiB a rank.
const SHAPE: Shape = Shape { files: 4, rows_per_file: 58 * 1024, row_group: 1024, payload: Some(1012) };

pub(crate) fn run() -> Result<Report> {
    let seconds = match std::env::var("SOAK_S") {
        Ok(seconds) => seconds.parse().context("SOAK_S is a number of seconds")?,
        Err(_) => SECONDS,
    };
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    data::write(directory.path(), SHAPE);
    let dataset = format!("bench={}", directory.path().display());
    let gateway = Daemon::gateway(&["--dataset", &dataset, "--admin", "127.0.0.1:0"]);
    let runtime = tokio::runtime::Runtime::new().context("cannot start the async runtime")?;

    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    let mut turns = 0;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(seconds) || beside.len() < RUNS_AT_LEAST {
        alone.push(healthy(&gateway)?);
        let sick = Sick::start(&gateway.address, runtime.handle())?;
        beside.push(healthy(&gateway)?);
        turns += sick.end()?;
    }
    let peak = gateway.metric("process_resident_memory_peak_bytes");
    let peak = peak.context("the gateway does not tell its memory")?;

    let without = |figure| BTreeMap::from([("without sick ones".to_owned(), figure)]);
    let (rate, cpu) = (client::rate(&beside), client::server_cpu(&beside));
    let limit = (DEFAULT_MEMORY_BYTES + BESIDE_BYTES) as f64 / 1e6;
    Ok(Report {
        title: format!(
            "readers: {HEALTHY} healthy ones of 1 KiB rows in shuffled windows, beside one that stalls, one of 50 KiB/s and one \
             that leaves each second ({turns} times here), medians of {} alternating runs in {} s",
            beside.len(),
            began.elapsed().as_secs()
        ),
        lines: vec![
            Line::rate(
                "healthy readers beside sick ones",
                "GB/s",
                rate,
                client::total_cpu(&beside),
                without(client::rate(&alone)),
            )
            .must_reach(0.9),
            Line::cost("gateway CPU, the same work", "s", cpu, cpu, without(client::server_cpu(&alone))),
            Line::cost("gateway's peak memory", "MB", peak / 1e6, cpu, BTreeMap::new()).at_most(limit),
        ],
    })
}

/// All healthy ones read their shares.
fn healthy(gateway: &Daemon) -> Result<Run> {
    let command = format!(
        r#"{{"dataset":"bench","batch_size":{},"world_size":{HEALTHY},"lanes":{HEALTHY},"shuffle":"rows",
            "shuffle_bytes":{}}}"#,
        HEALTHY * 256,
        HEALTHY << 20
    );
    let run = Run::measure(gateway.pid(), || receive::world(&gateway.address, &command, TIMES))?;
    let rows = SHAPE.rows() as u64 / (HEALTHY * 256) * (HEALTHY * 256) * TIMES;
    ensure!(run.read.rows == rows, "the readers saw {} rows of {rows}", run.read.rows);
    Ok(run)
}
