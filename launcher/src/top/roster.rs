//! Who serves a running job, and where each tells how it is doing.
//!
//! In: a run directory. Out: the daemons of its run. The promise: a roster is seen whole or not at all.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// In the run directory, beside the summary that comes later.
const FILE: &str = "daemons.json";
const SUMMARY: &str = "summary.json";

/// The daemons of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    pub daemons: Vec<Entry>,
}

/// A gateway or a sidecar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub kind: DaemonKind,
    /// `gateway`, `worker:0`: whom it serves.
    pub name: String,
    /// `http://HOST:PORT`
    pub admin: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DaemonKind {
    Gateway,
    Sidecar,
}

/// There is nobody to ask.
#[derive(Debug, thiserror::Error)]
pub enum RosterError {
    #[error("no run is in {}: name its directory with --run-dir, or sidecars with --sidecar", .0.display())]
    NoRun(PathBuf),
    #[error("the job in {} has ended: its summary.json tells where the time went", .0.display())]
    Ended(PathBuf),
    #[error("the job in {} has no feed, or none yet: penstock run --input NAME=URI gives it one", .0.display())]
    NoFeed(PathBuf),
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
}

impl Roster {
    pub(crate) fn write(&self, run: &Path) -> io::Result<()> {
        let draft = run.join(format!("{FILE}.draft"));
        std::fs::write(&draft, serde_json::to_vec_pretty(self)?)?;
        std::fs::rename(draft, run.join(FILE))
    }

    /// The daemons of the run in a directory.
    pub fn of_run(run: &Path) -> Result<Self, RosterError> {
        if !run.is_dir() {
            return Err(RosterError::NoRun(run.to_owned()));
        }
        if run.join(SUMMARY).exists() {
            return Err(RosterError::Ended(run.to_owned()));
        }
        let path = run.join(FILE);
        let read = std::fs::read(&path).and_then(|text| Ok(serde_json::from_slice(&text)?));
        read.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => RosterError::NoFeed(run.to_owned()),
            _ => RosterError::Read { path, source },
        })
    }

    /// The run below a directory that began last, of those that have not ended.
    pub fn of_latest(runs: &Path) -> Result<Self, RosterError> {
        let entries = std::fs::read_dir(runs).map_err(|_| RosterError::NoRun(runs.to_owned()))?;
        let alive = entries.flatten().map(|entry| entry.path()).filter(|run| !run.join(SUMMARY).exists());
        let began = |run: &PathBuf| run.join("logs").metadata().and_then(|logs| logs.modified()).ok();
        let latest = alive.filter(|run| run.join("logs").is_dir()).max_by_key(began);
        latest.ok_or_else(|| RosterError::NoRun(runs.to_owned())).and_then(|run| Self::of_run(&run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_found_as_long_as_it_lasts() {
        let runs = tempfile::tempdir().unwrap();
        let of_latest = || Roster::of_latest(runs.path());
        assert!(matches!(of_latest(), Err(RosterError::NoRun(_))));
        let run = runs.path().join("digits");
        std::fs::create_dir_all(run.join("logs")).unwrap();
        assert!(matches!(of_latest(), Err(RosterError::NoFeed(_))));
        let entry =
            Entry { kind: DaemonKind::Sidecar, name: "worker:0".into(), admin: "http://127.0.0.1:1".into() };
        let roster = Roster { daemons: vec![entry] };
        roster.write(&run).unwrap();
        assert_eq!(of_latest().unwrap(), roster);
        std::fs::write(run.join(SUMMARY), "{}").unwrap();
        assert!(matches!(of_latest(), Err(RosterError::NoRun(_))));
        assert!(matches!(Roster::of_run(&run), Err(RosterError::Ended(_))));
    }
}
