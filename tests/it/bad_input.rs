//! Broken input, each answered by one line that names what is wrong and says what to do.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use penstock_proto::{Code, Error};
use penstock_tests::data::{self, Shape};
use penstock_tests::process::{Daemon, penstock_bin};

use crate::client::Client;

const SMALL: Shape = Shape { files: 2, rows_per_file: 50, row_group: 20, payload: None };

/// Runs `penstock` to its end and returns the one line it complained with.
fn complaint(arguments: &[&str]) -> String {
    let output = Command::new(penstock_bin()).args(arguments).env("PENSTOCK_LOG", "off").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{arguments:?} should have failed");
    assert_eq!(text.trim_end().lines().count(), 1, "more than a line: {text}");
    text
}

fn check(complaint: &str, says: &[&str]) {
    for words in says {
        assert!(complaint.contains(words), "{words:?} is not in: {complaint}");
    }
}

fn dataset(directory: &Path) -> String {
    data::write(directory, SMALL);
    format!("d={}", directory.display())
}

#[test]
fn a_path_that_is_not_there() {
    let text = complaint(&["gateway", "--listen", "127.0.0.1:0", "--dataset", "d=/no/such/place"]);
    check(&text, &["/no/such/place"]);
}

#[test]
fn a_directory_without_parquet() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("notes.txt"), "none").unwrap();
    let uri = directory.path().to_str().unwrap();
    check(&complaint(&["gateway", "--listen", "127.0.0.1:0", "--dataset", &format!("d={uri}")]), &[uri]);
    check(&complaint(&["inspect", uri]), &[uri]);
}

#[test]
fn a_truncated_file() {
    let directory = tempfile::tempdir().unwrap();
    data::write(directory.path(), SMALL);
    let path = directory.path().join("part-00001.parquet");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let uri = directory.path().to_str().unwrap();
    check(&complaint(&["inspect", uri]), &["part-00001.parquet"]);
    check(
        &complaint(&["gateway", "--listen", "127.0.0.1:0", "--dataset", &format!("d={uri}")]),
        &["part-00001.parquet"],
    );
}

#[test]
fn a_port_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let directory = tempfile::tempdir().unwrap();
    let dataset = dataset(directory.path());
    check(&complaint(&["gateway", "--listen", &address, "--dataset", &dataset]), &[&address, "in use"]);
    let admin =
        complaint(&["gateway", "--listen", "127.0.0.1:0", "--dataset", &dataset, "--admin", &address]);
    check(&admin, &[&address, "--admin"]);
}

#[test]
fn a_script_that_does_not_exist() {
    check(&complaint(&["run", "no-such-script.py"]), &["no-such-script.py"]);
}

#[test]
fn a_key_that_is_too_short() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    fs::write(&key, "short").unwrap();
    let dataset = dataset(directory.path());
    let key = key.to_str().unwrap();
    let text =
        complaint(&["gateway", "--listen", "127.0.0.1:0", "--dataset", &dataset, "--ticket-key-file", key]);
    check(&text, &[key, "32"]);
}

/// What a gateway with dataset `d` answers to a feed command.
async fn refusal(command: &str) -> Error {
    let directory = tempfile::tempdir().unwrap();
    let gateway = Daemon::gateway(&["--dataset", &dataset(directory.path())]);
    let mut client = Client::connect(&gateway.address).await;
    client.info(command).await.unwrap_err()
}

#[tokio::test]
async fn an_unknown_dataset_is_answered_with_the_known_ones() {
    let error = refusal(r#"{"dataset":"digits"}"#).await;
    assert_eq!(error.code, Code::UnknownDataset);
    check(&error.message, &["digits", "\"d\""]);
}

#[tokio::test]
async fn a_missing_column_is_answered_with_a_near_one() {
    let error = refusal(r#"{"dataset":"d","columns":["idd"]}"#).await;
    assert_eq!(error.code, Code::UnknownColumn);
    check(&error.message, &["idd", "did you mean \"id\""]);
}

#[tokio::test]
async fn a_batch_smaller_than_the_world() {
    let error = refusal(r#"{"dataset":"d","batch_size":3,"world_size":4}"#).await;
    assert_eq!(error.code, Code::InvalidFeed);
    check(&error.message, &["3", "4", "batch_size"]);
}

#[tokio::test]
async fn forged_and_edited_tickets() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = Daemon::gateway(&["--dataset", &dataset(directory.path())]);
    let mut client = Client::connect(&gateway.address).await;
    let info = client.info(r#"{"dataset":"d","remainder":"keep"}"#).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap().ticket.to_vec();

    let mut edited = ticket.clone();
    *edited.last_mut().unwrap() ^= 1;
    for bad in [edited, ticket[..ticket.len() - 1].to_vec(), b"/etc/passwd".to_vec(), Vec::new()] {
        let error = client.ids(bad).await.unwrap_err();
        assert_eq!(error.code, Code::BadTicket);
        check(&error.message, &["GetFlightInfo"]);
    }
    assert_eq!(client.ids(ticket).await.unwrap().len(), SMALL.rows(), "the real one is served");
}
