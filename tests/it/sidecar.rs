//! From files to a trainer's memory: gateway, Flight, sidecar and ring in one process.

use std::path::{Path, PathBuf};

use penstock_tests::data::Shape;
use serde_json::{Value, json};

use crate::sidecar_bed::{Bed, Fed, LONG, are_all, global, ids_of, open, read};

/// 203 rows in 14 row groups of seven files.
const SHAPE: Shape = Shape { files: 7, rows_per_file: 29, row_group: 20, payload: Some(24) };

fn feed(more: &Value) -> Value {
    let mut feed = json!({"dataset": "d", "batch_size": 20, "seed": 7});
    feed.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    feed
}

#[tokio::test(flavor = "multi_thread")]
async fn every_world_sees_the_same_global_batches_and_every_row_once() {
    let bed = Bed::new(SHAPE).await;
    for shuffle in ["none", "blocks", "rows"] {
        // 203 rows are ten batches of 20 and three rows that `keep` gives a step of their own.
        let feed = feed(&json!({"shuffle": shuffle, "remainder": "keep"}));
        let alone = global(&bed.world(&feed, 2, 1).await);
        assert_eq!(alone.len(), 22);
        assert!((0..2).all(|epoch| are_all(&ids_of(&alone, epoch), SHAPE.rows())), "{shuffle}");
        assert_eq!(ids_of(&alone, 0) == ids_of(&alone, 1), shuffle == "none");
        for world in [2, 3, 5] {
            assert_eq!(global(&bed.world(&feed, 2, world).await), alone, "{shuffle}, world of {world}");
        }
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_feeds_the_rows_that_pass_as_if_there_were_no_others() {
    let bed = Bed::new(SHAPE).await;
    let some = json!({
        "filter": "id % 3 = 1 AND x < 90", "select": ["id", "CAST(id / 2 AS REAL) AS x", "hash_bucket(id, 5) AS bucket"],
        "batch_size": 16, "remainder": "keep", "shuffle": "rows",
    });
    let feed = feed(&some);
    let alone = global(&bed.world(&feed, 2, 1).await);
    for epoch in 0..2 {
        let mut ids = ids_of(&alone, epoch);
        ids.sort_unstable();
        assert!(ids.into_iter().eq((0..180).filter(|id| id % 3 == 1)), "epoch {epoch}");
    }
    for world in [2, 5] {
        assert_eq!(global(&bed.world(&feed, 2, world).await), alone, "world of {world}");
    }
    bed.end().await;
}

/// A gateway is given its place as `change` says; the sidecar trusts the authority of the tests.
async fn check_place(scheme: &str, change: impl FnOnce(&mut penstock_gateway::Config, &Path)) {
    let bed = Bed::without_gateway();
    let location = bed.gateway(SHAPE, |config| change(config, bed.dir.path())).await;
    assert!(location.starts_with(scheme), "{location}");
    let ca = testdata("authority.pem");
    bed.sidecar(vec![location], |config| config.tls = Some(penstock_sidecar::TlsConfig { ca, own: None }));
    let alone = global(&bed.world(&feed(&json!({})), 1, 1).await);
    assert!(ids_of(&alone, 0).into_iter().eq(0..200));
    bed.end().await;
}

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../trainer-sidecar/testdata").join(name)
}

fn secured() -> Option<penstock_gateway::config::TlsConfig> {
    let (certificate, key) = (testdata("gateway.pem"), testdata("gateway.key"));
    Some(penstock_gateway::config::TlsConfig { certificate, key, client_ca: None })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_is_read_wherever_it_listens() {
    check_place("grpc+tls://", |config, _| config.tls = secured()).await;
    check_place("grpc+unix://", |config, dir| {
        config.listen = format!("unix:{}", dir.join("gateway.sock").display());
    })
    .await;
    check_place("grpc+tls://", |config, dir| {
        config.tls = secured();
        config.unix_socket = Some(dir.join("gateway.sock"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn file_order_is_the_order_of_ids() {
    let bed = Bed::new(SHAPE).await;
    let alone = global(&bed.world(&feed(&json!({})), 1, 1).await);
    assert!(ids_of(&alone, 0).into_iter().eq(0..200));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_large_rows_comes_in_as_many_parts_as_it_takes() {
    let bed = Bed::new(Shape { files: 1, rows_per_file: 40, row_group: 20, payload: Some(1 << 20) }).await;
    let alone = global(&bed.world(&feed(&json!({})), 1, 1).await);
    assert!(ids_of(&alone, 0).into_iter().eq(0..40));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_goes_on_at_any_step_as_if_it_had_never_stopped() {
    let bed = Bed::new(SHAPE).await;
    let feed = feed(&json!({"shuffle": "rows", "remainder": "pad"}));
    let whole = bed.world(&feed, 2, 3).await;
    for start in 0..=11 {
        let mut resumed = feed.clone();
        resumed["start_step"] = json!(start);
        let suffix: Vec<_> = whole.iter().map(|rank| rank[start..].to_vec()).collect();
        assert_eq!(bed.world(&resumed, 2, 3).await, suffix, "from step {start}");
    }
    // The last epoch is over: nothing is left, and that is no failure.
    let mut over = feed.clone();
    over["epoch"] = json!(2);
    assert!(bed.world(&over, 2, 3).await.iter().all(Vec::is_empty));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn remainders_are_dropped_padded_or_kept_alike_for_all_ranks() {
    let bed = Bed::new(SHAPE).await;
    for world in [1, 3] {
        let batches = async |remainder: &str| {
            let ranks = bed.world(&feed(&json!({"remainder": remainder})), 1, world).await;
            assert!(ranks.iter().all(|rank| rank.len() == ranks[0].len()), "equal steps on all ranks");
            global(&ranks)
        };
        let dropped = batches("drop").await;
        assert_eq!(dropped.len(), 10);
        let kept = batches("keep").await;
        assert_eq!(kept[..10], dropped);
        assert_eq!(kept[10].ids, [200, 201, 202]);
        let padded = batches("pad").await;
        assert_eq!(padded.len(), 11);
        assert!(padded.iter().all(|batch| batch.ids.len() == 20));
        assert!(are_all(&ids_of(&padded, 0), SHAPE.rows()), "valid rows are all rows, once");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_without_a_whole_batch_says_what_to_do() {
    let bed = Bed::new(SHAPE).await;
    let request = json!({"version": 1, "feed": feed(&json!({"batch_size": 1000}))}).to_string();
    let socket = bed.socket.clone();
    let opened =
        tokio::task::spawn_blocking(move || penstock_ring::Consumer::open(&socket, &request, LONG).map(drop));
    let refusal = opened.await.unwrap().unwrap_err().to_string();
    assert!(refusal.contains("203 rows") && refusal.contains("\"keep\""), "{refusal}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_feeds_of_one_sidecar_do_not_know_each_other() {
    let bed = Bed::new(SHAPE).await;
    let (one, other) = (feed(&json!({})), feed(&json!({"shuffle": "rows"})));
    let socket = bed.socket.clone();
    let (held, moved_on): (Vec<Fed>, Vec<Fed>) = tokio::task::spawn_blocking(move || {
        let slow = open(&socket, &one, 1);
        let first = slow.next(LONG).unwrap().unwrap();
        let fast = read(&open(&socket, &other, 1));
        drop(first);
        (read(&slow), fast)
    })
    .await
    .unwrap();
    assert!(ids_of(&held, 0).into_iter().eq(20..200));
    assert_eq!(ids_of(&moved_on, 0).len(), 200);
    bed.end().await;
}
