//! Nothing is left behind, whatever becomes of the launcher.
//!
//! Every process of a job inherits the writing end of a pipe; when the reading end sees the end of the
//! file, none of them lives. Nothing is polled and nothing can hide.

use std::io::{BufRead as _, BufReader, PipeReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::bed::{Bed, GOOD_DAEMON, PENSTOCK};

/// Set for the test binary when it is to play a launcher itself.
const PLAY: &str = "PENSTOCK_TEST_PLAY_LAUNCHER";

/// A worker with a child in its group and one that left it.
const FAMILY: &str = r#"
sleep 1000 &
setsid sh -c 'trap "" TERM HUP; sleep 1000; sleep 1000' &
trap '' TERM
echo up
while :; do sleep 1000 & wait $!; done"#;

/// Starts `command` with the pipe as its descriptor 9, which nobody closes.
fn start(command: &[&str]) -> (Child, PipeReader) {
    let (reader, writer) = std::io::pipe().unwrap();
    let child = Command::new("/bin/sh")
        .args(["-c", "exec 9>&0 0</dev/null; exec \"$@\"", "sh"])
        .args(command)
        .stdin(writer)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    (child, reader)
}

/// Starts a job of a shell script's, with its run directory in the bed.
fn start_script(bed: &Bed, flags: &[&str], script: &Path) -> (Child, PipeReader) {
    let run_dir = bed.path("run");
    let job = ["--python=/bin/sh", "--run-dir", run_dir.to_str().unwrap(), script.to_str().unwrap()];
    start(&[&[PENSTOCK, "run"], flags, &job].concat())
}

fn wait_for(child: &mut Child, texts: &[&str]) {
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let mut missing: Vec<_> = texts.to_vec();
    while !missing.is_empty() {
        let line = lines.next().expect("the launcher lives").unwrap();
        missing.retain(|text| !line.contains(text));
    }
}

/// Blocks until the last process of the job has ended.
fn wait_for_the_last(mut reader: PipeReader) {
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_killed_launcher_leaves_no_task() {
    let bed = Bed::new();
    let script = bed.script("task.sh", FAMILY);
    let (mut launcher, last) = start_script(&bed, &["-n=2", "--grace=100ms"], &script);
    wait_for(&mut launcher, &["worker:0 | up", "worker:1 | up"]);
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    wait_for_the_last(last);
}

#[test]
fn a_killed_launcher_leaves_no_daemon() {
    let me = std::env::current_exe().unwrap();
    let (mut launcher, last) = start(&[
        "env",
        &format!("{PLAY}=1"),
        me.to_str().unwrap(),
        "--exact",
        "cleanup::play",
        "--nocapture",
    ]);
    wait_for(&mut launcher, &["worker:0 | up", "worker:1 | up"]);
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    wait_for_the_last(last);
}

/// No test of its own: the launcher of the test above, with played daemons and inputs.
#[test]
fn play() {
    if std::env::var_os(PLAY).is_none() {
        return;
    }
    let bed = Bed::new();
    let mut draft = bed.draft(FAMILY);
    draft.add_input("train=/data").unwrap();
    draft.grace = Some(std::time::Duration::from_millis(100));
    let job = penstock_launcher::job::Job::resolve(draft).unwrap();
    let setup = penstock_launcher::backend::local::Setup {
        penstock: bed.penstock(GOOD_DAEMON),
        terminal: penstock_launcher::terminal::Terminal::standard(),
        start_deadline: std::time::Duration::from_secs(60),
    };
    let (_tell, told) = tokio::sync::mpsc::channel(1);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(penstock_launcher::backend::local::run(&job, &setup, told)).unwrap();
}

#[test]
fn a_finished_task_leaves_no_child() {
    let bed = Bed::new();
    let script = bed.script("task.sh", "setsid sleep 1000 & sleep 1000 &");
    let (mut launcher, last) = start_script(&bed, &[], &script);
    wait_for(&mut launcher, &["succeeded"]);
    assert!(launcher.wait().unwrap().success());
    wait_for_the_last(last);
}

#[test]
fn a_task_whose_agent_is_killed_is_lost_and_ended() {
    let bed = Bed::new();
    // A task's parent is its agent. Killed at once, it has not even said that the task runs.
    let script = bed.script("task.sh", "kill -9 $PPID; setsid sleep 1000 & sleep 1000");
    let (mut launcher, last) = start_script(&bed, &[], &script);
    wait_for(&mut launcher, &["worker:0 was lost"]);
    assert_eq!(launcher.wait().unwrap().code(), Some(1));
    wait_for_the_last(last);
}
