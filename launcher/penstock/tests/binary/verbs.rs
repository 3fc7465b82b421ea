//! Runs seen from outside: listed, followed, ended.

use std::process::{Command, Output};

use crate::bed::{Bed, PENSTOCK};

fn penstock(bed: &Bed, args: &[&str]) -> Output {
    Command::new(PENSTOCK).args(args).current_dir(bed.directory.path()).output().unwrap()
}

fn said(bed: &Bed, args: &[&str]) -> String {
    let output = penstock(bed, args);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn refused(bed: &Bed, args: &[&str]) -> String {
    let output = penstock(bed, args);
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_run_in_the_background_is_seen_followed_and_ended() {
    let bed = Bed::new();
    assert!(refused(&bed, &["status"]).contains("no run is below penstock-runs"));
    bed.script("task.sh", "echo up; mkfifo up; cat up");
    let submitted =
        said(&bed, &["submit", "--name", "long", "--num-ps", "1", "--python", "/bin/sh", "task.sh"]);
    let run = submitted.lines().next().unwrap().to_owned();
    assert!(run.starts_with("penstock-runs/long-"), "{submitted}");

    let listed = said(&bed, &["ps", "--running"]);
    assert!(listed.contains("running") && listed.lines().count() == 2, "{listed}");
    let status = said(&bed, &["status"]);
    assert!(status.starts_with("job long runs"), "{status}");
    assert!(status.contains("worker:0") && status.contains("ps:0"), "{status}");
    // Addresses are there once tasks are.
    let spec = loop {
        let output = penstock(&bed, &["spec", "long"]);
        if output.status.success() {
            break String::from_utf8(output.stdout).unwrap();
        }
    };
    let spec: serde_json::Value = serde_json::from_str(&spec).unwrap();
    assert_eq!(spec["ps"].as_array().unwrap().len(), 1);

    let killed = said(&bed, &["kill", &run]);
    assert_eq!(killed, "job long was interrupted by SIGTERM\n");
    let status = said(&bed, &["status", "long"]);
    assert!(status.starts_with("job long was interrupted by SIGTERM"), "{status}");
    assert!(refused(&bed, &["kill", "long"]).contains("does not go on"));
    // A run that has ended is followed to its end.
    let lines = said(&bed, &["logs", "-f", "long", "--role", "penstock"]);
    assert!(lines.contains("penstock | job long was interrupted"), "{lines}");
    assert!(refused(&bed, &["logs", "short"]).contains("no run is called \"short\": there are long-"));
}

#[test]
fn lines_of_all_tasks_come_by_time_and_those_of_one_alone() {
    let bed = Bed::new();
    let body = r#"
await() { while ! grep -q "$1" "$PENSTOCK_RUN_DIR/job.log"; do sleep 0.01; done; }
case $PENSTOCK_RANK in
0) echo first; await second; echo third ;;
1) await first; echo second ;;
esac"#;
    bed.script("task.sh", body);
    said(&bed, &["run", "-n", "2", "--python", "/bin/sh", "task.sh"]);
    let lines = said(&bed, &["logs", "--role", "worker"]);
    assert_eq!(lines, "worker:0 | first\nworker:1 | second\nworker:0 | third\n");
    assert_eq!(said(&bed, &["logs", "--role", "worker:0", "--tail", "1"]), "worker:0 | third\n");
    let stamped = said(&bed, &["logs", "-t", "--role", "worker:1"]);
    assert!(stamped.ends_with("Z worker:1 | second\n"), "{stamped}");
    assert!(said(&bed, &["ps"]).contains("succeeded"));
}

#[test]
fn what_cannot_be_submitted_is_told_at_once() {
    let bed = Bed::new();
    assert!(refused(&bed, &["submit", "absent.py"]).contains("the script absent.py does not exist"));
}
