//! Lists of numbers out of Parquet in memory: our path beside parquet's own reader, in CPU seconds of one thread.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::client;
use crate::median::median;
use crate::report::{Line, Report};

const RUNS: usize = 5;
const BATCH_ROWS: usize = 256;
/// The clock of CPU seconds ticks a hundred times a second: a file is decoded again until so much has passed.
const RUN_TIME: Duration = Duration::from_millis(400);

/// File, what it is, and how many times as fast as parquet's own reader it must be decoded.
const FILES: &[(&str, &str, f64)] = &[
    ("uint8-none", "images of uint8, dictionary", 10.0),
    ("uint8-snappy", "the same, snappy", 10.0),
    ("uint8-zstd", "the same, zstd", 10.0),
    ("uint8-plain-none", "images of uint8, plain", 1.8),
    ("uint8-plain-snappy", "the same, snappy", 1.8),
    ("int64-none", "tokens of int64, dictionary", 2.0),
    ("int64-snappy", "the same, snappy", 2.0),
    ("float32-none", "embeddings of float32", 2.5),
    ("float32-snappy", "the same, snappy", 1.4),
    ("float32-zstd", "the same, zstd", 1.4),
    ("ragged-int64", "lists of 1 to 199 int64", 2.5),
];

pub(crate) fn run() -> Result<Report> {
    let directory = client::make_data("decode/make_data.py")?;
    let lines = FILES.iter().map(|file| line(directory.path(), file)).collect::<Result<_>>()?;
    Ok(Report {
        title: format!(
            "decode: lists written by pyarrow, in memory, {BATCH_ROWS} rows at a time on one thread, GB of values \
             a CPU second; medians of {RUNS} interleaved runs, both with the binary's allocator"
        ),
        lines,
    })
}

fn line(directory: &Path, &(name, what, goal): &(&str, &str, f64)) -> Result<Line> {
    let file = Bytes::from(std::fs::read(directory.join(format!("{name}.parquet")))?);
    let (our_rows, their_rows) = (decoded(&file, ours)?, decoded(&file, theirs)?);
    ensure!(our_rows == their_rows, "{name} is decoded differently");
    let gigabytes = our_rows.get_array_memory_size() as f64 / 1e9;
    let (mut our_runs, mut their_runs) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        our_runs.push(cpu_seconds(&file, ours)?);
        their_runs.push(cpu_seconds(&file, theirs)?);
    }
    let (our_seconds, their_seconds) = (median(our_runs), median(their_runs));
    let peers = BTreeMap::from([("parquet-rs".to_owned(), gigabytes / their_seconds)]);
    Ok(Line::rate(what, "GB/cpu s", gigabytes / our_seconds, our_seconds, peers).must_reach(goal))
}

/// Hands every batch of a file to `take`.
type Decode = fn(&Bytes, take: &mut dyn FnMut(RecordBatch)) -> Result<()>;

fn ours(file: &Bytes, take: &mut dyn FnMut(RecordBatch)) -> Result<()> {
    Ok(penstock_gateway::decode_file(file, BATCH_ROWS, take)?)
}

fn theirs(file: &Bytes, take: &mut dyn FnMut(RecordBatch)) -> Result<()> {
    for batch in
        ParquetRecordBatchReaderBuilder::try_new(file.clone())?.with_batch_size(BATCH_ROWS).build()?
    {
        take(batch?);
    }
    Ok(())
}

/// All rows in one batch: batches end at row groups in one reader and not in the other.
fn decoded(file: &Bytes, decode: Decode) -> Result<RecordBatch> {
    let mut batches = Vec::new();
    decode(file, &mut |batch| batches.push(batch))?;
    let schema = batches.first().context("the file has no rows")?.schema();
    Ok(arrow::compute::concat_batches(&schema, &batches)?)
}

/// What decoding the file once costs.
fn cpu_seconds(file: &Bytes, decode: Decode) -> Result<f64> {
    let (before, began) = (client::cpu_seconds(std::process::id())?, Instant::now());
    let mut times = 0.0;
    while began.elapsed() < RUN_TIME {
        decode(file, &mut drop)?;
        times += 1.0;
    }
    Ok((client::cpu_seconds(std::process::id())? - before) / times)
}
