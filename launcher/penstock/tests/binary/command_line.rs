//! The command line as a person meets it.

use std::process::{Command, Output};

use crate::bed::{Bed, PENSTOCK};

fn penstock(bed: &Bed, arguments: &[&str]) -> Output {
    Command::new(PENSTOCK).args(arguments).current_dir(bed.directory.path()).output().unwrap()
}

/// Standard error is one line that holds `expected`, and the code is not zero.
pub(crate) fn check_refused(bed: &Bed, arguments: &[&str], expected: &str) {
    let output = penstock(bed, arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert_eq!(error.lines().count(), 1, "one line: {error}");
    assert!(error.contains(expected), "expected {expected:?} in: {error}");
}

#[test]
fn what_cannot_work_is_one_line() {
    let bed = Bed::new();
    bed.script("task.sh", "true");
    std::fs::write(bed.path("job.yaml"), "script: task.sh\nnumberOfWorkers: 2\n").unwrap();
    check_refused(&bed, &["run", "absent.py"], "the script absent.py does not exist");
    check_refused(&bed, &["run", "."], "is not a file");
    check_refused(&bed, &["run"], "no script was given");
    check_refused(&bed, &["run", "--file", "job.yaml"], "numberOfWorkers");
    check_refused(&bed, &["run", "--file", "absent.yaml"], "cannot read the job file absent.yaml");
    check_refused(
        &bed,
        &["run", "--python", "absent/python", "task.sh"],
        "there is no Python at absent/python",
    );
    check_refused(&bed, &["run", "--input", "train", "task.sh"], "is not an input");
}

#[test]
fn the_exit_code_is_the_first_failures() {
    let bed = Bed::new();
    bed.script("task.sh", "echo \"$@\"; exit 43");
    let output = penstock(&bed, &["run", "--python", "/bin/sh", "task.sh", "--name", "3", "-n", "7"]);
    assert_eq!(output.status.code(), Some(43));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("worker:0 | --name 3 -n 7"), "{shown}");
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(error, "error: job task failed: worker:0 exited with code 43\n");
    assert!(bed.path("penstock-runs").read_dir().unwrap().count() == 1);
}

#[test]
fn a_job_file_is_run_from_anywhere() {
    let bed = Bed::new();
    std::fs::create_dir(bed.path("jobs")).unwrap();
    bed.script("jobs/task.sh", "echo \"$1 of $PENSTOCK_WORLD_SIZE\"");
    let file = "name: small\nscript: task.sh\nargs: [hello]\nnum_workers: 2\npython: sh\n";
    std::fs::write(bed.path("jobs/job.yaml"), file).unwrap();
    let output = penstock(&bed, &["run", "--file", "jobs/job.yaml", "--num_workers=3"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("worker:2 | hello of 3"), "{shown}");
}

#[test]
fn help_and_version_are_there() {
    let bed = Bed::new();
    for arguments in
        [&["--help"][..], &["run", "--help"], &["version"], &["version", "--json"], &["--version"]]
    {
        let output = penstock(&bed, arguments);
        assert!(output.status.success(), "{arguments:?}");
        assert!(!output.stdout.is_empty());
    }
}

#[test]
fn flags_are_spelt_as_others_do_up_to_the_script() {
    let bed = Bed::new();
    bed.script("task.sh", "echo \"$A $B of $PENSTOCK_WORLD_SIZE, $*\"");
    std::fs::write(bed.path("variables"), "A=low\nB=file\n").unwrap();
    let line = "run --env_file variables --env A=high -np 2 --no_python ./task.sh --batch_size -np 7";
    let output = penstock(&bed, &line.split(' ').collect::<Vec<_>>());
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("worker:1 | high file of 2, --batch_size -np 7"), "{shown}");
    check_refused(&bed, &["run", "--nnodes", "1:4", "task.sh"], "write --nnodes N");
    check_refused(&bed, &["run", "-n", "2", "--nproc_per_node", "2", "task.sh"], "leave one out");
}

#[test]
fn another_launchers_words_are_run() {
    let bed = Bed::new();
    let line = ["run", "--from", "submarine", "--num-workers", "1", "--", "job", "run", "--num_workers", "3"];
    let more = ["--input_path", "here", "--worker_launch_cmd", "echo from %input_path%", "--queue", "q"];
    let output = penstock(&bed, &[&line[..], &more].concat());
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("worker:0 | from here") && !shown.contains("worker:1"), "{shown}");
    let noted = String::from_utf8(output.stderr).unwrap();
    assert_eq!(noted, "note: ignored: --queue, which has no meaning on one machine\n");
}

#[test]
fn a_dry_run_shows_all_and_runs_nothing() {
    let bed = Bed::new();
    let manifest = "apiVersion: kubeflow.org/v1\nkind: TFJob\nspec: {tfReplicaSpecs: {Worker: {replicas: 2, template: {spec: \
                    {containers: [{name: tensorflow, command: [python, absent.py]}]}}}}}\n";
    std::fs::write(bed.path("tfjob.yaml"), manifest).unwrap();
    let output = penstock(&bed, &["run", "--file", "tfjob.yaml", "--dry-run=json"]);
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["tasks"][1]["command"], serde_json::json!(["python3", "absent.py"]));
    assert_eq!(plan["tasks"][1]["rank"], 1);
    assert!(!output.status.success(), "the script is not there");
    let refused = String::from_utf8(output.stderr).unwrap();
    assert_eq!(refused, "error: the script absent.py does not exist: give the path of a Python file\n");
    assert!(!bed.path("penstock-runs").exists());
    bed.script("absent.py", "");
    let output = penstock(&bed, &["run", "--file", "tfjob.yaml", "--dry_run"]);
    assert!(output.status.success());
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("worker:1, rank 1 of 2, never started again\n  python3 absent.py\n"), "{shown}");
}

#[test]
fn init_writes_a_file_once() {
    let bed = Bed::new();
    assert!(penstock(&bed, &["init"]).status.success());
    bed.script("train.py", "");
    let file = bed.read("job.yaml");
    let schema = file.lines().next().unwrap().rsplit('=').next().unwrap();
    assert!(bed.path(schema).is_file(), "{schema}");
    assert!(penstock(&bed, &["run", "--dry-run", "--file", "job.yaml"]).status.success());
    check_refused(&bed, &["init"], "job.yaml is there already");
    assert_eq!(bed.read("job.yaml"), file);
}
