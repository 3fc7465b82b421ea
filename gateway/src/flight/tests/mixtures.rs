//! Stories of several datasets in one feed: `web`, whose ids begin at 0, and `books`, whose ids begin at 10,000.

use std::collections::BTreeSet;
use std::time::Duration;

use arrow::array::{Int32Array, ListArray, PrimitiveArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Field, Int32Type};
use penstock_proto::{ComponentInfo, FeedRequest};

use super::faults::tight;
use super::*;

const BOOKS: i64 = 10_000;

/// 900 rows and 200, in parts that are smaller than most steps.
fn stage() -> Stage {
    let mut stage =
        Stage { drain: Drain::new(), dir: tempfile::tempdir().unwrap(), config: Config::new("127.0.0.1:0") };
    for (name, first, files) in [("web", 0, [500, 1, 399]), ("books", BOOKS, [90, 70, 40])] {
        let dir = stage.dir.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        write_from(first, &dir, &files, 60);
        stage.config.datasets.push((name.to_owned(), dir.to_str().unwrap().to_owned()));
    }
    stage.config.part_bytes = 512;
    stage
}

/// A file of its own columns, as a dataset.
fn add(stage: &mut Stage, name: &str, columns: Vec<(&str, ArrayRef, bool)>) {
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let path = stage.dir.path().join(format!("{name}.parquet"));
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    stage.config.datasets.push((name.to_owned(), path.to_str().unwrap().to_owned()));
}

fn numbers<T: ArrowPrimitiveType>(values: impl IntoIterator<Item = T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter_values(values))
}

/// A feed's beginning; what else it says follows.
fn feed(web: f64, books: f64, more: &str) -> String {
    format!(
        r#"{{"mixture":[{{"dataset":"web","weight":{web}}},{{"dataset":"books","weight":{books}}}],"batch_size":20,
            "shuffle_bytes":4000,"seed":5{more}"#
    )
}

