//! Jobs of real TensorFlow: the launcher, a gateway and sidecars as a user has them.

#![allow(clippy::unwrap_used, reason = "tests state their expectations by unwrapping")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use penstock_tests::data::Shape;
use penstock_tests::process::penstock_bin;
use penstock_tests::real::python_with_tensorflow;

/// A command with the package on its path and the binaries of this build behind it.
fn command(program: &Path) -> Command {
    let root = root();
    let mut command = Command::new(program);
    command
        .env("PYTHONPATH", root.join("trainer-sidecar/python"))
        .env("PENSTOCK_NATIVE", penstock_bin().parent().unwrap())
        .env("TF_CPP_MIN_LOG_LEVEL", "2")
        .current_dir(root);
    command
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?} ended with {}:\n{}", output.status, text(&output));
    text(&output)
}

/// The example, judged by its own report: every id once an epoch over both workers, equal steps, one
/// model, better than the baseline.
#[test]
fn digits_are_trained_and_every_promise_is_kept() {
    let Some(python) = python_with_tensorflow() else { return };
    let example = root().join("launcher/examples/digits");
    let out = tempfile::tempdir().unwrap();
    let (data, run) = (out.path().join("data"), out.path().join("run"));
    succeed(command(&python).arg(example.join("make_data.py")).arg(&data));
    succeed(
        command(penstock_bin())
            .args(["run", "--file"])
            .arg(example.join("job.yaml"))
            .arg("--input")
            .arg(format!("digits={}", data.join("train").display()))
            .arg("--input")
            .arg(format!("held-out={}", data.join("held-out").display()))
            .arg("--python")
            .arg(&python)
            .arg("--run-dir")
            .arg(&run),
    );
    let report = succeed(command(&python).arg(example.join("report.py")).arg(&run).arg(&data));
    assert!(report.contains("every promise was kept"), "{report}");
}

/// Its peers wait for it inside TensorFlow, which would last for ever.
#[test]
fn a_worker_that_fails_at_start_ends_the_job_by_name() {
    let Some(python) = python_with_tensorflow() else { return };
    let out = tempfile::tempdir().unwrap();
    let script = out.path().join("train.py");
    let program = "import os, sys\n\
         if os.environ['PENSTOCK_RANK'] == '1':\n    sys.exit('no module named nonsense')\n\
         import tensorflow as tf\n\
         tf.distribute.MultiWorkerMirroredStrategy()\n";
    std::fs::write(&script, program).unwrap();
    let output = command(penstock_bin())
        .args(["run", "--num-workers", "2", "--python"])
        .arg(&python)
        .arg("--run-dir")
        .arg(out.path().join("run"))
        .arg(&script)
        .output()
        .unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("failed: worker:1 exited with code 1"), "{said}");
    assert!(said.contains("no module named nonsense"), "{said}");
}

/// Two groups of two tasks that hold parts of one model: within a group all get the same batches, and the groups share the rows.
#[test]
fn tasks_of_a_replica_group_get_the_same_batches() {
    let Some(python) = python_with_tensorflow() else { return };
    let out = tempfile::tempdir().unwrap();
    let data = out.path().join("data");
    penstock_tests::data::write(&data, Shape { files: 3, rows_per_file: 600, row_group: 200, payload: None });
    let script = out.path().join("train.py");
    let program = "import json, os, penstock\n\
         ids = [batch['id'].tolist() for batch in penstock.feed(batch_size=90, columns=['id'], shuffle='rows', seed=7)]\n\
         task = json.loads(os.environ['TF_CONFIG'])['task']['index']\n\
         said = {'rank': os.environ['PENSTOCK_RANK'], 'replica': os.environ['PENSTOCK_REPLICA'], 'ids': ids}\n\
         open(os.path.join(os.environ['PENSTOCK_RUN_DIR'], f'task-{task}.json'), 'w').write(json.dumps(said))\n";
    std::fs::write(&script, program).unwrap();
    let run = out.path().join("run");
    let mut job = command(penstock_bin());
    job.args(["run", "--num-workers", "4", "--replicas", "2", "--input"])
        .arg(format!("d={}", data.display()))
        .arg("--python")
        .arg(&python)
        .arg("--run-dir")
        .arg(&run)
        .arg(&script);
    succeed(&mut job);
    let said = |task: usize| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(run.join(format!("task-{task}.json"))).unwrap()).unwrap()
    };
    let tasks: Vec<_> = (0..4).map(said).collect();
    let places: Vec<_> = tasks.iter().map(|task| (task["rank"].as_str(), task["replica"].as_str())).collect();
    let place = |rank, replica| (Some(rank), Some(replica));
    assert_eq!(places, [place("0", "0"), place("0", "1"), place("1", "0"), place("1", "1")]);
    assert_eq!(tasks[0]["ids"], tasks[1]["ids"]);
    assert_eq!(tasks[2]["ids"], tasks[3]["ids"]);
    let batches = |task: usize| {
        tasks[task]["ids"].as_array().unwrap().iter().flat_map(|batch| batch.as_array().unwrap())
    };
    let mut ids: Vec<i64> = batches(0).chain(batches(2)).map(|id| id.as_i64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..1800).collect::<Vec<i64>>());
}
