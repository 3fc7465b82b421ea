//! This machine as a backend: every task is a process group of its own.
//!
//! In: a job, and interrupts. Out: the summary, also on disk. The promise: one gateway a job and one
//! sidecar a fed task are up before the first task starts and asked for their metrics after the last has
//! ended; on return, however the job went, none of its processes is alive.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc;

use crate::job::{Job, Program};
use crate::report::Summary;
use crate::runs;
use crate::terminal::Terminal;
use crate::topology::Topology;

mod alarms;
mod holder;
mod lingering;
mod listening;
mod logs;
mod output;
mod plan;
mod port_range;
mod ports;
mod process;
mod readiness;
mod ready;
mod record;
mod run;
mod rundir;
mod shims;
mod specs;
mod starts;
mod strays;

use logs::Journal;

pub use plan::{Plan, PlannedTask};
pub use rundir::RunDirError;
pub(crate) use rundir::place_run;

/// What the backend needs beside the job.
#[derive(Clone)]
pub struct Setup {
    /// The binary with the subcommands `agent`, `gateway` and `sidecar`.
    pub penstock: PathBuf,
    pub terminal: Terminal,
    /// For a daemon to say that it is ready.
    pub start_deadline: Duration,
}

/// Why a job was not even tried.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    #[error("the script {} does not exist: give the path of a Python file", .0.display())]
    NoScript(PathBuf),
    #[error("the script {} is not a file: give the path of a Python file", .0.display())]
    NotAFile(PathBuf),
    #[error("there is no Python at {}: name one with --python PATH", .0.display())]
    NoPython(PathBuf),
    #[error("there is no program {}: give its path, or a name that is in PATH", .0.display())]
    NoProgram(PathBuf),
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    #[error("cannot write the journal {}", path.display())]
    Journal { path: PathBuf, source: std::io::Error },
    #[error("cannot write the summary {}", path.display())]
    Summary { path: PathBuf, source: std::io::Error },
}

/// Runs the job to its end. Each message on `interrupts` is the number of a signal that asks for the
/// end: the first politely, the second at once.
pub async fn run(job: &Job, setup: &Setup, interrupts: mpsc::Receiver<i32>) -> Result<Summary, LocalError> {
    check(job)?;
    let started = SystemTime::now();
    let topology = Topology::new(job);
    let directory = rundir::RunDir::create(job, &topology, started)?;

    let journal = directory.path.join(runs::JOURNAL);
    let journal = Journal::open(&journal).map_err(|source| LocalError::Journal { path: journal, source })?;

    let mut run = run::Run::new(job, &topology, setup, &directory, journal.clone(), started, interrupts);
    let verdict = run.see_through().await;
    let summary = run.summary(&verdict, started, SystemTime::now());
    drop(run);

    let path = directory.path.join("summary.json");
    let fail = |source| LocalError::Summary { path: path.clone(), source };
    let text = serde_json::to_string_pretty(&summary).map_err(|error| fail(error.into()))?;
    std::fs::write(&path, text + "\n").map_err(fail)?;
    let text = summary.to_text();
    text.lines().for_each(|line| journal.line("penstock", line.as_bytes()));
    setup.terminal.say(&text);
    Ok(summary)
}

/// Whether all programs are there.
pub fn check(job: &Job) -> Result<(), LocalError> {
    job.programs().try_for_each(|program| check_program(program, &job.python))
}

fn check_program(program: &Program, python: &Path) -> Result<(), LocalError> {
    match program {
        Program::Script(script) => {
            check_script(script)?;
            check_python(python)
        }
        Program::Module(_) => check_python(python),
        Program::Command(program) if !is_found(program) => Err(LocalError::NoProgram(program.clone())),
        Program::Command(_) => Ok(()),
    }
}

fn check_script(script: &Path) -> Result<(), LocalError> {
    match script.metadata() {
        Err(_) => Err(LocalError::NoScript(script.to_owned())),
        Ok(found) if !found.is_file() => Err(LocalError::NotAFile(script.to_owned())),
        Ok(_) => Ok(()),
    }
}

fn check_python(python: &Path) -> Result<(), LocalError> {
    if is_found(python) { Ok(()) } else { Err(LocalError::NoPython(python.to_owned())) }
}

/// A bare name is looked up where `exec` will look.
fn is_found(program: &Path) -> bool {
    if program.components().count() > 1 {
        return program.is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
