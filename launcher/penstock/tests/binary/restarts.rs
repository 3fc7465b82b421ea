//! What comes back after a death, and what ends with it.

use std::time::Duration;

use crate::bed::{Bed, GOOD_DAEMON};

/// Says how often this task has been started, counted in a file.
const ATTEMPT: &str = r#"
echo x >> "$BED/$role.$index"
attempt=$(wc -l < "$BED/$role.$index")
until_file() { while [ ! -e "$1" ]; do sleep 0.01; done; }
"#;

#[test]
fn workers_in_step_come_back_together_on_their_addresses() {
    let bed = Bed::new();
    let body = r#"
echo "$TF_CONFIG" >> "$BED/config.$index"
[ $attempt = 2 ] && exit 0
[ $index = 1 ] && { until_file "$BED/config.0"; kill -9 $$; }
exec sleep 1000"#;
    let outcome = bed.run(bed.draft(&format!("{ATTEMPT}{body}")));
    outcome.check("succeeded", 0, &["worker:0 succeeded, code 0", "worker:1 succeeded, code 0"]);
    outcome.assert_shown(
        "worker:1 was killed by SIGKILL (exit code 137), by hand or for want of memory; ending worker:0 within 3.0 s",
    );
    outcome.assert_shown("starting all again on their addresses, 1 of 3 times");
    let restarts: Vec<_> = outcome.summary.tasks.iter().map(|task| task.restarts).collect();
    assert_eq!(restarts, [1, 1]);
    for config in ["config.0", "config.1"] {
        let seen = bed.read(config);
        let mut lines = seen.lines();
        assert_eq!(lines.next(), lines.next(), "the same addresses");
    }
}

#[test]
fn a_gang_that_comes_back_is_fed_from_the_start_and_what_serves_it_stays() {
    let bed = Bed::new();
    let daemon = format!(r#"echo x >> "$BED/started.$1"{GOOD_DAEMON}"#);
    let body = r#"
if [ $role = evaluator ]; then until_file "$BED/done"; exit 0; fi
if [ $attempt = 2 ]; then touch "$BED/done"; exit 0; fi
[ $index = 0 ] && { until_file "$BED/worker.1"; until_file "$BED/evaluator.0"; kill -9 $$; }
exec sleep 1000"#;
    let mut draft = bed.draft(&format!("{ATTEMPT}{body}"));
    draft.evaluator = Some(true);
    draft.add_input("train=data").unwrap();
    let outcome = bed.run_with(draft, &daemon, &[]).unwrap();
    outcome.check(
        "succeeded",
        0,
        &["worker:0 succeeded, code 0", "worker:1 succeeded, code 0", "evaluator:0 succeeded, code 0"],
    );
    assert_eq!(bed.read("started.gateway").lines().count(), 1);
    // One a worker, twice, and the evaluator's.
    assert_eq!(bed.read("started.sidecar").lines().count(), 5);
}

#[test]
fn a_gang_whose_starts_are_used_up_ends_the_job() {
    let bed = Bed::new();
    let body = r#"[ $index = 1 ] && kill -9 $$; exec sleep 1000"#;
    let mut draft = bed.draft(&format!("{ATTEMPT}{body}"));
    draft.max_restarts = Some(1);
    let outcome = bed.run(draft);
    outcome.check("failed", 137, &["worker:0 stopped, signal 15", "worker:1 failed, signal 9"]);
    assert_eq!(bed.read("worker.1").lines().count(), 2);
}

#[test]
fn a_worker_that_trains_alone_comes_back_to_its_own_sidecar() {
    let bed = Bed::new();
    let daemon = format!(r#"echo x >> "$BED/started.$1"{GOOD_DAEMON}"#);
    let body = r#"[ $attempt = 1 ] && kill -9 $$; exit 0"#;
    let mut draft = bed.draft(&format!("{ATTEMPT}{body}"));
    draft.num_workers = Some(1);
    draft.add_input("train=data").unwrap();
    let outcome = bed.run_with(draft, &daemon, &[]).unwrap();
    outcome.check("succeeded", 0, &["worker:0 succeeded, code 0"]);
    assert_eq!(bed.read("started.sidecar").lines().count(), 1);
}

#[test]
fn an_evaluator_whose_pause_ends_while_the_gang_comes_back_comes_back_too() {
    let bed = Bed::new();
    // Sidecars take longer to go than the evaluator's second pause.
    let slow = GOOD_DAEMON.replace("exit 0' TERM", "[ $1 = sidecar ] && sleep 2; exit 0' TERM");
    let body = r#"
if [ $role = evaluator ]; then
    [ $attempt = 3 ] && { touch "$BED/evaluated"; exit 0; }
    [ $attempt = 2 ] && touch "$BED/paused"
    exit 1
fi
[ $attempt = 1 ] && [ $index = 0 ] && { until_file "$BED/paused"; kill -9 $$; }
[ $attempt = 1 ] && exec sleep 1000
until_file "$BED/evaluated""#;
    let mut draft = bed.draft(&format!("{ATTEMPT}{body}"));
    draft.evaluator = Some(true);
    draft.timeout = Some(Duration::from_secs(60));
    draft.add_input("train=data").unwrap();
    let outcome = bed.run_with(draft, &slow, &[]).unwrap();
    outcome.check(
        "succeeded",
        0,
        &["worker:0 succeeded, code 0", "worker:1 succeeded, code 0", "evaluator:0 succeeded, code 0"],
    );
}
