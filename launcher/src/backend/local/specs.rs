//! The command line of every process of a job.
//!
//! In: the job and where things are. Out: specs. The promise: nothing is started or read here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Setup;
use super::lingering;
use super::process::Spec;
use super::ready;
use super::rundir::RunDir;
use crate::environment::{Wiring, arguments, not_inherited, variables};
use crate::job::Job;
use crate::topology::{Role, Task, TaskId, Topology};

/// How long a daemon keeps freed memory. It works for one job, which will want it again: pages that come back from the
/// system take a fifth of the time of a later epoch.
const KEEPS: &str = "MIMALLOC_PURGE_DELAY";
const KEEPS_MS: &str = "6000";

/// One gateway serves all inputs of the job.
pub(super) fn gateway(job: &Job, setup: &Setup, directory: &RunDir, key: &Path) -> Spec {
    let mut args = vec!["gateway".to_owned(), "--listen=127.0.0.1:0".to_owned()];
    // By which it lends batches to the sidecars, for a third of what TCP costs.
    args.push(format!("--unix-socket={}", directory.gateway_socket().display()));
    args.extend(job.inputs.iter().map(|(name, uri)| format!("--dataset={name}={uri}")));
    args.push(format!("--ticket-key-file={}", key.display()));
    daemon(job, setup, "gateway".to_owned(), directory.log("gateway"), args)
}

/// The sidecar beside a task.
pub(super) fn sidecar(job: &Job, setup: &Setup, directory: &RunDir, task: TaskId, wiring: &Wiring) -> Spec {
    let args = vec![
        "sidecar".to_owned(),
        format!("--listen={}", directory.socket(task).display()),
        format!("--gateway={}", wiring.gateways.join(",")),
    ];
    let log = directory.log(&format!("sidecar-{}", task.file_stem()));
    daemon(job, setup, format!("sidecar of {task}"), log, args)
}

/// What daemons say is kept and not shown: the terminal is for the training.
fn daemon(job: &Job, setup: &Setup, name: String, log: PathBuf, mut args: Vec<String>) -> Spec {
    args.push("--admin=127.0.0.1:0".to_owned());
    // Beside the agent's own watch: a daemon whose agent was killed leaves with the launcher.
    args.push(format!("--exit-with={}", std::process::id()));
    Spec {
        name,
        program: setup.penstock.clone(),
        args,
        env: BTreeMap::from([(KEEPS.to_owned(), std::env::var(KEEPS).unwrap_or(KEEPS_MS.to_owned()))]),
        not_inherited: &[],
        log,
        shown: None,
        wanted: Some(ready::of_daemon),
        grace: job.grace.stop,
    }
}

/// What a task runs, and its arguments: a script under Python, a program of its own, or TensorBoard.
pub(super) fn command_line(
    job: &Job,
    task: &Task,
    topology: &Topology,
    wiring: &Wiring,
) -> (PathBuf, Vec<String>) {
    if task.id.role == Role::TensorBoard {
        let logdir = wiring.logdir.display().to_string();
        let args = ["-m", "tensorboard.main", "--logdir", &logdir, "--port", "0"];
        (job.python.clone(), args.map(str::to_owned).to_vec())
    } else {
        let (program, own) = job.command(task.id.role);
        let (program, mut args) = program.command_line(&job.python, job.wiring.map_fun.as_deref());
        args.extend(arguments(job, own, task, topology, wiring));
        (program, args)
    }
}

/// A task, and how it is shown.
pub(super) fn task(
    job: &Job,
    setup: &Setup,
    directory: &RunDir,
    task: &Task,
    topology: &Topology,
    wiring: &Wiring,
) -> Spec {
    let board = task.id.role == Role::TensorBoard;
    let (program, args) = command_line(job, task, topology, wiring);
    let mut env = variables(job, task, topology, wiring);
    if let Some(path) = lingering::end_file(&directory.path, topology.strategy, task.id) {
        env.insert("PENSTOCK_END_FILE".to_owned(), path.display().to_string());
    }
    let name = task.id.to_string();
    let place = topology.tasks.iter().position(|other| other.id == task.id).unwrap_or(0);
    let prefix = setup.terminal.prefix(&name, place);
    Spec {
        name,
        program,
        args,
        env,
        not_inherited: not_inherited(job),
        log: directory.log(&task.id.file_stem()),
        shown: (!board).then(|| (setup.terminal.clone(), prefix)),
        wanted: if board { Some(ready::of_tensorboard) } else { None },
        grace: job.grace.stop,
    }
}
