//! Jobs with parameter servers: who ends them, who comes back, who does not.

use penstock_launcher::job::Draft;

use crate::bed::{Bed, GOOD_DAEMON};

/// A chief, two workers and a parameter server.
fn served(bed: &Bed, body: &str) -> Draft {
    Draft { chief: Some(true), num_ps: Some(1), ..bed.draft(body) }
}

#[test]
fn workers_and_servers_are_ended_when_the_chief_is_done() {
    let bed = Bed::new();
    let body = r#"
[ $role = chief ] || { touch "$BED/$role.$index"; sleep 1000; }
while [ ! -e "$BED/worker.0" ] || [ ! -e "$BED/worker.1" ] || [ ! -e "$BED/ps.0" ]; do sleep 0.01; done"#;
    bed.run(served(&bed, body)).check(
        "succeeded",
        0,
        &[
            "chief:0 succeeded, code 0",
            "worker:0 stopped, signal 15",
            "worker:1 stopped, signal 15",
            "ps:0 stopped, signal 15",
        ],
    );
}

#[test]
fn a_dead_worker_comes_back_on_its_address_beside_the_same_sidecar() {
    let bed = Bed::new();
    let body = r#"
if [ $role = worker ] && [ $index = 1 ]; then
    echo "$TF_CONFIG $PENSTOCK_SIDECAR $PENSTOCK_RANK" >> "$BED/lives"
    echo "a life"
    [ -e "$BED/died" ] || { touch "$BED/died"; kill -9 $$; }
    touch "$BED/back"
fi
[ $role = chief ] || sleep 1000
while [ ! -e "$BED/back" ]; do sleep 0.01; done"#;
    let mut draft = served(&bed, body);
    draft.add_input("train=/data/train").unwrap();
    let daemon = format!("[ $1 = sidecar ] && echo \"$*\" >> \"$BED/sidecars\"\n{GOOD_DAEMON}");
    let outcome = bed.run_with(draft, &daemon, &[]).unwrap();
    outcome.check(
        "succeeded",
        0,
        &[
            "chief:0 succeeded, code 0",
            "worker:0 stopped, signal 15",
            "worker:1 stopped, signal 15",
            "ps:0 stopped, signal 15",
        ],
    );
    outcome.assert_shown("worker:1 was killed by SIGKILL (exit code 137), by hand or for want of memory; ");
    outcome.assert_shown("starting it again on its address, 1 of 3 times");
    let lives = bed.read("lives");
    let lives: Vec<_> = lives.lines().collect();
    assert_eq!(lives.len(), 2);
    assert_eq!(lives[0], lives[1], "the same cluster, sidecar and rank");
    assert_eq!(bed.read("sidecars").lines().count(), 3, "one for the chief and each worker, none anew");
    assert_eq!(bed.read("run/logs/worker-1.log"), "a life\na life\n");
    let restarts: Vec<_> = outcome.summary.tasks.iter().map(|task| task.restarts).collect();
    assert_eq!(restarts, [0, 0, 1, 0]);
}

#[test]
fn a_worker_that_always_dies_ends_the_job_by_name() {
    let bed = Bed::new();
    let body = r#"
[ $role$index = worker1 ] || sleep 1000
echo x >> "$BED/lives"
exit 3"#;
    let draft = Draft { max_restarts: Some(2), ..served(&bed, body) };
    let outcome = bed.run(draft);
    assert_eq!((outcome.summary.state, outcome.summary.exit_code), ("failed", 3));
    outcome.assert_shown("failed: worker:1 exited with code 3");
    assert_eq!(bed.read("lives"), "x\nx\nx\n");
}

#[test]
fn a_dead_parameter_server_takes_all_along_until_the_starts_are_used_up() {
    let bed = Bed::new();
    let body = r#"echo x >> "$BED/lives.$role"; [ $role = ps ] && kill -9 $$; exec sleep 1000"#;
    let outcome = bed.run(Draft { max_restarts: Some(1), ..served(&bed, body) });
    outcome.check(
        "failed",
        137,
        &[
            "chief:0 stopped, signal 15",
            "worker:0 stopped, signal 15",
            "worker:1 stopped, signal 15",
            "ps:0 failed, signal 9",
        ],
    );
    outcome.assert_shown("ps:0 was killed by SIGKILL");
    outcome.assert_shown("to start all again");
    assert_eq!(bed.read("lives.ps"), "x\nx\n");
}

#[test]
fn without_a_chief_the_workers_end_is_the_jobs() {
    let bed = Bed::new();
    let draft = Draft { num_ps: Some(1), ..bed.draft("[ $role = ps ] && sleep 1000; exit 0") };
    bed.run(draft).check(
        "succeeded",
        0,
        &["worker:0 succeeded, code 0", "worker:1 succeeded, code 0", "ps:0 stopped, signal 15"],
    );
}
