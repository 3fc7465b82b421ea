//! Launching: how soon all tasks of a job run, and what its processes cost while nothing happens.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail, ensure};
use penstock_tests::data::{self, Shape};
use penstock_tests::process::penstock_bin;
use rustix::process::{Pid, Signal};

use crate::client;
use crate::median::median;
use crate::report::{Line, Report};

const RUNS: usize = 5;
const TASKS: usize = 8;
/// How long idle processes are watched.
const WATCHED: Duration = Duration::from_secs(10);
/// What each task does: it says when it runs.
const TASK: &str = "#!/bin/sh\nexec date +%s.%N > \"$1/$$\"\n";
const SCRIPT: &str = "#!/bin/sh\nfor task in $(seq 8); do \"$1\" \"$2\" & done\nwait\n";
/// Debian's, as `make test-torch` sets it up.
const TORCH: &str = "target/venv-torch/bin/python";

pub(crate) fn run() -> Result<Report> {
    let mut lines = starts()?;
    lines.extend(idle()?);
    let title = format!(
        "launch: {TASKS} tasks that say when they run, medians of {RUNS} runs; idle processes for 10 s"
    );
    Ok(Report { title, lines })
}

fn starts() -> Result<Vec<Line>> {
    let place = tempfile::tempdir().context("cannot make a temporary directory")?;
    let task = program(place.path(), "task", TASK)?;
    let script = program(place.path(), "script", SCRIPT)?;
    let torch = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(TORCH);
    let (mut ours, mut torchrun, mut shell) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..RUNS {
        let run = place.path().join(format!("run-{round}"));
        ours.push(until_all_run(place.path(), |seen| {
            let tasks = TASKS.to_string();
            let mut command = Command::new(penstock_bin());
            command.args(["run", "--num-workers", &tasks, "--python", "/bin/sh"]);
            command.arg(format!("--run-dir={}", run.display())).arg(&task).arg(seen);
            command
        })?);
        // Where it cannot be had there is no ratio, and so the goal is missed.
        if torch.exists() {
            torchrun.push(until_all_run(place.path(), |seen| {
                let mut command = Command::new(&torch);
                command.args(["-m", "torch.distributed.run", "--standalone", "--no-python"]);
                command.arg(format!("--nproc-per-node={TASKS}")).arg(&task).arg(seen);
                command
            })?);
        }
        shell.push(until_all_run(place.path(), |seen| {
            let mut command = Command::new(&script);
            command.arg(&task).arg(seen);
            command
        })?);
    }
    let (ours, shell) = (median(ours), median(shell));
    let peers = if torchrun.is_empty() { None } else { Some(("torchrun".to_owned(), median(torchrun))) };
    Ok(vec![
        Line::cost("until all tasks run", "s", ours, 0.0, peers.into_iter().collect()).must_stay_within(1.0),
        Line::cost("the same, beyond a shell script's", "s", ours - shell, 0.0, BTreeMap::new()).at_most(0.3),
    ])
}

fn program(place: &Path, name: &str, body: &str) -> Result<PathBuf> {
    let path = place.join(name);
    std::fs::write(&path, body)?;
    std::fs::set_permissions(&path, Permissions::from_mode(0o755))?;
    Ok(path)
}

/// Seconds from the launcher's start to when the last task ran.
fn until_all_run(place: &Path, launcher: impl FnOnce(&Path) -> Command) -> Result<f64> {
    let seen = tempfile::tempdir_in(place)?;
    let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs_f64();
    let mut command = launcher(seen.path());
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    let mut moments = Vec::new();
    for entry in std::fs::read_dir(seen.path())? {
        moments.push(std::fs::read_to_string(entry?.path())?.trim().parse::<f64>()?);
    }
    ensure!(moments.len() == TASKS, "{command:?} ran {} tasks", moments.len());
    Ok(moments.into_iter().fold(0.0, f64::max) - began)
}

/// A fed worker that sleeps: the share of a core that each process beside it takes.
fn idle() -> Result<Vec<Line>> {
    let place = tempfile::tempdir().context("cannot make a temporary directory")?;
    let data = place.path().join("data");
    data::write(&data, Shape { files: 1, rows_per_file: 100, row_group: 100, payload: None });
    let ready = place.path().join("ready");
    let task = program(place.path(), "task", "#!/bin/sh\ntouch \"$1\"\nexec sleep 1000\n")?;
    let mut launcher = Command::new(penstock_bin())
        .args(["run", "--python", "/bin/sh"])
        .arg(format!("--input=idle={}", data.display()))
        .arg(format!("--run-dir={}", place.path().join("run").display()))
        .arg(&task)
        .arg(&ready)
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start the launcher")?;
    let lines = watch(&mut launcher, &ready);
    if let Some(pid) = Pid::from_raw(launcher.id().cast_signed()) {
        rustix::process::kill_process(pid, Signal::TERM)?;
    }
    launcher.wait()?;
    lines
}

fn watch(launcher: &mut Child, ready: &Path) -> Result<Vec<Line>> {
    while !ready.exists() {
        if let Some(status) = launcher.try_wait()? {
            bail!("the launcher ended with {status}");
        }
        sleep(Duration::from_millis(10));
    }
    let mut watched = vec![("launcher".to_owned(), launcher.id())];
    for agent in children(launcher.id())? {
        let beside = children(agent)?;
        for &process in &beside {
            let name = argument(process, 1)?;
            if name == "gateway" || name == "sidecar" {
                watched.push((name, process));
            } else {
                watched.push(("agent".to_owned(), agent));
            }
        }
    }
    let before: Vec<_> = watched.iter().map(|(_, pid)| client::cpu_seconds(*pid)).collect::<Result<_>>()?;
    sleep(WATCHED);
    let share = |((name, pid), before): ((String, u32), f64)| {
        let cpu = client::cpu_seconds(pid)? - before;
        let share = cpu / WATCHED.as_secs_f64();
        Ok(Line::cost(format!("idle {name}"), "cores", share, cpu, BTreeMap::new()).at_most(0.01))
    };
    watched.into_iter().zip(before).map(share).collect()
}

fn children(pid: u32) -> Result<Vec<u32>> {
    let mut children = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let list = std::fs::read_to_string(task?.path().join("children"))?;
        children.extend(list.split_ascii_whitespace().filter_map(|child| child.parse::<u32>().ok()));
    }
    Ok(children)
}

fn argument(pid: u32, place: usize) -> Result<String> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline"))?;
    Ok(line.split('\0').nth(place).unwrap_or_default().to_owned())
}
