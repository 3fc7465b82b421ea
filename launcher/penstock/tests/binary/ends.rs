//! How jobs end, and who is blamed.

use std::time::Duration;

use crate::bed::Bed;

#[test]
fn a_job_of_two_succeeds_and_keeps_everything_in_order() {
    let bed = Bed::new();
    let body = r#"for line in 1 2 3 4 5; do echo "out $line"; echo "err $line" >&2; done; printf 'the end'"#;
    let outcome = bed.run(bed.draft(body));
    outcome.check("succeeded", 0, &["worker:0 succeeded, code 0", "worker:1 succeeded, code 0"]);
    let expected = "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\nout 4\nerr 4\nout 5\nerr 5\nthe end";
    assert_eq!(bed.read("run/logs/worker-0.log"), expected);
    let of_one: Vec<_> = outcome.shown.lines().filter_map(|line| line.strip_prefix("worker:1 | ")).collect();
    assert_eq!(of_one.join("\n"), expected);
}

#[test]
fn a_worker_that_fails_at_start_ends_the_job_by_name() {
    let bed = Bed::new();
    let body = r#"
[ $index = 0 ] && sleep 1000
for line in $(seq 30); do echo "line $line"; done
exit 3"#;
    let outcome = bed.run(bed.draft(body));
    outcome.check("failed", 3, &["worker:0 stopped, signal 15", "worker:1 failed, code 3"]);
    outcome.assert_shown("failed: worker:1 exited with code 3");
    outcome.assert_shown(&format!(
        "last lines of worker:1 (all of them: {})",
        bed.path("run/logs/worker-1.log").display()
    ));
    assert_eq!(outcome.summary.first_failure.as_deref(), Some("worker:1"));
    assert_eq!(outcome.summary.last_lines.len(), 20);
    assert_eq!(outcome.summary.last_lines.last().unwrap(), "line 30");
    let blamed: Vec<_> = outcome.summary.tasks.iter().map(|task| task.first_failure).collect();
    assert_eq!(blamed, [false, true]);
}

#[test]
fn a_killed_worker_is_said_to_be_killed() {
    let bed = Bed::new();
    let mut draft = bed.draft("[ $index = 1 ] && sleep 1000; kill -9 $$");
    draft.max_restarts = Some(0);
    let outcome = bed.run(draft);
    outcome.check("failed", 137, &["worker:0 failed, signal 9", "worker:1 stopped, signal 15"]);
    outcome.assert_shown("worker:0 was killed by SIGKILL (exit code 137)");
}

#[test]
fn a_worker_that_saves_on_sigterm_may() {
    let bed = Bed::new();
    let body = r#"
if [ $index = 0 ]; then
    trap 'echo saved > "$BED/saved"; exit 0' TERM
    touch "$BED/ready"
    while :; do sleep 1000 & wait $!; done
fi
while [ ! -e "$BED/ready" ]; do sleep 0.01; done
exit 1"#;
    let outcome = bed.run(bed.draft(body));
    outcome.check("failed", 1, &["worker:0 stopped, code 0", "worker:1 failed, code 1"]);
    assert_eq!(bed.read("saved"), "saved\n");
}

#[test]
fn a_worker_that_hangs_is_killed_after_the_grace() {
    let bed = Bed::new();
    let body = r#"
if [ $index = 0 ]; then
    trap '' TERM
    touch "$BED/ready"
    while :; do sleep 1000 & wait $!; done
fi
while [ ! -e "$BED/ready" ]; do sleep 0.01; done
exit 1"#;
    let mut draft = bed.draft(body);
    draft.grace = Some(Duration::from_millis(100));
    let outcome = bed.run(draft);
    outcome.check("failed", 1, &["worker:0 stopped, signal 9", "worker:1 failed, code 1"]);
    outcome.assert_shown("killing worker:0");
}

#[test]
fn an_evaluator_may_finish_after_the_workers() {
    let bed = Bed::new();
    let body = r#"
[ $role = worker ] && { touch "$BED/done.$index"; exit 0; }
while [ ! -e "$BED/done.0" ] || [ ! -e "$BED/done.1" ]; do sleep 0.01; done
echo evaluated"#;
    let mut draft = bed.draft(body);
    draft.evaluator = Some(true);
    let outcome = bed.run(draft);
    outcome.check(
        "succeeded",
        0,
        &["worker:0 succeeded, code 0", "worker:1 succeeded, code 0", "evaluator:0 succeeded, code 0"],
    );
    assert_eq!(bed.read("run/logs/evaluator-0.log"), "evaluated\n");
}

#[test]
fn an_evaluator_that_never_ends_is_ended() {
    let bed = Bed::new();
    let mut draft = bed.draft("[ $role = worker ] && exit 0; sleep 1000");
    draft.evaluator = Some(true);
    draft.evaluator_grace = Some(Duration::from_millis(100));
    let outcome = bed.run(draft);
    outcome.check(
        "succeeded",
        0,
        &["worker:0 succeeded, code 0", "worker:1 succeeded, code 0", "evaluator:0 stopped, signal 15"],
    );
    outcome.assert_shown("the training is done; the evaluator has 0.1 s more");
}

#[test]
fn an_interrupt_ends_all_and_says_so() {
    let bed = Bed::new();
    let outcome = bed.run_with(bed.draft("sleep 1000"), "", &[15]).unwrap();
    assert_eq!((outcome.summary.state, outcome.summary.exit_code), ("interrupted", 143));
    outcome.assert_shown("was interrupted by SIGTERM");
}

#[test]
fn the_second_interrupt_kills() {
    let bed = Bed::new();
    let mut draft = bed.draft("trap '' TERM; while :; do sleep 1000 & wait $!; done");
    draft.grace = Some(Duration::from_secs(3600));
    let outcome = bed.run_with(draft, "", &[2, 2]).unwrap();
    assert_eq!((outcome.summary.state, outcome.summary.exit_code), ("interrupted", 130));
}

#[test]
fn a_program_that_cannot_be_run_is_named() {
    let bed = Bed::new();
    let mut draft = bed.draft("");
    let text = bed.path("text");
    std::fs::write(&text, "not a program").unwrap();
    draft.python = Some(text);
    let outcome = bed.run(draft);
    assert_eq!((outcome.summary.state, outcome.summary.exit_code), ("failed", 127));
    outcome.assert_shown("did not start: cannot run");
}
