//! Jobs that would go on for ever.

use std::time::Duration;

use penstock_launcher::job::Draft;

use crate::bed::Bed;

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
