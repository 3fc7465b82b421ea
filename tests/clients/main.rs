//! Stock Flight clients of other languages do the same tasks and tell what they got in the same words: every row
//! once with its values, refusals with their codes, and nobody is harmed by a reader that leaves.

#![allow(clippy::unwrap_used, reason = "tests state their expectations by unwrapping")]

mod stock;
mod table;

use std::fs;

use penstock_tests::data::{self, Shape};
use penstock_tests::process::Daemon;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::stock::{Stock, go, java};

/// Several times what the gateway may hold; a row is 4 KiB.
const LARGE: Shape = Shape { files: 2, rows_per_file: 4_000, row_group: 500, payload: Some(4_084) };
const STEPS: usize = 5;

/// A gateway with little memory, of `every`, the table of many types, and of `large`.
fn gateway() -> (Daemon, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    fs::create_dir(place("every")).unwrap();
    table::write(&place("every/rows.parquet"));
    data::write(&place("large"), LARGE);
    let datasets = ["every", "large"].map(|name| format!("{name}={}", place(name).display()));
    // With a socket, clients are told of places that they do not understand.
    let socket = place("gateway.sock");
    let socket = ["--unix-socket", socket.to_str().unwrap()];
    let datasets = ["--dataset", &datasets[0], "--dataset", &datasets[1]];
    let gateway = Daemon::gateway(&[&["--memory", "16MiB"], &datasets[..], &socket[..]].concat());
    (gateway, directory)
}

#[test]
fn java_reads_what_was_written() {
    if let Some(java) = java() {
        a_client_reads_what_was_written(&java);
    }
}

#[test]
fn go_reads_what_was_written() {
    if let Some(go) = go() {
        a_client_reads_what_was_written(&go);
    }
}

fn a_client_reads_what_was_written(client: &Stock) {
    let (gateway, _data) = gateway();
    let every = format!(
        r#"{{"dataset":"every","batch_size":{},"world_size":2,"shuffle":"rows","seed":3,"epoch":7}}"#,
        table::ROWS / STEPS
    );
    let large = r#"{"dataset":"large","batch_size":500}"#;
    let misspelt = r#"{"dataset":"every","columns":["idd"]}"#;
    // One start of the client for all of it, for that is what takes time.
    let said = client.perform(
        &gateway.address,
        &[
            ("list", ""),
            ("ask", misspelt),
            ("redeem", "forged"),
            ("leave", large),
            ("leave", large),
            ("leave", large),
            ("count", large),
            ("rows", &every),
        ],
    );
    let (told, read): (Vec<&str>, Vec<&str>) =
        said.lines().partition(|line| !line.starts_with("row ") && !line.starts_with("note "));

    assert_eq!(
        told[..2],
        [format!("flight every {}", table::ROWS), format!("flight large {}", LARGE.rows())]
    );
    assert_refused(told[2], "invalid argument", r#"no column "idd": did you mean "id""#);
    assert_refused(told[3], "unauthenticated", "GetFlightInfo");
    assert_eq!(told[4..], ["left true", "left true", "left true", &format!("count {}", LARGE.rows())]);

    let mut rows = Vec::new();
    for rank in 0..2 {
        let of_rank = |kind: &str| -> Vec<&str> {
            read.iter().filter_map(|line| line.strip_prefix(&format!("{kind} {rank} "))).collect()
        };
        let notes = (0..STEPS).map(|step| json!({"epoch": 7, "step": step, "part": 0, "parts": 1}));
        let notes: Vec<Value> = notes.chain([json!({"end": true, "steps": STEPS})]).collect();
        assert_eq!(of_rank("note").into_iter().map(without_cost).collect::<Vec<_>>(), notes);
        assert_eq!(of_rank("row").len(), table::ROWS / 2);
        rows.extend(of_rank("row"));
    }
    let id = |row: &&str| row.split('|').next().unwrap().parse::<usize>().unwrap();
    assert!(!rows.is_sorted_by_key(id));
    rows.sort_by_key(id);
    assert_eq!(rows, (0..table::ROWS).map(table::row).collect::<Vec<_>>());
}

/// A note, without what its part cost: that is said where it was waited for.
fn without_cost(note: &str) -> Value {
    let mut note: Value = serde_json::from_str(note).unwrap();
    for cost in ["store_us", "decode_us"] {
        note.as_object_mut().unwrap().remove(cost);
    }
    note
}

/// Java writes a code as `INVALID_ARGUMENT`, Go as `InvalidArgument`.
fn assert_refused(line: &str, code: &str, words: &str) {
    let (said, message) = line.strip_prefix("refused ").and_then(|rest| rest.split_once(' ')).expect(line);
    assert_eq!(said.replace('_', "").to_lowercase(), code.replace(' ', ""), "{line}");
    assert!(message.contains(words), "{line}");
}
