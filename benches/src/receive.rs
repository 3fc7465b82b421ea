//! Batches in memory to our own stream client: over TCP, over a Unix socket and lent in shared memory, beside
//! C++ to C++ and beside bare bytes of the same sizes on the same kinds of socket.

mod raw;
mod reader;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use penstock_daemon::Drain;
use penstock_gateway::Config;
use penstock_gateway::flight::serve_batches;

use crate::client::{self, Run};
use crate::median::median;
use crate::peer::Peer;
use crate::report::{Line, Report};
use crate::wire::{KINDS, Kind, RUN_BYTES, write};

pub(crate) use self::reader::{READ, feed, feed_by, read, tickets, world};

/// Interleaved runs a figure is the median of.
const RUNS: usize = 7;

pub(crate) fn run() -> Result<Report> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the async runtime")?;
    let mut lines = Vec::new();
    for kind in KINDS {
        lines.extend(measure(&kind, runtime.handle())?);
    }
    Ok(Report {
        title: format!(
            "receive: {} MiB of batches in memory to the stream client on this machine, medians of {RUNS} interleaved runs",
            RUN_BYTES >> 20
        ),
        lines,
    })
}

fn measure(kind: &Kind, runtime: &tokio::runtime::Handle) -> Result<Vec<Line>> {
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let batch = kind.batch()?;
    let bytes = batch.get_array_memory_size();
    let times = RUN_BYTES / bytes;
    let drain = Drain::new();
    let socket = directory.path().join("gateway.sock");
    let config = Config { unix_socket: Some(socket.clone()), ..Config::new("127.0.0.1:0") };
    let ours = runtime.block_on(serve_batches(&config, vec![batch.clone()], times as u64, &drain))?;
    let file = directory.path().join("batch.arrow");
    write(&batch, &file)?;
    let file = file.to_str().context("the temporary directory's path is not UTF-8")?;
    let pyarrow = Peer::start("wire/pyarrow_server.py", &[file, &times.to_string()])?;
    let bare = raw::Server { bytes, times };
    let (bare_tcp, bare_unix) = (bare.tcp()?, bare.unix(&directory.path().join("bare.sock"))?);

    // The process's own CPU is that of the servers in it, for readers are processes of their own.
    let own = std::process::id();
    let unix = format!("grpc+unix://{}", socket.display());
    let lent = format!("penstock+memfd://{}", socket.display());
    let mut runs: [Vec<Run>; 6] = Default::default();
    for _ in 0..RUNS {
        let [tcp_runs, unix_runs, lent_runs, pyarrow_runs, bare_tcp_runs, bare_unix_runs] = &mut runs;
        tcp_runs.push(Run::measure(own, || reader::stream(&ours.bound))?);
        bare_tcp_runs.push(Run::measure(own, || reader::bare(&bare_tcp, bytes))?);
        unix_runs.push(Run::measure(own, || reader::stream(&unix))?);
        bare_unix_runs.push(Run::measure(own, || reader::bare(&bare_unix, bytes))?);
        lent_runs.push(Run::measure(own, || reader::stream(&lent))?);
        pyarrow_runs
            .push(Run::measure(pyarrow.pid(), || client::read("wire/read_batches.py", &[&pyarrow.address]))?);
    }
    drain.begin();
    let [tcp, unix, lent, pyarrow, bare_tcp, bare_unix] = runs;
    let rows = (times * batch.num_rows()) as u64;
    for run in [&tcp, &unix, &lent, &pyarrow].into_iter().flatten() {
        ensure!(run.read.rows == rows, "a reader saw {} rows of {rows}", run.read.rows);
    }

    let what = kind.what;
    let beside = |how: &str, ours: &[Run], name: &str, theirs: &[Run], goal: f64| {
        let peers = BTreeMap::from([(name.to_owned(), client::rate(theirs))]);
        let what = format!("{what} -> stream client, {how}");
        Line::rate(what, "GB/s", client::rate(ours), client::total_cpu(ours), peers).must_reach(goal)
    };
    let cpu = |runs: &[Run]| median(runs.iter().map(|run| run.read.cpu_s));
    let cost = |how: &str, ours: &[Run], peers: &[(&str, &[Run])]| {
        let peers = peers.iter().map(|(name, runs)| ((*name).to_owned(), cpu(runs))).collect();
        Line::cost(format!("{what}: CPU of the client, {how}"), "s", cpu(ours), cpu(ours), peers)
    };
    Ok(vec![
        beside("TCP", &tcp, "C++ to C++", &pyarrow, 1.9),
        beside("TCP, and bare bytes", &tcp, "bare TCP", &bare_tcp, 0.93),
        beside("Unix socket, and bare bytes", &unix, "bare Unix socket", &bare_unix, 0.85),
        beside("lent in shared memory", &lent, "bare Unix socket", &bare_unix, 1.9),
        cost("TCP", &tcp, &[("pyarrow client", &pyarrow), ("bare TCP", &bare_tcp)]),
        cost("Unix socket", &unix, &[("bare Unix socket", &bare_unix)]),
        cost("lent in shared memory", &lent, &[("bare Unix socket", &bare_unix)]),
    ])
}
