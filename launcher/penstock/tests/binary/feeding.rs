//! Jobs with inputs: gateway and sidecars come up first, go down last, and are missed when they die.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use penstock_launcher::job::Draft;

use crate::bed::{Bed, GOOD_DAEMON, PENSTOCK};
use crate::command_line::check_refused;

fn fed(bed: &Bed, body: &str) -> Draft {
    let mut draft = bed.draft(body);
    draft.add_input("train=/data/train").unwrap();
    draft.add_input("test=/data/test").unwrap();
    draft
}

/// Answers every request with these metrics, for as long as the test runs.
fn metrics_server(text: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            let length = text.len();
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{text}").unwrap();
        }
    });
    address
}

#[test]
fn tasks_find_their_feed_and_its_metrics_are_kept() {
    let bed = Bed::new();
    let admin = metrics_server(
        "penstock_gateway_rows_total 1437\npenstock_gateway_bytes_total{dataset=\"train\"} 4096\n\
         penstock_sidecar_rows_total 719\nprocess_resident_memory_peak_bytes 1048576\n\
         process_cpu_seconds_total 0.5\n",
    );
    // Without those that this suite itself is run with.
    let body =
        r#"env | grep '^PENSTOCK_' | grep -vE '^PENSTOCK_(NATIVE|PYTHON|LOG)=' | sort > "$BED/env.$index""#;
    let daemon = format!(
        "ADMIN={admin}\nif [ $1 = sidecar ]; then echo \"$*\" >> \"$BED/sidecars\"; fi\n{GOOD_DAEMON}"
    );
    let outcome = bed.run_with(fed(&bed, body), &daemon, &[]).unwrap();
    outcome.check("succeeded", 0, &["worker:0 succeeded, code 0", "worker:1 succeeded, code 0"]);

    let run = bed.path("run");
    let run = run.display();
    let sidecars = |index| {
        let long = bed.path("run").as_os_str().len() > 60;
        assert!(!long, "the bed's own path is short");
        format!("{run}/sockets/worker-{index}.sock")
    };
    assert_eq!(
        bed.read("env.1"),
        format!(
            "PENSTOCK_DATASETS=test,train\nPENSTOCK_GATEWAYS=grpc://127.0.0.1:7\n\
             PENSTOCK_LOGDIR={run}/tensorboard\nPENSTOCK_PROCESS={run}/logs/worker-1.log\n\
             PENSTOCK_RANK=1\nPENSTOCK_REPLICA=0\nPENSTOCK_RUN_DIR={run}\n\
             PENSTOCK_SIDECAR={}\nPENSTOCK_WORLD_SIZE=2\n",
            sidecars(1)
        )
    );
    let me = std::process::id();
    assert_eq!(
        bed.read("gateway.args").trim(),
        format!(
            "gateway --listen=127.0.0.1:0 --unix-socket={run}/sockets/gateway.sock --dataset=test=/data/test \
             --dataset=train=/data/train --ticket-key-file={run}/ticket.key --admin=127.0.0.1:0 --exit-with={me}"
        )
    );
    let mut lines: Vec<_> = bed.read("sidecars").lines().map(str::to_owned).collect();
    lines.sort();
    let expected = |index| {
        format!(
            "sidecar --listen={} --gateway=grpc://127.0.0.1:7 --admin=127.0.0.1:0 --exit-with={me}",
            sidecars(index)
        )
    };
    assert_eq!(lines, [expected(0), expected(1)]);
    let key = bed.path("run/ticket.key").metadata().unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);

    let names: Vec<_> = outcome.summary.daemons.iter().map(|daemon| daemon.name.as_str()).collect();
    assert_eq!(names, ["gateway", "sidecar of worker:0", "sidecar of worker:1"]);
    let gateway = &outcome.summary.daemons[0];
    assert_eq!((gateway.rows, gateway.bytes), (Some(1437), Some(4096)));
    assert_eq!((gateway.peak_memory_bytes, gateway.cpu_seconds), (Some(1 << 20), Some(0.5)));
    assert_eq!(gateway.metrics["penstock_sidecar_rows_total"].to_string(), "719");
    assert_eq!(outcome.summary.daemons[2].rows, Some(719));
    outcome.assert_shown("1437 rows, 4.0 KiB, peak memory 1.0 MiB, 0.50 s CPU");

    assert_eq!(bed.read("ended"), "sidecar\nsidecar\ngateway\n", "in this order, each by SIGTERM");
}

