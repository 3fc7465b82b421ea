//! Every death of every strategy, with real TensorFlow: who comes back, what is trained, what is left.

#![allow(clippy::unwrap_used, reason = "tests state their expectations by unwrapping")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use penstock_tests::data::{self, Shape};
use penstock_tests::process::penstock_bin;
use penstock_tests::real::python_with_tensorflow;
use serde_json::Value;
use tempfile::TempDir;

/// Forty steps of twenty rows.
const ROWS: i64 = 800;

/// A job that has ended.
struct Ended {
    place: TempDir,
    code: Option<i32>,
    said: String,
    summary: Value,
}

/// Runs `job.py` of a strategy, its tasks dying as `deaths` says; nothing where TensorFlow is absent.
fn run(strategy: &str, flags: &[&str], deaths: &[&str]) -> Option<Ended> {
    let python = python_with_tensorflow()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    data::write(&data, Shape { files: 2, rows_per_file: 400, row_group: 100, payload: None });
    let run = place.path().join("run");
    let output: Output = Command::new(penstock_bin())
        .env("PYTHONPATH", root.join("trainer-sidecar/python"))
        .env("PENSTOCK_NATIVE", penstock_bin().parent().unwrap())
        .env("TF_CPP_MIN_LOG_LEVEL", "2")
        .args(["run", "--max-restarts", "4"])
        .args(flags)
        .arg(format!("--input=train={}", data.display()))
        .arg(format!("--python={}", python.display()))
        .arg(format!("--run-dir={}", run.display()))
        .arg(root.join("tests/launcher/job.py"))
        .arg(strategy)
        .args(deaths)
        .output()
        .unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(left_over(&run), Vec::<i32>::new(), "{said}");
    let summary = serde_json::from_slice(&std::fs::read(run.join("summary.json")).unwrap()).unwrap();
    Some(Ended { place, code: output.status.code(), said, summary })
}

/// Processes that still carry the run's mark.
fn left_over(run: &Path) -> Vec<i32> {
    let mark = format!("PENSTOCK_PROCESS={}", run.display());
    let is_marked = |pid: &i32| {
        std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|all| {
            all.split(|byte| *byte == 0).any(|variable| variable.starts_with(mark.as_bytes()))
        })
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_marked).collect()
}

impl Ended {
    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join("run").join(name)
    }

    /// The job succeeded, and so often each task was started again.
    fn check(&self, restarts: &[(&str, u64)]) {
        assert_eq!(self.code, Some(0), "{}", self.said);
        let of = |task: &Value| {
            let name = format!("{}:{}", task["role"].as_str().unwrap(), task["index"]);
            (name, task["restarts"].as_u64().unwrap())
        };
        let counted: BTreeMap<_, _> = self.summary["tasks"].as_array().unwrap().iter().map(of).collect();
        let expected = restarts.iter().map(|&(name, often)| (name.to_owned(), often)).collect();
        assert_eq!(counted, expected, "{}", self.said);
    }

    fn ids(&self, rank: u32) -> Vec<i64> {
        serde_json::from_slice(&std::fs::read(self.path(&format!("ids-{rank}.json"))).unwrap()).unwrap()
    }
}

fn sorted(mut ids: Vec<i64>) -> Vec<i64> {
    ids.sort_unstable();
    ids
}

/// All begin anew, and what they were fed in the end is every row once.
fn workers_in_step_survive(victim: &str) {
    let death = format!("{victim}=start,import,train,end");
    let Some(ended) = run("in-step", &["--num-workers=2"], &[&death]) else { return };
    ended.check(&[("worker:0", 4), ("worker:1", 4)]);
    assert_eq!(sorted([ended.ids(0), ended.ids(1)].concat()), (0..ROWS).collect::<Vec<_>>());
}

#[test]
fn workers_in_step_survive_every_death_of_the_first() {
    workers_in_step_survive("worker:0");
}

#[test]
fn workers_in_step_survive_every_death_of_another() {
    workers_in_step_survive("worker:1");
}

#[test]
fn a_chief_that_trains_with_the_workers_may_die_too() {
    let flags = ["--num-workers=1", "--chief"];
    let Some(ended) = run("in-step", &flags, &["chief:0=train"]) else { return };
    ended.check(&[("chief:0", 1), ("worker:0", 1)]);
}

#[test]
fn one_process_goes_on_where_it_was_and_its_evaluator_dies_by_itself() {
    let flags = ["--evaluator"];
    let deaths = ["worker:0=start,import,train,end", "evaluator:0=start,import,train"];
    let Some(ended) = run("alone", &flags, &deaths) else { return };
    ended.check(&[("worker:0", 4), ("evaluator:0", 3)]);
    let ids = std::fs::read_to_string(ended.path("ids.txt")).unwrap();
    let ids: std::collections::BTreeSet<i64> = ids.lines().map(|id| id.parse().unwrap()).collect();
    assert_eq!(ids, (0..ROWS).collect(), "none is lost");
}

const SERVED: [&str; 3] = ["--chief", "--num-workers=2", "--num-ps=1"];

#[test]
fn a_coordinator_waits_for_a_worker_that_comes_back_alone() {
    let Some(ended) = run("coordinated", &SERVED, &["worker:1=start,import,train"]) else { return };
    ended.check(&[("chief:0", 0), ("worker:0", 0), ("worker:1", 3), ("ps:0", 0)]);
    assert_eq!(std::fs::read_to_string(ended.path("count")).unwrap(), "40");
}

#[test]
fn with_the_chief_or_a_parameter_server_all_begin_anew() {
    for death in ["chief:0=start,import,train,end", "ps:0=start,import,train"] {
        let Some(ended) = run("coordinated", &SERVED, &[death]) else { return };
        let often = death.matches(',').count() as u64 + 1;
        ended.check(&["chief:0", "worker:0", "worker:1", "ps:0"].map(|task| (task, often)));
        assert_eq!(std::fs::read_to_string(ended.path("count")).unwrap(), "40");
    }
}

#[test]
fn tensorflow_1_takes_workers_back_and_begins_anew_without_its_variables() {
    let flags = ["--num-workers=2", "--num-ps=1"];
    let Some(ended) = run("tf1", &flags, &["worker:1=start,import,train"]) else { return };
    ended.check(&[("worker:0", 0), ("worker:1", 3), ("ps:0", 0)]);
    let Some(ended) = run("tf1", &flags, &["ps:0=start,train"]) else { return };
    ended.check(&[("worker:0", 2), ("worker:1", 2), ("ps:0", 2)]);
}
