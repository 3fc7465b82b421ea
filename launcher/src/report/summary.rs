//! The facts of a finished job, as `summary.json` holds them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Number;

use super::FeedRecord;

/// Everything known at the end of a job.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// Of this layout; members may be added without raising it.
    pub version: u32,
    pub job: String,
    pub script: PathBuf,
    pub args: Vec<String>,
    /// `succeeded`, `failed` or `interrupted`.
    pub state: &'static str,
    /// One sentence; for people.
    pub outcome: String,
    /// The launcher's own.
    pub exit_code: i32,
    /// A task or daemon; absent where nobody failed.
    pub first_failure: Option<String>,
    /// UTC, RFC 3339.
    pub started: String,
    pub ended: String,
    pub seconds: f64,
    /// Dataset name → URI.
    pub inputs: BTreeMap<String, String>,
    pub run_dir: PathBuf,
    pub tasks: Vec<TaskRecord>,
    pub daemons: Vec<DaemonRecord>,
    /// The culprit's last lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
    /// Where they are from.
    #[serde(skip)]
    pub last_lines_log: Option<PathBuf>,
}

/// A task and how it ended.
#[derive(Debug, Clone, Serialize)]
pub struct TaskRecord {
    pub role: String,
    pub index: u32,
    pub pid: Option<i32>,
    /// As a shell has it: 128 + n after signal n. Absent where the task was never started.
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// `succeeded`, `failed`, `stopped` or `not_started`.
    pub state: &'static str,
    pub first_failure: bool,
    /// How often it was started again after a death.
    pub restarts: u32,
    pub started: Option<String>,
    pub seconds: Option<f64>,
    pub log: PathBuf,
}

/// A gateway or a sidecar and what it did.
#[derive(Debug, Clone, Serialize)]
pub struct DaemonRecord {
    /// `gateway`, `sidecar of worker:0`.
    pub name: String,
    /// `gateway` or `sidecar`.
    pub kind: &'static str,
    pub pid: Option<i32>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub first_failure: bool,
    pub log: PathBuf,
    /// Absent where the daemon could not be asked before its end.
    pub peak_memory_bytes: Option<u64>,
    pub cpu_seconds: Option<f64>,
    pub rows: Option<u64>,
    pub bytes: Option<u64>,
    /// Of a sidecar: where each feed's time went.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub feeds: Vec<FeedRecord>,
    /// Every `penstock_*` and `process_*` series.
    pub metrics: BTreeMap<String, Number>,
}
