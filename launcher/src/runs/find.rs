//! Finds runs: all below a directory, or the one that somebody means.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal};
use serde::Deserialize;

use super::{Launcher, RunState};

/// A run directory and what it holds.
#[derive(Debug)]
pub struct Run {
    pub path: PathBuf,
    /// Absent of a run that has only begun, or of an earlier version's.
    pub state: Option<RunState>,
    pub standing: Standing,
}

/// Whether a run goes on.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    Running,
    /// Its `summary.json` says how.
    Ended(Ending),
    /// Its launcher is gone without a word.
    Lost,
}

/// What a summary says of the whole.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Ending {
    pub state: String,
    pub outcome: String,
    pub exit_code: i32,
    #[serde(default)]
    pub seconds: f64,
    #[serde(default)]
    pub tasks: Vec<EndedTask>,
}

/// What it says of a task.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct EndedTask {
    pub role: String,
    pub index: u32,
    pub state: String,
    pub exit_code: Option<i32>,
    #[serde(default)]
    pub restarts: u32,
}

/// No run is meant by what was said.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("no run is below {}: name a run directory, or go to where `penstock run` was called", .0.display())]
    NoRuns(PathBuf),
    #[error("no run is called {name:?}: there are {}", .there.join(", "))]
    NoSuch { name: String, there: Vec<String> },
}

/// All runs below a directory, those that began last first.
pub fn all(directory: &Path) -> Vec<Run> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path()).filter(|path| is_run(path));
    let mut runs: Vec<Run> = paths.map(Run::read).collect();
    runs.sort_by(|a: &Run, b: &Run| b.began().cmp(&a.began()));
    runs
}

/// The run that is meant: by its directory, by the name of that below `directory`, by its job's name, the latest of
/// these; without a name the latest that goes on, or else the latest of all.
pub fn find(directory: &Path, name: Option<&str>) -> Result<Run, FindError> {
    if let Some(path) = name.map(Path::new).filter(|path| is_run(path)) {
        return Ok(Run::read(path.to_owned()));
    }
    let mut runs = all(directory);
    if runs.is_empty() {
        return Err(FindError::NoRuns(directory.to_owned()));
    }
    let wanted = match name {
        Some(name) => runs.iter().position(|run| run.name() == name || run.job() == Some(name)),
        None => Some(runs.iter().position(|run| run.standing == Standing::Running).unwrap_or(0)),
    };
    match (wanted, name) {
        (Some(place), _) => Ok(runs.swap_remove(place)),
        (None, name) => Err(FindError::NoSuch {
            name: name.unwrap_or_default().to_owned(),
            there: runs.iter().map(Run::name).take(10).collect(),
        }),
    }
}

fn is_run(path: &Path) -> bool {
    path.join("logs").is_dir()
}

impl Run {
    /// A run whose files cannot be read is a lost one, and no reason to show none.
    fn read(path: PathBuf) -> Self {
        let state = RunState::read(&path).ok().flatten();
        // Asked before the summary is looked for, which a launcher writes before it ends.
        let is_alive = state.as_ref().is_some_and(|state| state.launcher.is_alive());
        let summary = std::fs::read(path.join("summary.json")).ok();
        let ending = summary.and_then(|text| serde_json::from_slice(&text).ok());
        let standing = match ending {
            Some(ending) => Standing::Ended(ending),
            None if is_alive => Standing::Running,
            None => Standing::Lost,
        };
        Self { path, state, standing }
    }

    /// Of its directory.
    pub fn name(&self) -> String {
        let absolute = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        absolute.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    pub fn job(&self) -> Option<&str> {
        self.state.as_ref().map(|state| state.job.as_str())
    }

    /// The addresses of its tasks by role, in the order of their indices.
    pub fn cluster(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut cluster: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for task in self.state.iter().flat_map(|state| &state.tasks) {
            if let Some(address) = &task.address {
                cluster.entry(&task.role).or_default().push(address);
            }
        }
        cluster
    }

    /// Asks its launcher for the end; `now`, without time for anybody.
    pub fn interrupt(&self, now: bool) -> io::Result<()> {
        let launcher = self.state.as_ref().map(|state| state.launcher).filter(Launcher::is_alive);
        let pid = launcher.and_then(|launcher| Pid::from_raw(launcher.pid));
        let pid = pid.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        rustix::process::kill_process(pid, Signal::TERM)?;
        // Another one, since a signal that waits to be taken is not there twice.
        if now {
            rustix::process::kill_process(pid, Signal::INT)?;
        }
        Ok(())
    }

    /// Sorts as the runs began.
    fn began(&self) -> (Option<&str>, String) {
        (self.state.as_ref().map(|state| state.started.as_str()), self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Recorder;
    use super::*;

    /// A run directory of a job `digits` whose launcher is this process or, `lost`, none.
    fn run(runs: &Path, name: &str, lost: bool) -> PathBuf {
        let path = runs.join(name);
        std::fs::create_dir_all(path.join("logs")).unwrap();
        let this = Launcher::this();
        let started_ticks = if lost { this.started_ticks + 1 } else { this.started_ticks };
        let state = RunState {
            version: 1,
            job: "digits".into(),
            program: "train.py".into(),
            launcher: Launcher { started_ticks, ..this },
            started: name.into(),
            tasks: vec![],
        };
        Recorder::default().record(&path, state).unwrap();
        path
    }

    #[test]
    fn the_run_that_goes_on_is_meant_if_nothing_is_said() {
        let place = tempfile::tempdir().unwrap();
        let runs = place.path();
        assert!(matches!(find(runs, None), Err(FindError::NoRuns(_))));
        run(runs, "a-1", false);
        run(runs, "b-2", true);
        let ended = run(runs, "c-3", false);
        std::fs::write(
            ended.join("summary.json"),
            r#"{"state": "failed", "outcome": "failed", "exit_code": 3}"#,
        )
        .unwrap();
        let broken = runs.join("0");
        std::fs::create_dir_all(broken.join("logs")).unwrap();
        std::fs::write(broken.join("state.json"), "{").unwrap();
        let names: Vec<_> = all(runs).iter().map(Run::name).collect();
        assert_eq!(names, ["c-3", "b-2", "a-1", "0"]);
        let found = |name| find(runs, name).map(|run| (run.name(), run.standing));
        assert_eq!(found(None).unwrap(), ("a-1".into(), Standing::Running));
        assert_eq!(found(Some("b-2")).unwrap(), ("b-2".into(), Standing::Lost));
        assert!(matches!(found(Some("digits")).unwrap(), (name, Standing::Ended(_)) if name == "c-3"));
        assert_eq!(found(Some(ended.to_str().unwrap())).unwrap().0, "c-3");
        assert_eq!(
            found(Some("d")).unwrap_err().to_string(),
            "no run is called \"d\": there are c-3, b-2, a-1, 0"
        );
    }
}
