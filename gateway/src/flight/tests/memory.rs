//! Streams for which there is no room, now or ever.

use std::time::Duration;

use arrow_flight::decode::FlightRecordBatchStream;
use penstock_proto::waiting::WAITING_HEADER;

use super::fleet::leased;
use super::*;

const LONG: Duration = Duration::from_secs(60);
const SETTING: &str = "(PENSTOCK_GATEWAY_MEMORY where penstock.feed or penstock run starts it)";
const MIB: u64 = 1 << 20;

/// The memory that a sentence advises.
fn advised(text: &str) -> u64 {
    let (_, behind) = text.split_once("give the gateway --memory ").unwrap();
    behind.split_once("MiB").unwrap().0.parse::<u64>().unwrap() * MIB
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_never_has_room_is_refused_and_has_it_in_the_memory_that_is_advised() {
    let mut stage = Stage::new(&[2000], 100);
    let feed = |lanes: u32| {
        format!(r#"{{"dataset":"d","batch_size":50,"shuffle":"blocks","lanes":{lanes},"remainder":"keep"}}"#)
    };
    let mut roomy = stage.client().await;
    let ticket = roomy.feed(&feed(2)).await.unwrap().endpoint[0].ticket.clone().unwrap();

    (stage.config.memory_bytes, stage.config.part_bytes) = (4 * MIB, 64 * MIB);
    let mut narrow = stage.client().await;
    for (lanes, lower) in
        [(2, "lower shuffle_bytes or lanes"), (1, "feed fewer columns or write smaller row groups")]
    {
        let refused = narrow.feed(&feed(lanes)).await.unwrap_err();
        assert_eq!(refused.code, Code::InvalidFeed, "{refused}");
        let needed = leased(&stage, &feed(lanes)).await;
        let said = [
            format!("needs {} MiB of memory", needed.div_ceil(MIB)),
            format!("{lanes} lane(s)"),
            "the gateway has 4 MiB for all streams".to_owned(),
            format!("{SETTING}, or {lower}"),
        ];
        assert!(said.iter().all(|said| refused.message.contains(said)), "{refused}: {said:?}");
        let advised = advised(&refused.message);
        assert!((needed..needed + 2 * MIB).contains(&advised), "{refused}: {needed}");
    }
    // A ticket of a gateway that has more.
    let refused = narrow.read(ticket).await.unwrap_err();
    assert_eq!(refused.code, Code::InvalidFeed, "{refused}");

    // Footers err by more than what is missing here: it runs alone.
    stage.config.part_bytes = 8 * MIB;
    assert!(leased(&stage, &feed(2)).await > 4 * MIB);
    assert_eq!(stage.client().await.epoch(&feed(2)).await, roomy.epoch(&feed(2)).await);
}

/// Messages of a stream up to its first rows, and what it was said to wait for.
async fn begun(client: &mut Client, ticket: &Ticket) -> (tonic::Streaming<FlightData>, Option<String>) {
    let (said, mut stream) = opened(client, ticket).await;
    for _ in 0..2 {
        assert!(stream.message().await.unwrap().is_some());
    }
    (stream, said)
}

async fn opened(client: &mut Client, ticket: &Ticket) -> (Option<String>, tonic::Streaming<FlightData>) {
    let answer = client.0.do_get(ticket.clone()).await.unwrap();
    let said = answer.metadata().get(WAITING_HEADER).map(|why| why.to_str().unwrap().to_owned());
    (said, answer.into_inner())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_waits_for_memory_says_so_before_it_has_any() {
    let mut stage = Stage::new(&[60_000, 60_000], 5_000);
    stage.config.part_bytes = 16 << 10;
    let feed = r#"{"dataset":"d","batch_size":1000,"shuffle":"blocks","lanes":8}"#;
    let needed = leased(&stage, feed).await;
    stage.config.memory_bytes = needed * 3 / 2;
    stage.config.patience = LONG;
    let mut first = stage.client().await;
    let info = first.feed(feed).await.unwrap();
    let told = FeedInfo::from_json(&info.app_metadata).unwrap();
    assert!(told.warnings.is_empty(), "one rank finds room: {:?}", told.warnings);
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let (reading, said) = begun(&mut first, &ticket).await;
    assert_eq!(said, None, "there was room");

    let mut second = first.reconnected().await;
    let (said, waiting) = opened(&mut second, &ticket).await;
    let said = said.unwrap();
    let numbers = [
        format!("it needs {} MiB", needed.div_ceil(MIB)),
        format!("of the {} MiB there are", (needed * 3 / 2).div_ceil(MIB)),
        format!("{SETTING}, or lower shuffle_bytes or lanes"),
    ];
    assert!(said.starts_with("the stream waits for memory"), "{said}");
    assert!(numbers.iter().all(|number| said.contains(number)), "{said}: {numbers:?}");
    assert!(advised(&said) >= 2 * needed, "{said}");

    drop((reading, first));
    let batches = FlightRecordBatchStream::new_from_flight_data(waiting.map_err(FlightError::from));
    let rows: Vec<RecordBatch> = batches.try_collect().await.unwrap();
    let rows: usize = rows.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows as u64, told.steps * 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_waited_for_memory_in_vain_is_refused_after_the_answer_began() {
    let mut stage = Stage::new(&[60_000, 60_000], 5_000);
    stage.config.part_bytes = 16 << 10;
    let feed = r#"{"dataset":"d","batch_size":1000,"shuffle":"blocks","lanes":8}"#;
    stage.config.memory_bytes = leased(&stage, feed).await * 3 / 2;
    // Longer than it takes to say so.
    stage.config.patience = Duration::from_secs(1);
    let mut first = stage.client().await;
    let ticket = first.feed(feed).await.unwrap().endpoint[0].ticket.clone().unwrap();
    let (_reading, _) = begun(&mut first, &ticket).await;
    let (said, mut waiting) = opened(&mut first.reconnected().await, &ticket).await;
    assert!(said.is_some());
    let refused = Error::from(waiting.message().await.unwrap_err());
    assert_eq!(refused.code, Code::Busy, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_that_do_not_find_room_at_once_are_warned_of_and_served_one_after_the_other() {
    let mut stage = Stage::new(&[60_000, 60_000], 5_000);
    stage.config.part_bytes = 16 << 10;
    let feed = r#"{"dataset":"d","batch_size":1000,"shuffle":"blocks","lanes":8,"world_size":4}"#;
    let needed = leased(&stage, feed).await;
    let warnings = async |stage: &Stage| {
        let info = stage.client().await.feed(feed).await.unwrap();
        FeedInfo::from_json(&info.app_metadata).unwrap().warnings
    };
    stage.config.memory_bytes = needed * 4;
    assert!(warnings(&stage).await.is_empty(), "there is room for all");

    stage.config.memory_bytes = needed * 3;
    let [warning] = warnings(&stage).await.try_into().unwrap();
    let said = ["4 ranks of 1 gateway(s) do not find room at once", "will wait for ever", SETTING];
    assert!(said.iter().all(|said| warning.contains(said)), "{warning}");
    assert!(advised(&warning) >= 4 * needed && advised(&warning) < 4 * needed + 2 * MIB, "{warning}");
    let (ranks, told) = stage.client().await.epoch(feed).await;
    assert_eq!(sorted(&global(&ranks)).len() as u64, told.steps * 1000);

    // Of two gateways each has two ranks.
    stage.config.fleet = vec!["127.0.0.1:1".to_owned()];
    assert!(warnings(&stage).await.is_empty());
}
