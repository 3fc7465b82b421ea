//! Parquet on disk to a reader over Flight: our gateway beside pyarrow's C++ Flight server, both
//! decoding the same files into batches of the same size, read by the same stock client; and our gateway
//! with our sidecar, as a trainer has it.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use penstock_tests::data::{self, Shape};
use penstock_tests::process::Daemon;

use crate::client::{self, Run};
use crate::peer::Peer;
use crate::report::{Line, Report};

/// Interleaved runs a figure is the median of.
const RUNS: usize = 5;
const BATCH_ROWS: u64 = 1024;
/// 1 KiB a row, so that a batch is 1 MiB.
const SHAPE: Shape = Shape { files: 4, rows_per_file: 128 * 1024, row_group: 16 * 1024, payload: Some(1012) };

pub(crate) fn run() -> Result<Report> {
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    data::write(directory.path(), SHAPE);
    let uri = directory.path().to_str().context("the temporary directory's path is not UTF-8")?;
    // Every run reads the files: with a decoded cache, here of one byte, all but the first would not.
    let gateway = Daemon::gateway(&["--dataset", &format!("bench={uri}"), "--cache", "0"]);
    let peer = Peer::start("flight/pyarrow_server.py", &[uri])?;
    let rows = BATCH_ROWS.to_string();

    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    let mut sidecar = Vec::new();
    for _ in 0..RUNS {
        ours.push(Run::measure(gateway.pid(), || {
            client::read("flight/read_flight.py", &[&gateway.address, &rows])
        })?);
        theirs.push(Run::measure(peer.pid(), || {
            client::read("flight/read_flight.py", &[&peer.address, &rows])
        })?);
        sidecar.push(Run::measure(gateway.pid(), || {
            client::read("flight/read_feed.py", &[&gateway.address, &rows])
        })?);
    }
    for run in ours.iter().chain(&theirs).chain(&sidecar) {
        ensure!(
            run.read.rows == SHAPE.rows() as u64,
            "a reader saw {} rows of {}",
            run.read.rows,
            SHAPE.rows()
        );
    }

    let peer_is = |value: f64| BTreeMap::from([("pyarrow server".to_owned(), value)]);
    Ok(Report {
        title: format!(
            "flight: {} rows of 1 KiB in uncompressed Parquet, steps of {BATCH_ROWS} rows, medians of {RUNS} interleaved runs",
            SHAPE.rows()
        ),
        lines: vec![
            Line::rate(
                "gateway -> pyarrow client",
                "GB/s",
                client::rate(&ours),
                client::total_cpu(&ours),
                peer_is(client::rate(&theirs)),
            ),
            Line::cost(
                "gateway CPU, to the pyarrow client",
                "s",
                client::server_cpu(&ours),
                client::server_cpu(&ours),
                peer_is(client::server_cpu(&theirs)),
            ),
            Line::rate(
                "gateway -> sidecar -> numpy",
                "GB/s",
                client::rate(&sidecar),
                client::total_cpu(&sidecar),
                peer_is(client::rate(&theirs)),
            ),
            Line::cost(
                "CPU of all, to numpy",
                "s",
                client::total_cpu(&sidecar),
                client::total_cpu(&sidecar),
                peer_is(client::total_cpu(&theirs)),
            ),
        ],
    })
}
