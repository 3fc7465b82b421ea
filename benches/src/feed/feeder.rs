//! One tool feeding one set in a process of its own, watched from outside.
//!
//! The script prepares, and waits to be told to feed; it feeds, and waits to be told to check. What is counted lies between
//! the two: neither imports and conversions nor the checks.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::tree::{Seen, Watch};
use crate::client;
use crate::median::median;
use crate::sets::Set;

/// Until imports, servers and conversions are done.
const PREPARATION: Duration = Duration::from_secs(900);
/// Beyond the time that a feeder has: until its first batch is there.
const GRACE: Duration = Duration::from_secs(90);

/// A tool, and the interpreter that has it.
#[derive(Debug, Clone)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    /// The module below `feed/peers/`.
    pub(super) module: &'static str,
    pub(super) python: Result<String, String>,
}

/// Who takes a tool's batches.
#[derive(Debug, Clone, Copy)]
pub(super) enum Loop {
    /// One over a `tf.data.Dataset`, the same for all tools.
    Tensors,
    /// One over the arrays that the tool makes on its own.
    Arrays,
}

/// What one feeding was.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Fed {
    pub(super) tool: &'static str,
    /// What it reads: Parquet, or a format of its own, to which the set was converted before.
    pub(super) format: String,
    pub(super) versions: BTreeMap<String, String>,
    /// Wall seconds from when it was asked to the last batch.
    pub(super) seconds: f64,
    pub(super) rows_a_second: f64,
    /// Of all its processes.
    pub(super) cpu_s_a_gb: f64,
    /// Of the process that takes the batches.
    pub(super) trainer_cpu_s_a_gb: f64,
    pub(super) first_batch_s: f64,
    /// Wall seconds of the first epoch, if it came to its end.
    pub(super) first_epoch_s: Option<f64>,
    /// Of all its processes, above what they had when all was prepared.
    pub(super) peak_mb: f64,
    /// Whether it makes arrays at all: some are made of TensorFlow.
    #[serde(skip)]
    pub(super) makes_arrays: bool,
    /// Where that was measured.
    pub(super) as_numpy: Option<AsNumpy>,
}

/// What a tool reaches on its own.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct AsNumpy {
    pub(super) rows_a_second: f64,
    pub(super) cpu_s_a_gb: f64,
}

#[derive(Deserialize)]
struct Ready {
    format: String,
    versions: BTreeMap<String, String>,
    arrays: bool,
}

#[derive(Deserialize)]
struct Read {
    rows: u64,
    seconds: f64,
    first_batch_s: f64,
    first_epoch_s: Option<f64>,
}

#[derive(Deserialize)]
struct Checked {
    wrong: Option<String>,
}

impl Tool {
    /// Feeds a set, epoch after epoch, for so many seconds from the first batch on. The error says what went wrong, or what was
    /// wrong with the batches.
    pub(super) fn feed(&self, set: &Set, data: &Path, to: Loop, seconds: u64) -> Result<Fed> {
        let python = self.python.as_ref().map_err(|why| anyhow!("not here: {why}"))?;
        let mut script = Script::start(python, [self.module, &set.name], data, to, seconds)?;
        let ready: Ready = script.hear(PREPARATION)?;
        let mut before = Seen::of(script.child.id());
        before.look();
        before.look_at_memory();
        let watch = Watch::start(before.clone());
        script.go_on()?;
        let read: Result<Read> = script.hear(Duration::from_secs(seconds) + GRACE);
        let after = watch.stop()?;
        script.seen = Some(after.clone());
        let read = read?;
        script.go_on()?;
        let checked: Checked = script.hear(GRACE)?;
        if let Some(wrong) = checked.wrong {
            bail!("wrong: {wrong}");
        }
        let gigabytes = (read.rows * set.row_bytes) as f64 / 1e9;
        Ok(Fed {
            tool: self.name,
            format: ready.format,
            versions: ready.versions,
            seconds: read.seconds,
            rows_a_second: read.rows as f64 / read.seconds,
            cpu_s_a_gb: (after.cpu_seconds() - before.cpu_seconds()) / gigabytes,
            trainer_cpu_s_a_gb: (after.root_cpu_seconds() - before.root_cpu_seconds()) / gigabytes,
            first_batch_s: read.first_batch_s,
            first_epoch_s: read.first_epoch_s,
            peak_mb: after.peak_bytes.saturating_sub(before.peak_bytes) as f64 / 1e6,
            makes_arrays: ready.arrays,
            as_numpy: None,
        })
    }
}

/// The same tool at the same set several times, every figure the median of its own.
pub(super) fn median_of(runs: &[Fed]) -> Option<Fed> {
    let of = |figure: fn(&Fed) -> f64| median(runs.iter().map(figure));
    Some(Fed {
        seconds: of(|run| run.seconds),
        rows_a_second: of(|run| run.rows_a_second),
        cpu_s_a_gb: of(|run| run.cpu_s_a_gb),
        trainer_cpu_s_a_gb: of(|run| run.trainer_cpu_s_a_gb),
        first_batch_s: of(|run| run.first_batch_s),
        first_epoch_s: runs.iter().map(|run| run.first_epoch_s).collect::<Option<Vec<f64>>>().map(median),
        peak_mb: of(|run| run.peak_mb),
        ..runs.first()?.clone()
    })
}

/// The script, which says one JSON line at a time. Ended with all that came of it when dropped.
struct Script {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    seen: Option<Seen>,
    log: String,
}

impl Script {
    fn start(python: &str, what: [&str; 2], data: &Path, to: Loop, seconds: u64) -> Result<Self> {
        let to = match to {
            Loop::Tensors => "tensors",
            Loop::Arrays => "arrays",
        };
        let log = data.join(format!("{}-{to}.log", what.join("-")));
        let stderr =
            std::fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut child = Command::new(python)
            .arg(client::script("feed/feeder.py"))
            .args(what)
            .arg(data)
            .arg(seconds.to_string())
            .arg(to)
            .env("TF_CPP_MIN_LOG_LEVEL", "2")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .with_context(|| format!("cannot start {python}"))?;
        let stdin = child.stdin.take().context("the feeder has no input")?;
        let stdout = child.stdout.take().context("the feeder has no output")?;
        let (said, lines) = mpsc::channel();
        thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| said.send(line))
        });
        Ok(Self { child, stdin, lines, seen: None, log: log.display().to_string() })
    }

    /// The next line that is of the kind; what libraries print is passed over.
    fn hear<T: DeserializeOwned>(&self, patience: Duration) -> Result<T> {
        loop {
            let line = self.lines.recv_timeout(patience).with_context(|| self.last_words())?;
            if let Ok(heard) = serde_json::from_str(&line) {
                return Ok(heard);
            }
        }
    }

    fn go_on(&mut self) -> Result<()> {
        self.stdin.write_all(b"\n").context("the feeder does not listen")
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last = log.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        format!("failed: {last} (see {})", self.log)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let seen = self.seen.take().unwrap_or_else(|| Seen::of(self.child.id()));
        seen.kill();
        // Ended already is as good.
        let _ = self.child.wait();
    }
}
