//! What goes wrong: memory, readers, files, ports, and a gateway that leaves.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::time::Duration;

use arrow_flight::FlightData;
use arrow_flight::{CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus};
use parquet::file::properties::EnabledStatistics;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use prost::Message as _;
use tonic::Streaming;

use super::*;

impl Client {
    /// A stream of which nothing more is read than is asked for.
    pub(super) async fn open(&mut self, info: &FlightInfo) -> Result<Streaming<FlightData>, Error> {
        Ok(self.0.do_get(info.endpoint[0].ticket.clone().unwrap()).await?.into_inner())
    }
}

/// A data set of more than ten times the memory that the gateway is given.
pub(super) fn tight() -> Stage {
    let mut stage = Stage::new(&[60_000, 60_000, 60_000, 60_000], 5_000);
    stage.config.part_bytes = 16 << 10;
    stage.config.memory_bytes = 1 << 20;
    stage
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_finds_no_room_is_told_the_numbers_and_one_that_ends_makes_room() {
    let mut stage = tight();
    stage.config.patience = Duration::from_millis(20);
    let mut client = stage.client().await;
    let info = client.feed(r#"{"dataset":"d","batch_size":1000,"remainder":"keep"}"#).await.unwrap();
    let mut held = Vec::new();
    let refused = loop {
        match client.open(&info).await {
            Ok(mut stream) => {
                assert!(stream.message().await.unwrap().is_some());
                held.push(stream);
            }
            Err(error) => break error,
        }
    };
    assert!(!held.is_empty() && held.len() < 5, "{}", held.len());
    assert_eq!(refused.code, Code::Busy);
    assert!(refused.may_retry() && refused.message.contains("of 1 MiB are held"), "{refused}");

    // With patience, whoever waits is served when a stalled reader leaves.
    stage.config.patience = Duration::from_secs(60);
    let mut patient = stage.client().await;
    let mut stalled = Vec::new();
    for _ in 0..held.len() {
        stalled.push(patient.open(&info).await.unwrap());
    }
    let waiting = tokio::spawn({
        let (mut patient, ticket) = (patient.clone(), info.endpoint[0].ticket.clone().unwrap());
        async move { patient.read(ticket).await }
    });
    drop(stalled);
    let told = FeedInfo::from_json(&info.app_metadata).unwrap();
    let ids: Vec<i64> = steps(&waiting.await.unwrap().unwrap(), told.steps).into_values().flatten().collect();
    assert_eq!(ids, (0..240_000).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_reader_stalls_its_own_stream_alone() {
    let mut stage = tight();
    stage.config.memory_bytes = 4 << 20;
    let mut client = stage.client().await;
    let info =
        client.feed(r#"{"dataset":"d","batch_size":1000,"shuffle":"rows","shuffle_bytes":100000}"#).await;
    let info = info.unwrap();
    // Another connection, for those of one connection share its window.
    let mut other = client.reconnected().await;
    let _stalled = client.open(&info).await.unwrap();
    let told = FeedInfo::from_json(&info.app_metadata).unwrap();
    let batches = other.read(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    assert_eq!(sorted(&global(&[steps(&batches, told.steps)])), (0..240_000).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_larger_than_their_footer_told_are_leased_when_they_are_seen() {
    let mut stage = Stage::new(&[1], 1);
    // Ten long texts, stored once each and never counted.
    let texts = StringArray::from_iter_values((0..20_000).map(|i| (i % 10).to_string().repeat(1_000)));
    let ids = Int64Array::from_iter_values(0..20_000);
    let columns: [(&str, ArrayRef); 2] = [("id", Arc::new(ids)), ("long", Arc::new(texts))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let quiet = WriterProperties::builder().set_statistics_enabled(EnabledStatistics::None).build();
    let file = File::create(stage.dir.path().join("000.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(quiet)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();

    stage.config.datasets.push(("e".to_owned(), stage.config.datasets[0].1.clone()));
    stage.config.part_bytes = 64 << 10;
    stage.config.memory_bytes = 3 << 20;
    stage.config.patience = Duration::from_millis(20);
    let mut client = stage.client().await;
    let feed = r#"{"dataset":"d","batch_size":100,"shuffle":"rows","shuffle_bytes":200000}"#;
    let info = client.feed(feed).await.unwrap();
    let both = r#""mixture":[{"dataset":"d","weight":1},{"dataset":"e","weight":1}]"#;
    // A stream that runs alone goes on, of one dataset or of two whose windows are both too large.
    let (ranks, _) = client.epoch(feed).await;
    assert_eq!(sorted(&global(&ranks)), (0..20_000).collect::<Vec<_>>());
    let (ranks, _) = client.epoch(&feed.replace(r#""dataset":"d""#, both)).await;
    assert_eq!(sorted(&global(&ranks)), (0..40_000).map(|i| i / 2).collect::<Vec<_>>());
    // One that takes others' room is refused with the numbers.
    let mut other = client.reconnected().await;
    let small = other.feed(r#"{"dataset":"d","columns":["long"],"batch_size":10}"#).await.unwrap();
    let _stalled = other.open(&small).await.unwrap();
    let refused = client.read(info.endpoint[0].ticket.clone().unwrap()).await.unwrap_err();
    assert_eq!(refused.code, Code::Busy, "{refused}");
    assert!(refused.message.contains("where the footers told"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_leaves_hands_over_between_two_steps() {
    let mut stage = tight();
    let mut client = stage.client().await;
    let info = client.feed(r#"{"dataset":"d","batch_size":1000,"remainder":"keep"}"#).await.unwrap();
    let stream = client.open(&info).await.unwrap();
    let mut decoded = FlightDataDecoder::new(stream.map_err(FlightError::from));
    let mut ids = Vec::new();
    let mut moved = None;
    while let Some(data) = decoded.try_next().await.unwrap() {
        let DecodedPayload::RecordBatch(batch) = data.payload else { continue };
        match Note::from_json(&data.inner.app_metadata).unwrap() {
            Note::Part { .. } => ids.extend(batch.column(0).as_primitive::<Int64Type>().values().to_vec()),
            Note::Moved { step } => moved = Some(step),
            note @ Note::End { .. } => panic!("{note:?} of a stream cut short"),
        }
        stage.drain.begin();
    }
    let moved = moved.unwrap();
    assert_eq!(ids, (0..moved as i64 * 1000).collect::<Vec<_>>());
    stage.drain.finished(Duration::from_secs(30)).await.unwrap();

    // Another gateway goes on.
    stage.drain = Drain::new();
    let mut next = stage.client().await;
    let rest = format!(r#"{{"dataset":"d","batch_size":1000,"remainder":"keep","start_step":{moved}}}"#);
    let (ranks, _) = next.epoch(&rest).await;
    assert_eq!(global(&ranks).concat(), (moved as i64 * 1000..240_000).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_ended_by_its_ticket() {
    let stage = tight();
    let mut client = stage.client().await;
    let info = client.feed(r#"{"dataset":"d"}"#).await.unwrap();
    let mut stream = client.open(&info).await.unwrap();
    let request = CancelFlightInfoRequest::new(info).encode_to_vec();
    let mut cancel = async || {
        let action = Action::new("CancelFlightInfo", request.clone());
        let results: Vec<_> =
            client.0.do_action(action).await.unwrap().into_inner().try_collect().await.unwrap();
        CancelFlightInfoResult::decode(results[0].body.clone()).unwrap().status()
    };
    assert_eq!(cancel().await, CancelStatus::Cancelled);
    let status = loop {
        match stream.message().await {
            Ok(message) => assert!(message.is_some(), "cancelled, not ended"),
            Err(status) => break status,
        }
    };
    assert_eq!(Error::from(status).code, Code::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_page_is_named_by_file_row_group_and_column() {
    let stage = Stage::new(&[3_000, 3_000], 1_000);
    let path = stage.dir.path().join("001.parquet");
    let offset = {
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        reader.metadata().row_group(1).column(1).data_page_offset() as u64
    };
    let mut file = File::options().read(true).write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.write_all(&[0xff; 16]).unwrap();
    drop(file);

    let mut client = stage.client().await;
    let info = client.feed(r#"{"dataset":"d","batch_size":500}"#).await.unwrap();
    let error = client.read(info.endpoint[0].ticket.clone().unwrap()).await.unwrap_err();
    assert_eq!(error.code, Code::BadFile);
    for part in ["001.parquet", "row group 1", r#"column "text""#, "write the file again"] {
        assert!(error.message.contains(part), "{error}");
    }
    // Who does not ask for the column does not meet it.
    let (ranks, _) = client.epoch(r#"{"dataset":"d","columns":["id"],"batch_size":500}"#).await;
    assert_eq!(sorted(&global(&ranks)), (0..6_000).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn any_damaged_byte_is_an_error_or_other_rows_but_no_panic() {
    let stage = Stage::new(&[400], 100);
    let path = stage.dir.path().join("000.parquet");
    let mut bytes = Vec::new();
    File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
    for at in (4..bytes.len()).step_by(bytes.len() / 60) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x5a;
        std::fs::write(&path, damaged).unwrap();
        let drain = Drain::new();
        let Ok(bound) = Gateway::start(stage.config.clone(), &drain).await else { continue };
        let mut client = Client::connect(bound.address.unwrap()).await;
        let info = client.feed(r#"{"dataset":"d","batch_size":64,"shuffle":"rows"}"#).await.unwrap();
        if let Err(error) = client.read(info.endpoint[0].ticket.clone().unwrap()).await {
            assert!(error.code == Code::BadFile || error.code == Code::Unsupported, "{at}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_a_gateway_from_starting_is_said_in_a_line() {
    let stage = Stage::new(&[10], 10);
    let refusal = async |change: &dyn Fn(&mut Config)| {
        let mut config = stage.config.clone();
        change(&mut config);
        let error = Gateway::start(config, &Drain::new()).await.unwrap_err();
        Error::chain(Code::Internal, &error).message
    };
    let taken = Gateway::start(stage.config.clone(), &stage.drain).await.unwrap().address.unwrap();
    let told = refusal(&|config| config.listen = taken.to_string()).await;
    assert!(told.contains(&taken.to_string()) && told.contains("in use"), "{told}");
    let told = refusal(&|config| config.datasets[0].1 = "/nowhere/at/all".to_owned()).await;
    assert!(told.contains(r#"dataset "d""#) && told.contains("/nowhere/at/all"), "{told}");
    let told = refusal(&|config| config.datasets.clear()).await;
    assert!(told.contains("--dataset NAME=URI"), "{told}");
    let told = refusal(&|config| config.listen = "192.0.2.1:1".to_owned()).await;
    assert!(told.contains("one of this machine's"), "{told}");
}
