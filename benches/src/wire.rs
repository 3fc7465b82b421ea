//! Batches in memory to a stock Flight client: our encoder and connection beside pyarrow's C++ server and
//! arrow-flight's encoder under tonic, each sending the same batch over and over.

mod stock;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use arrow::array::{ArrayRef, Float32Array, StringArray};
use arrow::ipc::writer::FileWriter;
use arrow::record_batch::RecordBatch;
use penstock_daemon::Drain;
use penstock_gateway::Config;
use penstock_gateway::flight::serve_batches;

use crate::client::{self, Run};
use crate::peer::Peer;
use crate::report::{Line, Report};

/// Interleaved runs a figure is the median of.
const RUNS: usize = 5;
/// Sent in a run.
pub(crate) const RUN_BYTES: usize = 1 << 30;
const COLUMNS: usize = 8;

/// A batch, and what of the others' CPU seconds ours may use at most.
pub(crate) struct Kind {
    pub(crate) what: &'static str,
    rows: usize,
    has_text: bool,
    of_pyarrow: f64,
    of_arrow_flight: f64,
}

pub(crate) const KINDS: [Kind; 3] = [
    Kind { what: "256 KiB", rows: 8 << 10, has_text: false, of_pyarrow: 0.8, of_arrow_flight: 0.75 },
    Kind { what: "4 MiB", rows: 128 << 10, has_text: false, of_pyarrow: 0.8, of_arrow_flight: 0.3 },
    Kind {
        what: "1 MiB with strings",
        rows: 16 << 10,
        has_text: true,
        of_pyarrow: 0.9,
        of_arrow_flight: 0.55,
    },
];

pub(crate) fn run() -> Result<Report> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the async runtime")?;
    let mut lines = Vec::new();
    for kind in KINDS {
        lines.extend(measure(&kind, runtime.handle())?);
    }
    Ok(Report {
        title: format!(
            "wire: {} MiB of batches in memory to a pyarrow client on the loopback, medians of {RUNS} interleaved runs",
            RUN_BYTES >> 20
        ),
        lines,
    })
}

fn measure(kind: &Kind, runtime: &tokio::runtime::Handle) -> Result<Vec<Line>> {
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let batch = kind.batch()?;
    let times = RUN_BYTES / batch.get_array_memory_size();
    let drain = Drain::new();
    let config =
        Config { unix_socket: Some(directory.path().join("gateway.sock")), ..Config::new("127.0.0.1:0") };
    let ours = runtime.block_on(serve_batches(&config, vec![batch.clone()], times as u64, &drain))?;
    let socket = format!("grpc+unix://{}/gateway.sock", directory.path().display());
    let stock = runtime.block_on(stock::serve(batch.clone(), times, &drain))?;
    let file = directory.path().join("batch.arrow");
    write(&batch, &file)?;
    let file = file.to_str().context("the temporary directory's path is not UTF-8")?;
    let pyarrow = Peer::start("wire/pyarrow_server.py", &[file, &times.to_string()])?;

    // The process's own CPU is that of the two servers in it, for readers are processes of their own.
    let own = std::process::id();
    let servers =
        [(own, ours.bound.as_str()), (pyarrow.pid(), &pyarrow.address), (own, &stock), (own, &socket)];
    let mut runs: [Vec<Run>; 4] = Default::default();
    for _ in 0..RUNS {
        for ((pid, address), runs) in servers.iter().zip(&mut runs) {
            runs.push(Run::measure(*pid, || client::read("wire/read_batches.py", &[address]))?);
        }
    }
    drain.begin();
    let rows = (times * batch.num_rows()) as u64;
    for run in runs.iter().flatten() {
        ensure!(run.read.rows == rows, "a reader saw {} rows of {rows}", run.read.rows);
    }
    let [ours, pyarrow, stock, socket] = runs;

    let what = kind.what;
    let peer = |name: &str, value: f64| BTreeMap::from([(name.to_owned(), value)]);
    let rate = |what: String, ours: &[Run]| {
        let peers = peer("pyarrow server", client::rate(&pyarrow));
        Line::rate(what, "GB/s", client::rate(ours), client::total_cpu(ours), peers)
    };
    let cost = |name: &str, runs: &[Run]| {
        let own = client::server_cpu(&ours);
        Line::cost(format!("{what}: CPU of the server"), "s", own, own, peer(name, client::server_cpu(runs)))
    };
    Ok(vec![
        rate(format!("{what} -> pyarrow client"), &ours).must_reach(1.0),
        rate(format!("{what} -> pyarrow client, Unix socket"), &socket),
        cost("pyarrow server", &pyarrow).must_stay_within(kind.of_pyarrow),
        cost("arrow-flight", &stock).must_stay_within(kind.of_arrow_flight),
    ])
}

impl Kind {
    pub(crate) fn batch(&self) -> Result<RecordBatch> {
        let numbers = |column: usize| -> ArrayRef {
            Arc::new(Float32Array::from_iter_values((0..self.rows).map(|row| (row * (column + 1)) as f32)))
        };
        let mut columns: Vec<(String, ArrayRef)> =
            (0..COLUMNS).map(|column| (format!("c{column}"), numbers(column))).collect();
        if self.has_text {
            let texts = (0..self.rows).map(|row| format!("s{row:07}{}", "x".repeat(row % 40)));
            columns.push(("s".to_owned(), Arc::new(StringArray::from_iter_values(texts))));
        }
        RecordBatch::try_from_iter(columns).context("the columns are of one length")
    }
}

pub(crate) fn write(batch: &RecordBatch, path: &Path) -> Result<()> {
    let file = File::create(path).context("cannot write the batch")?;
    let mut writer = FileWriter::try_new(file, &batch.schema())?;
    writer.write(batch)?;
    writer.finish().context("cannot write the batch")
}
