//! Stories of feeds of some rows and of computed columns.

use arrow::array::types::Float32Type;
use arrow::datatypes::DataType;
use penstock_proto::{FeedRequest, Ticket as Sealed};

use super::*;

type Passes = fn(i64) -> bool;

/// A filter as it is written, and in Rust. The text of an id is as long as seven times its last digit.
const FILTERS: [(&str, Passes); 6] = [
    ("id % 3 = 1", |id| id % 3 == 1),
    ("id >= 500 AND id < 905", |id| (500..905).contains(&id)),
    ("length(text) > 20 OR id = 11", |id| id % 10 * 7 > 20 || id == 11),
    ("id IN (3, 700, 1999) OR text LIKE 'xxxxxxxxxxxxxxxxxxxxxx%' AND NOT id BETWEEN 400 AND 1999", |id| {
        [3, 700, 1999].contains(&id) || id % 10 * 7 >= 22 && !(400..=1999).contains(&id)
    }),
    ("id IS NOT NULL", |_| true),
    ("id = 1234", |id| id == 1234),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_world_gets_the_same_of_the_rows_that_pass_and_each_once() {
    let stage = Stage::new(&[700, 1, 1_300], 90);
    let mut client = stage.client().await;
    for (filter, passes) in FILTERS {
        let expected: Vec<i64> = (0..2_001).filter(|&id| passes(id)).collect();
        for (shuffle, remainder) in [("none", "keep"), ("blocks", "drop"), ("rows", "keep"), ("rows", "pad")]
        {
            let feed = format!(
                r#"{{"dataset":"d","filter":"{filter}","batch_size":24,"shuffle":"{shuffle}","remainder":"{remainder}",
                    "seed":5,"shuffle_bytes":9000"#
            );
            let (alone, told) = client.epoch(&format!("{feed}}}")).await;
            let batches = global(&alone);
            let whole = expected.len() / 24;
            assert_eq!(told.rows, expected.len() as u64, "{feed}");
            let mut ids = sorted(&batches[..whole]);
            if remainder == "keep" {
                ids = sorted(&batches);
                assert_eq!(ids, expected, "{feed}");
            }
            assert!(ids.iter().all(|id| passes(*id)), "{feed}");
            let before = ids.len();
            ids.dedup();
            assert_eq!(ids.len(), before, "{feed}");
            if shuffle == "none" {
                assert_eq!(batches.concat(), expected, "file order");
            }
            for world in [2, 5] {
                let (ranks, _) = client.epoch(&format!(r#"{feed},"world_size":{world}}}"#)).await;
                assert_eq!(global(&ranks), batches, "{feed} {world}");
            }
            for start in [told.steps / 2, told.steps] {
                let rest = format!(r#"{feed},"world_size":3,"start_step":{start}}}"#);
                let (ranks, _) = client.epoch(&rest).await;
                assert_eq!(global(&ranks), batches[start as usize..], "{rest}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_passes_there_are_no_steps() {
    let stage = Stage::new(&[200], 50);
    let mut client = stage.client().await;
    for filter in ["id < 0", "length(text) = 1", "NULL"] {
        for remainder in ["drop", "pad", "keep"] {
            let feed =
                format!(r#"{{"dataset":"d","filter":"{filter}","remainder":"{remainder}","batch_size":8}}"#);
            let (ranks, told) = client.epoch(&feed).await;
            assert_eq!((told.steps, told.rows, told.dropped), (0, 0, 0), "{feed}");
            assert!(ranks[0].is_empty());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cast_of_what_is_no_number_names_it_and_where_it_lies() {
    let stage = Stage::new(&[120, 80], 50);
    let mut client = stage.client().await;
    // Every tenth text is empty.
    let told = |expression: &str, value: &str| {
        format!("CAST({expression}) is not possible for {value:?}: TRY_CAST({expression}) gives NULL there")
    };
    let filter = r#"{"dataset":"d","filter":"CAST(text AS INTEGER) > 3"}"#;
    let refused = client.feed(filter).await.unwrap_err();
    assert_eq!(refused.code, Code::InvalidFeed);
    assert!(refused.message.contains(&told("text AS INTEGER", "")), "{refused}");
    let select = r#"{"dataset":"d","batch_size":10,"select":["id","CAST(id AS TINYINT) AS small"]}"#;
    let info = client.feed(select).await.unwrap();
    let refused = client.read(info.endpoint[0].ticket.clone().unwrap()).await.unwrap_err();
    assert_eq!(refused.code, Code::InvalidFeed);
    assert!(refused.message.contains("001.parquet, row group 0: "), "{refused}");
    assert!(refused.message.contains(&told("id AS TINYINT", "128")), "{refused}");
    let lost =
        r#"{"dataset":"d","filter":"id > 130 AND TRY_CAST(id AS TINYINT) IS NULL","remainder":"keep"}"#;
    assert_eq!(client.epoch(lost).await.1.rows, 69);
    let guarded = r#"{"dataset":"d","filter":"id < 100 AND CAST(id AS TINYINT) > 49","remainder":"keep"}"#;
    assert_eq!(client.epoch(guarded).await.1.rows, 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn selected_columns_have_the_names_types_and_order_asked_for() {
    let stage = Stage::new(&[120, 80], 50);
    let mut client = stage.client().await;
    for shuffle in ["none", "rows"] {
        // The text is read for the filter alone.
        let feed = format!(
            r#"{{"dataset":"d","select":["CAST(id * 2 AS REAL) AS twice","id","hash_bucket(id, 7) AS \"my bucket\"","1 AS one"],
                "filter":"length(text) >= 14","batch_size":10,"shuffle":"{shuffle}","remainder":"keep"}}"#
        );
        let info = client.feed(&feed).await.unwrap();
        let schema = info.clone().try_decode_schema().unwrap();
        let fields: Vec<_> =
            schema.fields().iter().map(|f| (f.name().as_str(), f.data_type().clone())).collect();
        let expected = [
            ("twice", DataType::Float32),
            ("id", DataType::Int64),
            ("my bucket", DataType::Int64),
            ("one", DataType::Int64),
        ];
        assert_eq!(fields, expected);
        let mut found: Vec<i64> = Vec::new();
        for (_, batch) in client.read(info.endpoint[0].ticket.clone().unwrap()).await.unwrap() {
            let (twice, ids) =
                (batch.column(0).as_primitive::<Float32Type>(), batch.column(1).as_primitive::<Int64Type>());
            assert!(twice.values().iter().zip(ids.values()).all(|(twice, id)| *twice == (id * 2) as f32));
            assert!(
                batch
                    .column(2)
                    .as_primitive::<Int64Type>()
                    .values()
                    .iter()
                    .all(|bucket| (0..7).contains(bucket))
            );
            assert!(batch.column(3).as_primitive::<Int64Type>().values().iter().all(|one| *one == 1));
            found.extend(ids.values());
        }
        found.sort_unstable();
        assert_eq!(found, (0..200).filter(|id| id % 10 >= 2).collect::<Vec<_>>());
    }
}

/// Nothing but constants is a row count and no column of the file.
#[tokio::test(flavor = "multi_thread")]
async fn a_feed_may_read_no_column_at_all() {
    let stage = Stage::new(&[50], 20);
    let mut client = stage.client().await;
    let info = client
        .feed(r#"{"dataset":"d","select":["2 AS two"],"batch_size":25,"filter":"TRUE"}"#)
        .await
        .unwrap();
    let batches = client.read(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    assert_eq!(batches.iter().map(|(_, batch)| batch.num_rows()).sum::<usize>(), 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_of_other_counts_is_refused() {
    let mut stage = Stage::new(&[100], 50);
    let secret = b"a secret that is shared by a fleet";
    stage.config.ticket_key = TicketKey::from_secret(secret);
    let state = tempfile::tempdir().unwrap();
    stage.config.state = Some(state.path().to_str().unwrap().to_owned());
    let mut client = stage.client().await;
    let feed = r#"{"dataset":"d","filter":"id % 2 = 0","rank":0,"batch_size":10}"#;
    let honest = client.feed(feed).await.unwrap().endpoint[0].ticket.clone().unwrap();
    assert_eq!(client.read(honest.clone()).await.unwrap().len(), 6);
    // A gateway that starts anew finds what was counted.
    assert_eq!(stage.client().await.read(honest).await.unwrap().len(), 6);

    let request = FeedRequest::parse(feed.as_bytes()).unwrap();
    let expires_at = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    let other = Sealed { request, expires_at, counts: Some("00".to_owned()), pull: None };
    let sealed = TicketKey::from_secret(secret).seal(&other);
    let error = client.read(Ticket::new(sealed)).await.unwrap_err();
    assert_eq!(error.code, Code::BadTicket);
    assert!(error.message.contains("counted other rows"), "{error}");
}
