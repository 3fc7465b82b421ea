//! Plans of very many files: what making one costs, what entering it costs, and how soon rows come.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use arrow::array::{ArrayRef, Float32Array, Int64Array};
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use penstock_gateway::dataset::Dataset;
use penstock_gateway::plan::{Order, Plan};
use penstock_proto::{Remainder, Shuffle};
use penstock_tests::process::Daemon;

use crate::client;
use crate::median::median;
use crate::report::{Line, Report};

const RUNS: usize = 5;
const FILES: usize = 10_000;
const ROW_GROUPS: usize = 100;
const GROUP_ROWS: usize = 10;
const BATCH_ROWS: u64 = 1024;

pub(crate) fn run() -> Result<Report> {
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    write(directory.path())?;
    let mut lines = first_batches(directory.path())?;
    lines.extend(plans(directory.path())?);
    Ok(Report {
        title: format!(
            "plan: {FILES} files of {ROW_GROUPS} row groups on the local disk, shuffled by blocks to read and by rows to plan, \
             global batches of {BATCH_ROWS} rows, medians of {RUNS} runs"
        ),
        lines,
    })
}

/// As many files of the same rows: what they hold plays no part here.
fn write(directory: &Path) -> Result<()> {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..GROUP_ROWS as i64));
    let values: ArrayRef = Arc::new(Float32Array::from_iter_values((0..GROUP_ROWS).map(|i| i as f32)));
    let group = RecordBatch::try_from_iter([("id", ids), ("value", values)])?;
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, group.schema(), None)?;
    for _ in 0..ROW_GROUPS {
        writer.write(&group)?;
        writer.flush()?;
    }
    writer.close()?;
    for index in 0..FILES {
        std::fs::write(directory.join(format!("part-{index:05}.parquet")), &file)?;
    }
    Ok(())
}

/// A gateway that knows nothing yet, and one that has read every footer.
fn first_batches(directory: &Path) -> Result<Vec<Line>> {
    let (mut cold, mut warm, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let began = Instant::now();
        let gateway = Daemon::gateway(&["--dataset", &format!("bench={}", directory.display())]);
        let first = client::read("plan/first_batch.py", &[&gateway.address, &BATCH_ROWS.to_string()])?;
        cold.push(began.elapsed().as_secs_f64());
        let again = client::read("plan/first_batch.py", &[&gateway.address, &BATCH_ROWS.to_string()])?;
        ensure!(first.rows == BATCH_ROWS && again.rows == BATCH_ROWS, "a first batch lacks rows");
        warm.push(again.seconds);
        cpu.push(client::cpu_seconds(gateway.pid())?);
    }
    let cpu = median(cpu);
    Ok(vec![
        Line::cost("first batch, from the gateway's start", "s", median(cold), cpu, BTreeMap::new())
            .at_most(10.0),
        Line::cost("first batch, footers cached", "s", median(warm), cpu, BTreeMap::new()).at_most(1.0),
    ])
}

fn plans(directory: &Path) -> Result<Vec<Line>> {
    let uri = directory.to_str().context("the temporary directory's name is no UTF-8")?;
    let runtime = tokio::runtime::Runtime::new()?;
    let snapshot = runtime.block_on(Dataset::new("bench", uri)?.snapshot())?;
    let order = Order {
        batch_size: BATCH_ROWS,
        lanes: None,
        shuffle: Shuffle::Rows,
        shuffle_bytes: 256 << 20,
        seed: 1,
        remainder: Remainder::Drop,
    };
    let groups = (FILES * ROW_GROUPS) as f64;
    let (mut making, mut entering, mut held) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..RUNS as u64 {
        let (before, began) = (resident_bytes()?, Instant::now());
        let plan = Plan::new(&snapshot.block_shapes(&snapshot.project(&[])?, None), order)?;
        making.push(began.elapsed().as_secs_f64());
        let began = Instant::now();
        let epoch = plan.epoch(run);
        // Nine tenths into the epoch, in every lane.
        let step = plan.steps() * 9 / 10;
        for lane in 0..plan.lanes() {
            let at = epoch.run(lane, step).start;
            ensure!(epoch.locate(lane, at..at + 1).count() == 1, "a position without a row");
        }
        entering.push(began.elapsed().as_secs_f64());
        held.push((resident_bytes()? - before).max(0.0) / groups);
    }
    // The first run's memory is new; later ones find some of what was given back.
    let held = held.into_iter().fold(0.0, f64::max);
    let (making, entering) = (median(making), median(entering));
    Ok(vec![
        Line::cost("making a plan, footers cached", "s", making, making, BTreeMap::new()).at_most(1.0),
        Line::cost(
            "finding the position at nine tenths of an epoch",
            "ms",
            1e3 * entering,
            entering,
            BTreeMap::new(),
        )
        .at_most(50.0),
        Line::cost("memory of a plan and its epoch, a row group", "bytes", held, 0.0, BTreeMap::new())
            .at_most(200.0),
    ])
}

fn resident_bytes() -> Result<f64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = statm.split_whitespace().nth(1).context("/proc/self/statm is short")?.parse()?;
    Ok(pages * rustix::param::page_size() as f64)
}