/// The job's own task looks at it, when all of it is up.
#[test]
fn a_running_job_is_looked_at_from_beside() {
    let bed = Bed::new();
    let admin = metrics_server(
        "penstock_sidecar_feed_rows_total{feed=\"train\",rank=\"1\"} 700\n\
         penstock_sidecar_feed_open_seconds{feed=\"train\",rank=\"1\"} 2\n\
         penstock_sidecar_feed_slots{feed=\"train\",rank=\"1\"} 8\n\
         penstock_sidecar_feed_verdict{feed=\"train\",rank=\"1\",verdict=\"not starved\"} 1\n\
         process_resident_memory_bytes 1048576\n",
    );
    let body = format!(
        "if [ $index = 0 ]; then cd \"$PENSTOCK_RUN_DIR/..\" && '{PENSTOCK}' top --run-dir run --once --json > top.json && \
         '{PENSTOCK}' top --run-dir run --once > top.txt; fi"
    );
    let outcome = bed.run_with(fed(&bed, &body), &format!("ADMIN={admin}\n{GOOD_DAEMON}"), &[]).unwrap();
    outcome.check("succeeded", 0, &["worker:0 succeeded, code 0", "worker:1 succeeded, code 0"]);

    let sample: serde_json::Value = serde_json::from_str(&bed.read("top.json")).unwrap();
    let tasks: Vec<_> = sample["ranks"].as_array().unwrap().iter().map(|rank| &rank["task"]).collect();
    assert_eq!(tasks, ["worker:0", "worker:1"], "{sample}");
    let rank = &sample["ranks"][0];
    assert_eq!((rank["rank"].as_u64(), rank["rows_per_second"].as_f64()), (Some(1), Some(350.0)), "{rank}");
    assert_eq!(
        (rank["open"].as_bool(), rank["verdict"].as_str()),
        (Some(true), Some("not starved")),
        "{rank}"
    );
    assert_eq!(sample["gateways"][0]["memory_bytes"], 1 << 20, "{sample}");
    assert!(bed.read("top.txt").starts_with("RANK"), "{}", bed.read("top.txt"));
    let feed = &outcome.summary.daemons[1].feeds[0];
    assert_eq!((feed.rows, feed.verdict.as_deref()), (700, Some("not starved")));

    let ended = ["top", "--run-dir", "run", "--once"];
    check_refused(&bed, &ended, "has ended: its summary.json tells where the time went");
    check_refused(&bed, &["top"], "no run is in penstock-runs");
    check_refused(&bed, &["top", "--sidecar", "127.0.0.1:9"], "no answer from 127.0.0.1:9");
}

#[test]
fn a_gateway_that_dies_is_reported_as_such() {
    let bed = Bed::new();
    let body = r#"[ $index = 0 ] && kill -9 $(cat "$BED/gateway.pid"); sleep 1000"#;
    let outcome = bed.run(fed(&bed, body));
    outcome.check("failed", 137, &["worker:0 stopped, signal 15", "worker:1 stopped, signal 15"]);
    outcome.assert_shown("failed: gateway was killed by SIGKILL (exit code 137)");
    outcome.assert_shown("while the job ran");
    assert!(outcome.summary.daemons[0].first_failure);
}

#[test]
fn a_sidecar_that_leaves_is_a_failure_although_its_code_is_zero() {
    let bed = Bed::new();
    let body = r#"[ $index = 0 ] && kill -TERM $(cat "$BED/sidecar.pid"); sleep 1000"#;
    let outcome = bed.run(fed(&bed, body));
    outcome.check("failed", 1, &["worker:0 stopped, signal 15", "worker:1 stopped, signal 15"]);
    assert!(outcome.summary.first_failure.as_ref().unwrap().starts_with("sidecar of worker:"));
}

#[test]
fn a_gateway_that_refuses_its_dataset_says_so_in_one_line() {
    let bed = Bed::new();
    let daemon = "echo 'error: no Parquet file matches /data/train: check the path'; exit 1";
    let outcome = bed.run_with(fed(&bed, "touch \"$BED/ran\""), daemon, &[]).unwrap();
    outcome.check("failed", 1, &["worker:0 not_started, never ran", "worker:1 not_started, never ran"]);
    outcome.assert_shown(
        "did not start: gateway exited with code 1: no Parquet file matches /data/train: check the path",
    );
    assert!(!bed.path("ran").exists(), "no task was started");
}

#[test]
fn a_gateway_that_is_never_ready_is_not_waited_for_for_ever() {
    let bed = Bed::new();
    let job = penstock_launcher::job::Job::resolve(fed(&bed, "")).unwrap();
    let setup = penstock_launcher::backend::local::Setup {
        penstock: bed.penstock("sleep 1000"),
        terminal: penstock_launcher::terminal::Terminal::new(Box::new(std::io::sink()), false),
        start_deadline: Duration::from_millis(50),
    };
    let (_tell, told) = tokio::sync::mpsc::channel(1);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let summary = runtime.block_on(penstock_launcher::backend::local::run(&job, &setup, told)).unwrap();
    assert!(summary.outcome.contains("gateway was not ready after 0.1 s"), "{}", summary.outcome);
}
