//! Runs the Python side of a bench: a script that does the reading and prints one JSON line.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use crate::median::median;

/// What a reader saw, over the whole stream.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Read {
    /// Wall seconds from the request to the end of the stream.
    pub(crate) seconds: f64,
    /// Bytes of all columns, as decoded.
    pub(crate) bytes: f64,
    pub(crate) rows: u64,
    /// CPU seconds of the reader.
    pub(crate) cpu_s: f64,
}

impl Read {
    pub(crate) fn gigabytes_a_second(&self) -> f64 {
        self.bytes / self.seconds / 1e9
    }
}

/// One reading, and what it cost the server.
pub(crate) struct Run {
    pub(crate) read: Read,
    pub(crate) server_cpu_s: f64,
}

impl Run {
    pub(crate) fn measure(server: u32, read: impl FnOnce() -> Result<Read>) -> Result<Self> {
        let before = cpu_seconds(server)?;
        let read = read()?;
        Ok(Self { read, server_cpu_s: cpu_seconds(server)? - before })
    }
}

/// The median speed in GB/s.
pub(crate) fn rate(runs: &[Run]) -> f64 {
    median(runs.iter().map(|run| run.read.gigabytes_a_second()))
}

/// The median wall seconds.
pub(crate) fn seconds(runs: &[Run]) -> f64 {
    median(runs.iter().map(|run| run.read.seconds))
}

/// The median CPU seconds of the server.
pub(crate) fn server_cpu(runs: &[Run]) -> f64 {
    median(runs.iter().map(|run| run.server_cpu_s))
}

/// The median CPU seconds of server and reader together.
pub(crate) fn total_cpu(runs: &[Run]) -> f64 {
    median(runs.iter().map(|run| run.server_cpu_s + run.read.cpu_s))
}

/// Data that a script makes, in a directory that is gone when it is dropped.
pub(crate) fn make_data(name: &str) -> Result<TempDir> {
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let made = Command::new(python()).arg(script(name)).arg(directory.path()).status();
    let made = made.with_context(|| format!("cannot run {name}"))?;
    ensure!(made.success(), "{name} ended with {made}");
    Ok(directory)
}

/// Runs a script that makes something in a directory; what it printed.
pub(crate) fn output(name: &str, directory: &Path) -> Result<Vec<u8>> {
    let output = Command::new(python()).arg(script(name)).arg(directory).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot run {name}"))?;
    ensure!(output.status.success(), "{name} ended with {}", output.status);
    Ok(output.stdout)
}

/// The interpreter that has pyarrow and penstock; `make bench` names it.
pub(crate) fn python() -> PathBuf {
    std::env::var_os("PENSTOCK_PYTHON").map_or_else(|| "python3".into(), PathBuf::from)
}

/// A script in `benches/`.
pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Runs a reader to its end.
pub(crate) fn read(name: &str, arguments: &[&str]) -> Result<Read> {
    last_line(name, arguments)
}

/// Runs a script to its end; the JSON that it printed last.
pub(crate) fn last_line<T: DeserializeOwned>(name: &str, arguments: &[&str]) -> Result<T> {
    let path = script(name);
    let output = Command::new(python())
        .arg(&path)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", path.display()))?;
    ensure!(output.status.success(), "{} ended with {}", path.display(), output.status);
    let line = output.stdout.split(|&byte| byte == b'\n').rfind(|line| !line.is_empty()).unwrap_or_default();
    serde_json::from_slice(line).with_context(|| format!("{} printed no figures", path.display()))
}

/// CPU seconds that a process has used so far, children not counted.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid} is gone"))?;
    let after_name = stat.rsplit_once(')').context("/proc/PID/stat has no command name")?.1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks: u64 = fields
        .get(11..13)
        .context("/proc/PID/stat is short")?
        .iter()
        .filter_map(|f| f.parse::<u64>().ok())
        .sum();
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
