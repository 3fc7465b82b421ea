//! The trainer's process: what taking a batch costs it, how soon a feed goes on, and what many epochs leave behind.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use serde::Deserialize;

use crate::client;
use crate::report::{Line, Report};

/// Size of a batch, its data, and how many are taken.
const BATCHES: &[(&str, &str, &str)] = &[("61 KiB", "small", "2000"), ("64 MiB", "large", "200")];
/// Times that a feed goes on at each place.
const RESUMED: &str = "7";
const EPOCHS: &str = "200";

/// CPU microseconds a batch.
#[derive(Deserialize)]
struct Dequeued {
    eager_us: f64,
    loop_us: f64,
    generator_us: f64,
    copied: f64,
}

#[derive(Deserialize)]
struct Resumed {
    early_s: f64,
    late_s: f64,
}

#[derive(Deserialize)]
struct Left {
    mb: f64,
    fds: f64,
    threads: f64,
    gateway_mb: f64,
    sidecar_mb: f64,
}

pub(crate) fn run() -> Result<Report> {
    let directory = client::make_data("trainer/make_data.py")?;
    let mut lines = Vec::new();
    for batches in BATCHES {
        lines.extend(dequeued(directory.path(), batches)?);
    }
    lines.push(resumed(directory.path())?);
    lines.extend(left(directory.path())?);
    Ok(Report { title: "trainer: batches in shared memory to TensorFlow on this machine".to_owned(), lines })
}

fn dequeued(directory: &Path, &(size, data, batches): &(&str, &str, &str)) -> Result<Vec<Line>> {
    let run: Dequeued = client::last_line("trainer/dequeue.py", &[&path(directory, data), batches])?;
    let none = BTreeMap::new;
    let generator = BTreeMap::from([("from_generator".to_owned(), run.generator_us)]);
    let in_loop = Line::cost(format!("{size}: loop in a tf.function"), "us", run.loop_us, 0.0, generator);
    Ok(vec![
        Line::cost(format!("{size}: the op, eager"), "us", run.eager_us, 0.0, none()).at_most(25.0),
        if data == "large" { in_loop.must_stay_within(0.05) } else { in_loop },
        Line::cost(format!("{size}: tensors that were copied"), "", run.copied, 0.0, none()).at_most(0.0),
    ])
}

fn resumed(directory: &Path) -> Result<Line> {
    let run: Resumed = client::last_line("trainer/resume.py", &[&path(directory, "images"), RESUMED])?;
    let peers = BTreeMap::from([("at a tenth".to_owned(), 1e3 * run.early_s)]);
    Ok(Line::cost("going on at nine tenths of an epoch", "ms", 1e3 * run.late_s, 0.0, peers)
        .must_stay_within(1.25))
}

fn left(directory: &Path) -> Result<Vec<Line>> {
    let run: Left = client::last_line("trainer/epochs.py", &[&path(directory, "small"), EPOCHS])?;
    let line = |what: &str, unit, figure: f64| Line::cost(what, unit, figure, 0.0, BTreeMap::new());
    Ok(vec![
        line("200 epochs: memory that grew", "MB", run.mb).at_most(16.0),
        line("200 epochs: file descriptors that grew", "", run.fds).at_most(0.0),
        line("200 epochs: threads that grew", "", run.threads).at_most(0.0),
        line("peak memory of the gateway", "MB", run.gateway_mb).at_most(512.0 * 1.048_576 + 200.0),
        line("peak memory of the sidecar", "MB", run.sidecar_mb).at_most(1024.0 * 1.048_576 + 200.0),
    ])
}

fn path(directory: &Path, data: &str) -> String {
    directory.join(data).display().to_string()
}
