//! Rows that fill no batch of a shuffled feed are others every epoch, and whoever counts by older rules is told.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use penstock_proto::{FeedRequest, OrderRules, Rank};

use super::*;

/// One row group, two, and what passes a filter: over the epochs every row is fed, in each no row twice.
#[tokio::test(flavor = "multi_thread")]
async fn every_row_of_a_few_row_groups_comes_in_some_epoch() {
    for (files, row_group, filter, rows) in [
        (&[100][..], 1_000, "", 100),
        (&[60, 40], 1_000, "", 100),
        (&[300], 1_000, r#","filter":"id % 3 = 1""#, 100),
    ] {
        let stage = Stage::new(files, row_group);
        let mut client = stage.client().await;
        for shuffle in ["blocks", "rows"] {
            let feed = format!(r#"{{"dataset":"d","batch_size":64,"shuffle":"{shuffle}","seed":3{filter}"#);
            let mut seen = BTreeSet::new();
            for epoch in 0..12 {
                let epoch = format!(r#"{feed},"epoch":{epoch}"#);
                let (alone, told) = client.epoch(&format!("{epoch}}}")).await;
                let batches = global(&alone);
                assert_eq!((told.steps, told.dropped, batches.len()), (1, rows - 64, 1), "{epoch}");
                let ids: BTreeSet<i64> = batches[0].iter().copied().collect();
                assert_eq!(ids.len(), 64, "{epoch}");
                seen.extend(ids);
                let (ranks, _) = client.epoch(&format!(r#"{epoch},"world_size":3}}"#)).await;
                assert_eq!(global(&ranks), batches, "{epoch}");
            }
            assert_eq!(seen.len() as u64, rows, "{feed}");
        }
        let (alone, _) =
            client.epoch(&format!(r#"{{"dataset":"d","batch_size":64,"epoch":5{filter}}}"#)).await;
        let first: Vec<i64> = (0..64).map(|id| if filter.is_empty() { id } else { 3 * id + 1 }).collect();
        assert_eq!(global(&alone), [first], "in file order the last rows are left out");
    }
}

#[tokio::test]
async fn what_was_begun_by_other_rules_is_refused_in_words() {
    let stage = Stage::new(&[100], 30);
    let mut client = stage.client().await;
    for (feed, rules) in [
        (r#"{"dataset":"d","batch_size":64,"shuffle":"rows"}"#, OrderRules::DROP_BY_EPOCH),
        (r#"{"dataset":"d","batch_size":64,"shuffle":"blocks"}"#, OrderRules::DROP_BY_EPOCH),
        (r#"{"dataset":"d","batch_size":64,"shuffle":"rows","remainder":"keep"}"#, OrderRules::FIRST),
        (r#"{"dataset":"d","batch_size":64,"shuffle":"rows","remainder":"pad"}"#, OrderRules::FIRST),
        (r#"{"dataset":"d","batch_size":50,"shuffle":"rows"}"#, OrderRules::FIRST),
        (r#"{"dataset":"d","batch_size":64}"#, OrderRules::FIRST),
        (
            r#"{"mixture":[{"dataset":"d","weight":1}],"batch_size":64,"shuffle":"rows"}"#,
            OrderRules::DROP_BY_EPOCH,
        ),
    ] {
        let info = client.feed(feed).await.unwrap();
        assert_eq!(FeedInfo::from_json(&info.app_metadata).unwrap().order_rules, rules, "{feed}");
        let request = FeedRequest::parse(feed.as_bytes()).unwrap();
        for said in [1, 2, 3].map(OrderRules::new) {
            let pinned = FeedRequest { order_rules: Some(said), ..request.clone() }.to_command();
            let answer = client.feed(&serde_json::to_string(&pinned).unwrap()).await;
            if said == rules {
                assert_eq!(steps_of(&answer.unwrap()), steps_of(&info));
                continue;
            }
            let error = answer.unwrap_err();
            let told = format!(
                "begun in an order of rules {said} and this gateway's release orders it by rules {rules}"
            );
            assert!(error.code == Code::InvalidFeed && error.message.contains(&told), "{error}");
        }
        // A ticket of a release that knew no rules but the first.
        let request = FeedRequest { rank: Some(Rank::ZERO), order_rules: None, ..request };
        let expires_at = SystemTime::now() + Duration::from_secs(60);
        let ticket = penstock_proto::Ticket { request, expires_at, counts: None, pull: None };
        let read = client.read(Ticket::new(stage.config.ticket_key.seal(&ticket))).await;
        match read {
            Ok(batches) if rules == OrderRules::FIRST => assert!(batches.len() > 1),
            Err(error) if rules != OrderRules::FIRST => {
                assert!(error.message.contains("start the feed anew"), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
}

fn steps_of(info: &FlightInfo) -> u64 {
    FeedInfo::from_json(&info.app_metadata).unwrap().steps
}
