//! Jobs that would go on for ever.

use std::time::Duration;

use penstock_launcher::job::{Draft, Program};

use crate::bed::{Bed, Outcome};

/// Listens as a member of the cluster does, until it is ended.
const SERVE: &str = r#"exec python3 -c '
import json, os, signal, socket
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
server.bind(("0.0.0.0", int(config["cluster"][task["type"]][task["index"]].rsplit(":", 1)[1])))
server.listen()
signal.pause()
'"#;

fn soon(draft: Draft) -> Draft {
    Draft { start_timeout: Some(Duration::from_secs(2)), ..draft }
}

#[test]
fn a_member_that_never_serves_is_named() {
    let bed = Bed::new();
    let body = format!("[ $index = 1 ] && exec sleep 1000\n{SERVE}");
    let outcome = bed.run(soon(bed.draft(&body)));
    outcome.check("failed", 1, &["worker:0 stopped, signal 15", "worker:1 stopped, signal 15"]);
    outcome.assert_shown("failed: worker:1 did not begin to serve within 2.0 s, and the others wait");
    assert_eq!(outcome.summary.first_failure.as_deref(), Some("worker:1"));
}

#[test]
fn members_that_all_serve_or_none_of_which_does_are_left_alone() {
    for body in [SERVE, "exec sleep 1000"] {
        let bed = Bed::new();
        let evaluator = "sleep 4; exit 7";
        let body = format!("[ $role = evaluator ] && {{ {evaluator}; }}\n{body}");
        let mut draft = soon(bed.draft(&body));
        draft.evaluator = Some(true);
        draft.max_restarts = Some(0);
        let outcome = bed.run(draft);
        assert_eq!(outcome.summary.first_failure.as_deref(), Some("evaluator:0"), "{}", outcome.shown);
    }
}

#[test]
fn a_job_that_takes_too_long_is_ended() {
    let bed = Bed::new();
    let outcome =
        bed.run(Draft { timeout: Some(Duration::from_millis(500)), ..bed.draft("exec sleep 1000") });
    outcome.check("failed", 124, &["worker:0 stopped, signal 15", "worker:1 stopped, signal 15"]);
    outcome.assert_shown("failed: it was not done after 0.5 s (--timeout)");
}

/// A coordinator whose program is `end` and leaves a thread behind that never ends, as TensorFlow's do.
fn lingering(bed: &Bed, end: &str) -> Outcome {
    let script = bed.path("task.py");
    let program = format!(
        r#"
import json, os, subprocess, sys, threading, time
role = json.loads(os.environ["TF_CONFIG"])["task"]["type"]
run = os.environ["PENSTOCK_RUN_DIR"]
if role == "worker" and os.environ["ATTEMPT_NUMBER"] == "0":
    # It dies once the program has ended, and comes back: which is not the chief's beginning.
    while not os.path.exists(run + "/shims/ended"):
        time.sleep(0.01)
    os.kill(os.getpid(), 9)
if role != "chief":
    time.sleep(1000)
# Its end is not the program's.
subprocess.run([sys.executable, "-c", "pass"], check=True)
threading.Thread(target=time.sleep, args=(1000,)).start()
{end}
"#
    );
    std::fs::write(&script, program).unwrap();
    let draft = Draft {
        program: Some(Program::Script(script)),
        python: Some("python3".into()),
        chief: Some(true),
        num_ps: Some(1),
        num_workers: Some(1),
        exit_timeout: Some(Duration::from_secs(2)),
        timeout: Some(Duration::from_secs(60)),
        ..bed.draft("")
    };
    bed.run(draft)
}

#[test]
fn a_coordinator_that_lingers_is_ended_with_what_its_program_earned() {
    let bed = Bed::new();
    let ended = lingering(&bed, "print('done')");
    let served = ["worker:0 stopped, signal 15", "ps:0 stopped, signal 15"];
    ended.check("succeeded", 0, &["chief:0 succeeded, code 0", served[0], served[1]]);
    ended.assert_shown("chief:0's program ended");
    for failure in ["raise ValueError('of the script')", "sys.exit(3)"] {
        let bed = Bed::new();
        lingering(&bed, failure).check("failed", 1, &["chief:0 failed, code 1", served[0], served[1]]);
    }
}