async fn global_batches(client: &mut Client, feed: &str, more: &str) -> Vec<Vec<i64>> {
    global(&client.epoch(&format!("{feed}{more}}}")).await.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_hold_all_by_their_weights_and_a_dataset_is_used_up_before_it_comes_again() {
    let stage = stage();
    let mut client = stage.client().await;
    for (shuffle, exhausted, steps) in
        [("none", "first", 33), ("blocks", "all", 64), ("rows", "first", 33), ("rows", "all", 64)]
    {
        let feed = feed(0.7, 0.3, &format!(r#","shuffle":"{shuffle}","exhausted":"{exhausted}""#));
        let mut all = Vec::new();
        for epoch in 0..4 {
            let batches = global_batches(&mut client, &feed, &format!(r#","epoch":{epoch}"#)).await;
            assert_eq!(batches.len(), steps, "{feed}");
            all.extend(batches);
        }
        for batch in &all {
            let whose: String = batch.iter().map(|&id| if id < BOOKS { 'w' } else { 'b' }).collect();
            assert_eq!(whose, "wbwwbwwwbwwbwwbwwwbw", "{feed}");
        }
        // Epochs of their own: 64 steps of 14 rows, and 33 of 6.
        let (web, books): (Vec<i64>, Vec<i64>) = all.concat().into_iter().partition(|&id| id < BOOKS);
        for (ids, first, rows, own) in [(web, 0, 900, 64 * 14), (books, BOOKS, 200, 33 * 6)] {
            let epochs: Vec<&[i64]> = ids.chunks(own).collect();
            for ids in &epochs {
                assert!(ids.iter().all(|id| (first..first + rows).contains(id)));
                assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{feed}");
            }
            let begins = |epoch: usize| &epochs[epoch][..6];
            assert!(epochs.len() >= 2);
            assert_eq!(begins(0) == begins(1), shuffle == "none", "{feed}");
            if shuffle == "none" {
                assert!(epochs[0].iter().copied().eq(first..first + own as i64), "file order");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_world_gets_the_same_batches_and_a_reader_may_begin_anywhere() {
    let stage = stage();
    let mut client = stage.client().await;
    // Of one row a batch, all ranks but one have none.
    for (web, books, more) in
        [(0.7, 0.3, r#","shuffle":"rows","exhausted":"all""#), (19.0, 1.0, r#","shuffle":"rows""#)]
    {
        let feed = feed(web, books, more);
        for epoch in [0, 1] {
            let epoch = format!(r#","epoch":{epoch}"#);
            let batches = global_batches(&mut client, &feed, &epoch).await;
            for world in [2, 3, 5, 20] {
                let ranks = format!(r#"{epoch},"world_size":{world}"#);
                assert_eq!(global_batches(&mut client, &feed, &ranks).await, batches, "{feed}{ranks}");
            }
            for start in [1, 32, 33, 34, batches.len() - 1, batches.len()] {
                let rest = format!(r#"{epoch},"world_size":3,"start_step":{start}"#);
                let start = start.min(batches.len());
                assert_eq!(global_batches(&mut client, &feed, &rest).await, batches[start..], "{feed}{rest}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_of_a_mixture_pins_it() {
    let stage = stage();
    let mut client = stage.client().await;
    let said = feed(0.7, 0.3, r#","shuffle":"blocks","columns":["id"]"#);
    let info = client.feed(&format!("{said}}}")).await.unwrap();
    let told = FeedInfo::from_json(&info.app_metadata).unwrap();
    let component = |dataset: &str, rows, rows_per_batch, steps| ComponentInfo {
        dataset: dataset.to_owned(),
        rows,
        rows_per_batch,
        steps,
    };
    assert_eq!(told.mixture, [component("books", 200, 6, 33), component("web", 900, 14, 64)]);
    assert_eq!((told.rows, told.dropped, told.steps), (1100, 4 + 2, 33));
    assert_eq!(info.total_records, 33 * 20);
    let again = format!(r#"{said},"snapshot":"{}","lanes":{}}}"#, told.snapshot, told.lanes);
    let pinned = client.feed(&again).await.unwrap();
    let ticket = |info: &FlightInfo| info.endpoint[0].ticket.clone().unwrap();
    assert_eq!(client.read(ticket(&pinned)).await.unwrap(), client.read(ticket(&info)).await.unwrap());
    // The order in which datasets are said, and the scale of their weights, mean nothing.
    let mut turned = FeedRequest::parse(format!("{said}}}").as_bytes()).unwrap().to_command();
    turned.mixture.reverse();
    turned.mixture.iter_mut().for_each(|component| component.weight *= 10.0);
    let turned = client.feed(&serde_json::to_string(&turned).unwrap()).await.unwrap();
    assert_eq!(client.read(ticket(&turned)).await.unwrap(), client.read(ticket(&info)).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_serves_each_others_mixtures_under_a_filter() {
    let mut stage = stage();
    stage.config.ticket_key = TicketKey::from_secret(b"a secret that is shared by a fleet");
    let (mut one, mut other) = (stage.client().await, stage.client().await);
    let feed = feed(0.5, 0.5, r#","filter":"id % 3 = 1","select":["id","id * 2 AS twice"],"world_size":2}"#);
    let info = one.feed(&feed).await.unwrap();
    let mut read = Vec::new();
    for endpoint in &info.endpoint {
        let ticket = endpoint.ticket.clone().unwrap();
        let batches = one.read(ticket.clone()).await.unwrap();
        assert_eq!(batches, other.read(ticket).await.unwrap());
        for (_, batch) in &batches {
            let column = |index: usize| batch.column(index).as_primitive::<Int64Type>().values();
            assert!(column(0).iter().zip(column(1)).all(|(id, twice)| id % 3 == 1 && id * 2 == *twice));
        }
        read.push(steps(&batches, 6));
    }
    // 66 books pass, ten of them a batch.
    let (web, books): (Vec<_>, Vec<_>) = global(&read).concat().into_iter().partition(|&id| id < BOOKS);
    assert_eq!((web.len(), books.len()), (60, 60));
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_told_by_name_and_may_hold_nulls_where_one_of_them_does() {
    let mut stage = stage();
    add(
        &mut stage,
        "whole",
        vec![("x", numbers::<Int32Type>(0..40), false), ("y", numbers::<Int64Type>(0..40), false)],
    );
    let holes = Int32Array::from_iter((0..40).map(|x| (x % 2 == 0).then_some(x)));
    add(
        &mut stage,
        "holes",
        vec![("y", numbers::<Int64Type>(100..140), false), ("x", Arc::new(holes), true)],
    );
    let mut client = stage.client().await;
    let feed =
        r#"{"mixture":[{"dataset":"whole","weight":1},{"dataset":"holes","weight":1}],"batch_size":8}"#;
    let info = client.feed(feed).await.unwrap();
    let schema = info.clone().try_decode_schema().unwrap();
    let told: Vec<_> = schema.fields().iter().map(|f| (f.name().as_str(), f.is_nullable())).collect();
    assert_eq!(told, [("y", false), ("x", true)], "in the order of the first by name, which is holes");
    let batches = client.read(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    let (_, parts) = batches.split_last().unwrap();
    let mut found = Vec::new();
    for (_, batch) in parts {
        assert_eq!(batch.schema_ref().as_ref(), &schema);
        let (ys, xs) =
            (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_primitive::<Int32Type>());
        found.extend(ys.iter().zip(xs).map(|(y, x)| (y.unwrap(), x)));
    }
    found.sort_unstable();
    let whole = (0..40).map(|i| (i, Some(i as i32)));
    let holes = (0..40).map(|i| (i + 100, (i % 2 == 0).then_some(i as i32)));
    assert!(found.into_iter().eq(whole.chain(holes)));
}

/// Spark says `element` where others say `item`.
#[tokio::test(flavor = "multi_thread")]
async fn lists_are_mixed_whatever_their_items_are_called() {
    let mut stage = stage();
    let lists = |item: &str, first: i64| -> ArrayRef {
        let item = Arc::new(Field::new(item, DataType::Int64, true));
        let values = Int64Array::from_iter_values((first..first + 80).collect::<Vec<_>>());
        let lengths = OffsetBuffer::from_lengths([2usize; 40]);
        Arc::new(ListArray::new(item, lengths, Arc::new(values), None))
    };
    add(&mut stage, "spark", vec![("x", lists("element", 0), false)]);
    add(&mut stage, "arrow", vec![("x", lists("item", 80), false)]);
    let mut client = stage.client().await;
    let feed = r#"{"mixture":[{"dataset":"spark","weight":3},{"dataset":"arrow","weight":1}],"batch_size":8,"exhausted":"all"}"#;
    let info = client.feed(feed).await.unwrap();
    let batches = client.read(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    let mut found = BTreeSet::new();
    for (_, batch) in &batches {
        assert_eq!(*batch.schema_ref().as_ref(), info.clone().try_decode_schema().unwrap());
        for list in batch.column(0).as_list::<i32>().iter().flatten() {
            let pair = list.as_primitive::<Int64Type>().values();
            assert_eq!((pair.len(), pair[0] % 2, pair[1] - pair[0]), (2, 0, 1));
            found.insert(pair[0]);
        }
    }
    // Of spark's 40 rows in sixes the last four are left out, in file order those of every epoch.
    assert_eq!(found.range(80..).count(), 40);
    assert_eq!(found.range(..80).count(), 36);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_mixed_says_what_to_do() {
    let mut stage = stage();
    add(
        &mut stage,
        "other",
        vec![("id", numbers::<Int32Type>(0..40), false), ("text", numbers::<Int32Type>(0..40), false)],
    );
    add(&mut stage, "ids", vec![("id", numbers::<Int64Type>(0..40), false)]);
    let mut client = stage.client().await;
    let told = FeedInfo::from_json(&client.feed(&feed(1.0, 1.0, "}")).await.unwrap().app_metadata).unwrap();
    let half = told.snapshot.split().next().unwrap();
    let with = |other: &str, more: &str| {
        format!(
            r#"{{"mixture":[{{"dataset":"web","weight":1}},{{"dataset":"{other}","weight":1}}],"batch_size":20{more}}}"#
        )
    };
    for (feed, code, text) in [
        (
            feed(0.99, 0.01, "}"),
            Code::InvalidFeed,
            r#"none for dataset "books" by its weight: raise batch_size to 100"#,
        ),
        (with("papers", ""), Code::UnknownDataset, r#"no dataset "papers""#),
        (
            with("ids", ""),
            Code::InvalidFeed,
            r#"dataset "web" has a column "text" and dataset "ids" has none"#,
        ),
        (
            with("other", ""),
            Code::InvalidFeed,
            r#"column "id" is Int32 in dataset "other" and Int64 in dataset "web""#,
        ),
        (
            with("books", r#","columns":["txet"]"#),
            Code::UnknownColumn,
            r#"dataset "books" of the mixture: the dataset has no"#,
        ),
        (
            with("books", r#","filter":"id < 10003""#),
            Code::InvalidFeed,
            r#"dataset "books" of the mixture has 3 rows"#,
        ),
        (with("books", r#","lanes":7"#), Code::InvalidFeed, "leave lanes out"),
        (with("books", r#","remainder":"keep""#), Code::InvalidFeed, "comes in the next"),
        (with("books", r#","start_step":21"#), Code::InvalidFeed, "has 20 steps"),
        (
            with("books", &format!(r#","snapshot":"{half}""#)),
            Code::InvalidFeed,
            "is of 1 datasets and the mixture has 2",
        ),
        (
            with("books", &format!(r#","snapshot":"{half}+{half}""#)),
            Code::SnapshotGone,
            r#"of dataset "web""#,
        ),
    ] {
        let error = client.feed(&feed).await.unwrap_err();
        assert_eq!(error.code, code, "{feed}: {error}");
        assert!(error.message.contains(text) && !error.message.contains('\n'), "{feed}: {error}");
    }
}

/// Readers of which only some fit at once: none holds a part of what it needs while it waits for the rest.
#[tokio::test(flavor = "multi_thread")]
async fn many_readers_in_little_memory_all_come_to_their_end() {
    let mut stage = stage();
    stage.config.part_bytes = 16 << 10;
    stage.config.memory_bytes = 1 << 20;
    stage.config.ticket_key = TicketKey::from_secret(b"a secret that is shared by a fleet");
    stage.config.patience = Duration::ZERO;
    let mut hasty = stage.client().await;
    let feed = feed(0.7, 0.3, r#","shuffle":"rows","exhausted":"all"}"#).replace("4000", "40000");
    let info = hasty.feed(&feed).await.unwrap();
    let mut held = Vec::new();
    let refused = loop {
        match hasty.open(&info).await {
            Ok(stream) => held.push(stream),
            Err(error) => break error,
        }
    };
    assert!(refused.code == Code::Busy && held.len() < 12, "{} {refused}", held.len());

    stage.config.patience = Duration::from_secs(600);
    let client = stage.client().await;
    let readers: Vec<_> = (0..12)
        .map(|_| {
            let (mut client, ticket) = (client.clone(), info.endpoint[0].ticket.clone().unwrap());
            tokio::spawn(async move { client.read(ticket).await.unwrap() })
        })
        .collect();
    let mut read = Vec::new();
    for reader in readers {
        read.push(reader.await.unwrap());
    }
    assert_eq!(steps(&read[0], 64).len(), 64);
    assert!(read.iter().all(|batches| *batches == read[0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_leaves_hands_a_mixture_over_between_two_steps() {
    let mut stage = tight();
    stage.config.datasets.push(("e".to_owned(), stage.config.datasets[0].1.clone()));
    let feed = r#"{"mixture":[{"dataset":"d","weight":3},{"dataset":"e","weight":2}],"batch_size":1000,"exhausted":"all""#;
    let mut client = stage.client().await;
    let all = global_batches(&mut client, feed, "").await;
    let info = client.feed(&format!("{feed}}}")).await.unwrap();
    let stream = client.open(&info).await.unwrap();
    let mut decoded = FlightDataDecoder::new(stream.map_err(FlightError::from));
    let (mut ids, mut moved) = (Vec::new(), None);
    while let Some(data) = decoded.try_next().await.unwrap() {
        let DecodedPayload::RecordBatch(batch) = data.payload else { continue };
        match Note::from_json(&data.inner.app_metadata).unwrap() {
            Note::Part { .. } => ids.extend(batch.column(0).as_primitive::<Int64Type>().values().to_vec()),
            Note::Moved { step } => moved = Some(step as usize),
            note @ Note::End { .. } => panic!("{note:?} of a stream cut short"),
        }
        stage.drain.begin();
    }
    let moved = moved.unwrap();
    assert_eq!(ids, all[..moved].concat());
    stage.drain.finished(Duration::from_secs(30)).await.unwrap();

    stage.drain = Drain::new();
    let mut next = stage.client().await;
    let rest = global_batches(&mut next, feed, &format!(r#","start_step":{moved}"#)).await;
    assert_eq!(rest, all[moved..]);
}
