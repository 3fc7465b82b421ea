//! How a run stands, as its launcher writes it down while it lives.
//!
//! In: tasks and their states. Out: `state.json`, seen whole or not at all. The promise: it names its launcher so that
//! another process with the same number is not taken for it.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

const FILE: &str = "state.json";

/// What is known of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunState {
    /// Of this layout; members may be added without raising it.
    pub version: u32,
    pub job: String,
    pub program: String,
    pub launcher: Launcher,
    /// UTC, RFC 3339.
    pub started: String,
    pub tasks: Vec<TaskStanding>,
}

/// The process that sees the run through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launcher {
    pub pid: i32,
    /// In clock ticks since the machine's start.
    pub started_ticks: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskStanding {
    pub role: String,
    pub index: u32,
    /// `not_started`, `running`, `waiting`, `succeeded`, `failed` or `stopped`.
    pub state: String,
    pub pid: Option<i32>,
    pub restarts: u32,
    /// `HOST:PORT`, of a task that others can reach.
    pub address: Option<String>,
    /// Its share of the data.
    pub rank: Option<u32>,
    pub log: PathBuf,
}

impl RunState {
    /// Nothing where there is none yet.
    pub fn read(run: &Path) -> io::Result<Option<Self>> {
        match std::fs::read(run.join(FILE)) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Launcher {
    /// This process.
    pub(crate) fn this() -> Self {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Self { pid, started_ticks: started_ticks(pid).unwrap_or(0) }
    }

    pub fn is_alive(&self) -> bool {
        started_ticks(self.pid) == Some(self.started_ticks)
    }
}

/// The 22nd field of `/proc/PID/stat`; the second, a name in parentheses, may hold blanks. A zombie has ended.
fn started_ticks(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Writes states down, each once.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    last: Option<RunState>,
}

impl Recorder {
    pub(crate) fn record(&mut self, run: &Path, state: RunState) -> io::Result<()> {
        if self.last.as_ref() == Some(&state) {
            return Ok(());
        }
        let draft = run.join(format!("{FILE}.draft"));
        std::fs::write(&draft, serde_json::to_vec_pretty(&state)?)?;
        std::fs::rename(draft, run.join(FILE))?;
        self.last = Some(state);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_is_known_by_its_start_too() {
        let this = Launcher::this();
        assert!(this.is_alive());
        assert!(!Launcher { started_ticks: this.started_ticks + 1, ..this }.is_alive());
    }
}
