//! The ways from a gateway to a sidecar: by each of them a feed is the same.

use std::path::{Path, PathBuf};

use penstock_gateway::Gateway;
use penstock_gateway::config::{Config, TlsConfig};
use penstock_sidecar::TlsConfig as Trust;
use penstock_tests::data::{self, Shape};
use serde_json::json;

use crate::sidecar_bed::{Bed, Fed, are_all, global, ids_of};

const SHAPE: Shape = Shape { files: 3, rows_per_file: 100, row_group: 30, payload: Some(24) };

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../trainer-sidecar/testdata").join(name)
}

/// A shuffled epoch of two ranks, over a gateway that is reached as `change` says.
async fn epoch(change: impl FnOnce(&mut Config, &Path), trust: Option<Trust>) -> (String, Vec<Fed>) {
    epoch_of(change, trust, None).await
}

async fn epoch_of(
    change: impl FnOnce(&mut Config, &Path),
    trust: Option<Trust>,
    compression: Option<&str>,
) -> (String, Vec<Fed>) {
    let bed = Bed::without_gateway();
    let files = bed.dir.path().join("data");
    data::write(&files, SHAPE);
    let mut config = Config::new("127.0.0.1:0");
    config.datasets = vec![("d".to_owned(), files.to_str().unwrap().to_owned())];
    change(&mut config, bed.dir.path());
    let location = Gateway::start(config, &bed.drain).await.unwrap().location;
    bed.sidecar(vec![location.clone()], |sidecar| sidecar.tls = trust);
    let feed = json!({
        "dataset": "d", "batch_size": 20, "seed": 7, "shuffle": "rows", "compression": compression,
    });
    let batches = global(&bed.world(&feed, 1, 2).await);
    bed.end().await;
    (location, batches)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_is_the_same_by_tcp_by_tls_by_a_socket_and_in_memory_that_is_lent() {
    let (_, expected) = epoch(|_, _| {}, None).await;
    assert!(are_all(&ids_of(&expected, 0), SHAPE.rows()));

    let secured = |config: &mut Config, _: &Path| {
        config.tls = Some(TlsConfig {
            certificate: testdata("gateway.pem"),
            key: testdata("gateway.key"),
            client_ca: Some(testdata("authority.pem")),
        });
    };
    let own = Some((testdata("gateway.pem"), testdata("gateway.key")));
    let (location, batches) = epoch(secured, Some(Trust { ca: testdata("authority.pem"), own })).await;
    assert!(location.starts_with("grpc+tls://"));
    assert_eq!(batches, expected);

    let beside = |config: &mut Config, dir: &Path| config.unix_socket = Some(dir.join("gateway.sock"));
    assert_eq!(epoch(beside, None).await.1, expected);

    // One stream after the other has all of the memory, and none is left to lend.
    let scarce = |config: &mut Config, dir: &Path| {
        beside(config, dir);
        config.memory_bytes = 1 << 10;
    };
    assert_eq!(epoch(scarce, None).await.1, expected);

    let alone = |config: &mut Config, dir: &Path| {
        config.listen = format!("unix:{}", dir.join("gateway.sock").display());
    };
    let (location, batches) = epoch(alone, None).await;
    assert!(location.starts_with("grpc+unix:///"));
    assert_eq!(batches, expected);

    // What is lent is not compressed, whoever asks.
    for compression in ["lz4", "zstd"] {
        assert_eq!(epoch_of(|_, _| {}, None, Some(compression)).await.1, expected);
        assert_eq!(epoch_of(beside, None, Some(compression)).await.1, expected);
    }
}
