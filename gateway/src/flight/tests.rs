//! Stories of readers and a gateway on the loopback, in one process.

mod cached;
mod codes;
mod compressed;
mod copies;
mod dropped;
mod faults;
mod filters;
mod fleet;
mod foreign;
mod lent;
mod memory;
mod mixtures;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, Int64Array, StringArray};
use arrow::datatypes::Int64Type;
use arrow::record_batch::RecordBatch;
use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{Action, FlightData, FlightDescriptor, FlightInfo, Ticket};
use futures::TryStreamExt as _;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use penstock_daemon::Drain;
use penstock_proto::delivery::{self, Report, Standing, Tally};
use penstock_proto::{Code, Effort, Error, FeedInfo, Note, TicketKey};
use tonic::transport::Channel;

use super::*;

/// A directory of files of ids and of texts as long as the id's last digit tells.
fn write(dir: &Path, files: &[i64], row_group: usize) {
    write_from(0, dir, files, row_group);
}

/// The same with ids from a first one on.
fn write_from(mut first: i64, dir: &Path, files: &[i64], row_group: usize) {
    for (index, &rows) in files.iter().enumerate() {
        let ids: Vec<i64> = (first..first + rows).collect();
        let texts = ids.iter().map(|id| "x".repeat((id % 10) as usize * 7));
        let columns: [(&str, ArrayRef); 2] = [
            ("id", Arc::new(Int64Array::from(ids.clone()))),
            ("text", Arc::new(StringArray::from_iter_values(texts))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(row_group)).build();
        let file = File::create(dir.join(format!("{index:03}.parquet"))).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        first += rows;
    }
}

struct Stage {
    dir: tempfile::TempDir,
    drain: Drain,
    config: Config,
}

impl Stage {
    fn new(files: &[i64], row_group: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), files, row_group);
        let mut config = Config::new("127.0.0.1:0");
        config.datasets = vec![("d".to_owned(), dir.path().to_str().unwrap().to_owned())];
        Self { dir, drain: Drain::new(), config }
    }

    async fn client(&self) -> Client {
        let bound = Gateway::start(self.config.clone(), &self.drain).await.unwrap();
        Client::connect(bound.address.unwrap()).await
    }
}

#[derive(Clone)]
struct Client(FlightServiceClient<Channel>, SocketAddr);

type Batches = Vec<(Note, RecordBatch)>;

impl Client {
    async fn connect(address: SocketAddr) -> Self {
        let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        Self(FlightServiceClient::new(channel).max_decoding_message_size(usize::MAX), address)
    }

    /// The same gateway over a connection of its own.
    async fn reconnected(&self) -> Self {
        Self::connect(self.1).await
    }

    async fn info(&mut self, descriptor: FlightDescriptor) -> Result<FlightInfo, Error> {
        Ok(self.0.get_flight_info(descriptor).await?.into_inner())
    }

    async fn feed(&mut self, json: &str) -> Result<FlightInfo, Error> {
        self.info(FlightDescriptor::new_cmd(json.to_owned())).await
    }

    async fn read(&mut self, ticket: Ticket) -> Result<Batches, Error> {
        let stream = self.0.do_get(ticket).await?.into_inner().map_err(FlightError::from);
        let read = FlightDataDecoder::new(stream).try_filter_map(async |decoded| {
            Ok(match decoded.payload {
                DecodedPayload::RecordBatch(batch) => {
                    Some((Note::from_json(&decoded.inner.app_metadata).unwrap(), batch))
                }
                DecodedPayload::Schema(_) | DecodedPayload::None => None,
            })
        });
        read.try_collect().await.map_err(|error| match error {
            FlightError::Tonic(status) => Error::from(*status),
            other => panic!("{other}"),
        })
    }

    /// Reads every endpoint: for every rank, the ids of every step; and what it was told.
    async fn epoch(&mut self, json: &str) -> (Vec<BTreeMap<u64, Vec<i64>>>, FeedInfo) {
        let info = self.feed(json).await.unwrap();
        let told = FeedInfo::from_json(&info.app_metadata).unwrap();
        let mut ranks = Vec::new();
        let mut rows = 0;
        for endpoint in info.endpoint {
            let batches = self.read(endpoint.ticket.unwrap()).await.unwrap();
            rows += batches.iter().map(|(_, batch)| batch.num_rows()).sum::<usize>();
            ranks.push(steps(&batches, told.steps));
        }
        assert_eq!(info.total_records, rows as i64);
        (ranks, told)
    }
}

/// The ids of every step, after checking that parts are in order and the end is said.
fn steps(batches: &Batches, total: u64) -> BTreeMap<u64, Vec<i64>> {
    let ((end, empty), parts) = batches.split_last().unwrap();
    assert_eq!((*end, empty.num_rows()), (Note::End { steps: total }, 0));
    let mut steps: BTreeMap<u64, Vec<i64>> = BTreeMap::new();
    let mut expected = None;
    for (note, batch) in parts {
        let Note::Part { step, part, parts, .. } = *note else { panic!("{note:?} amid a stream") };
        assert!(part < parts && expected.is_none_or(|expected| expected == (step, part)), "{note:?}");
        expected = Some(if part + 1 == parts { (step + 1, 0) } else { (step, part + 1) });
        let ids = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>();
        if let Some(texts) = batch.column_by_name("text") {
            let lengths = texts.as_string::<i32>().iter().map(|text| text.unwrap().len() as i64);
            assert!(lengths.eq(ids.values().iter().map(|id| id % 10 * 7)));
        }
        steps.entry(step).or_default().extend(ids.values());
    }
    steps
}

/// How many parts each step has.
fn parts(batches: &Batches) -> BTreeMap<u64, u32> {
    let mut parts = BTreeMap::new();
    for (note, _) in batches {
        if let Note::Part { step, .. } = note {
            *parts.entry(*step).or_default() += 1;
        }
    }
    parts
}

/// Joins the ranks' shares of every step.
fn global(ranks: &[BTreeMap<u64, Vec<i64>>]) -> Vec<Vec<i64>> {
    let mut all: BTreeMap<u64, Vec<i64>> = BTreeMap::new();
    for rank in ranks {
        assert!(rank.keys().eq(ranks[0].keys()), "ranks differ in their steps");
        for (step, ids) in rank {
            all.entry(*step).or_default().extend(ids);
        }
    }
    all.into_values().collect()
}

fn sorted(batches: &[Vec<i64>]) -> Vec<i64> {
    let mut ids = batches.concat();
    ids.sort_unstable();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn large_shares_of_lanes_go_as_they_lie_and_small_ones_together() {
    const LANES: u32 = 4;
    let stage = Stage::new(&[20_000, 20_000, 20_000], 5000);
    let mut client = stage.client().await;
    for (batch_size, expected) in [(1024, 1), (10_000, LANES)] {
        let json = format!(
            r#"{{"dataset":"d","shuffle":"blocks","seed":3,"lanes":{LANES},"batch_size":{batch_size}}}"#
        );
        let info = client.feed(&json).await.unwrap();
        let told = FeedInfo::from_json(&info.app_metadata).unwrap();
        let batches = client.read(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
        // The order is that of one message a step.
        let ids = sorted(&global(&[steps(&batches, told.steps)]));
        assert_eq!(ids.len() as u64, told.steps * batch_size);
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "a row comes twice");
        // A share that crosses blocks is of more slices, which may be small.
        let parts = parts(&batches);
        let alike = parts.values().filter(|&&parts| parts == expected).count();
        assert!(2 * alike > parts.len(), "{parts:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_reads_all_rows_in_file_order() {
    let stage = Stage::new(&[700, 1, 2_000], 300);
    let mut client = stage.client().await;
    let info = client.info(FlightDescriptor::new_path(vec!["d".to_owned()])).await.unwrap();
    assert_eq!((info.total_records, info.endpoint.len(), info.ordered), (2_701, 1, true));
    let told = FeedInfo::from_json(&info.app_metadata).unwrap();
    let batches = client.read(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    let ids: Vec<i64> = steps(&batches, told.steps).into_values().flatten().collect();
    assert_eq!(ids, (0..2_701).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_world_gets_the_same_batches_and_every_row_once() {
    let stage = Stage::new(&[700, 1, 1_300], 90);
    let mut client = stage.client().await;
    for shuffle in ["none", "blocks", "rows"] {
        for (remainder, lanes) in [("drop", None), ("keep", Some(1)), ("pad", Some(3)), ("pad", None)] {
            if shuffle == "none" && lanes.is_some_and(|lanes| lanes > 1) {
                continue;
            }
            let lanes = lanes.map_or(String::new(), |lanes: u32| format!(r#","lanes":{lanes}"#));
            // Windows of a few dozen rows, so that they end inside steps.
            let feed = format!(
                r#"{{"dataset":"d","batch_size":48,"shuffle":"{shuffle}","remainder":"{remainder}","seed":5,
                    "shuffle_bytes":9000{lanes}"#
            );
            let (alone, told) = client.epoch(&format!("{feed}}}")).await;
            let batches = global(&alone);
            let whole = 2_001 / 48 * 48;
            match remainder {
                "keep" => assert_eq!(sorted(&batches), (0..2_001).collect::<Vec<_>>(), "{feed}"),
                _ => {
                    let mut ids = sorted(&batches[..whole / 48]);
                    let before = ids.len();
                    ids.dedup();
                    assert_eq!((ids.len(), before), (whole, whole), "{feed}");
                }
            }
            assert_eq!(told.dropped, if remainder == "drop" { 2_001 - whole as u64 } else { 0 });
            for world in [2, 5, 48] {
                let (ranks, _) = client.epoch(&format!(r#"{feed},"world_size":{world}}}"#)).await;
                assert_eq!(global(&ranks), batches, "{feed} {world}");
            }
            for start in [1, 17, told.steps - 1, told.steps] {
                let rest = format!(r#"{feed},"world_size":3,"start_step":{start}}}"#);
                let (ranks, _) = client.epoch(&rest).await;
                assert_eq!(global(&ranks), batches[start as usize..], "{rest}");
            }
            if shuffle != "none" {
                let (other, _) = client.epoch(&format!(r#"{feed},"epoch":1}}"#)).await;
                assert_ne!(global(&other), batches);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_rows_are_waited_for_and_say_so() {
    let stage = Stage::new(&[50], 50);
    let mut client = stage.client().await;
    let info = client.feed(r#"{"dataset":"d","batch_size":10}"#).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let sent: Vec<FlightData> =
        client.0.do_get(ticket).await.unwrap().into_inner().try_collect().await.unwrap();
    let notes = sent.iter().map(|data| &data.app_metadata).filter(|note| !note.is_empty());
    let efforts: Vec<_> = notes.map(|note| Note::from_json_with_effort(note).unwrap().1).collect();
    assert!(!efforts[0].total().is_zero(), "{efforts:?}");
    assert_eq!(efforts.last(), Some(&Effort::default()), "an end costs nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn padding_is_told_apart() {
    let stage = Stage::new(&[50], 50);
    let mut client = stage.client().await;
    let feed =
        r#"{"dataset":"d","columns":["id"],"batch_size":48,"remainder":"pad","world_size":4,"rank":0}"#;
    let info = client.feed(feed).await.unwrap();
    let batches = client.read(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    let (note, last) = &batches[1];
    assert_eq!(*note, Note::Part { epoch: 0, step: 1, part: 0, parts: 1 });
    let ids = last.column(0).as_primitive::<Int64Type>();
    assert_eq!(&ids.values()[..4], [48, 49, 48, 49]);
    let valid: Vec<bool> = last.column(1).as_boolean().values().iter().collect();
    assert_eq!(valid, [[true; 2].as_slice(), &[false; 10]].concat());
    assert_eq!(info.try_decode_schema().unwrap(), *last.schema());
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_say_what_to_do() {
    let stage = Stage::new(&[100], 50);
    let mut client = stage.client().await;
    for (feed, code, text) in [
        (r#"{"dataset":"e"}"#, Code::UnknownDataset, r#"there is "d""#),
        (r#"{"dataset":"d","columns":["txet"]}"#, Code::UnknownColumn, r#"did you mean "text""#),
        (
            r#"{"dataset":"d","batch_size":2,"world_size":3}"#,
            Code::InvalidFeed,
            "raise batch_size to at least 3",
        ),
        (r#"{"dataset":"d","world_size":2,"rank":2}"#, Code::InvalidFeed, "ranks count from 0"),
        (r#"{"dataset":"d","batch_size":10,"start_step":11}"#, Code::InvalidFeed, "has 10 steps"),
        (
            r#"{"dataset":"d","filter":"idd > 3"}"#,
            Code::UnknownColumn,
            r#"filter "idd > 3": at letter 1: the dataset has no column "idd", did you mean "id"?"#,
        ),
        (r#"{"dataset":"d","filter":"id + 3"}"#, Code::InvalidFeed, "not a condition"),
        (r#"{"dataset":"d","select":["id","text AS id"]}"#, Code::InvalidFeed, "asked for twice"),
        (r#"{"dataset":"d","select":["id + 1"]}"#, Code::InvalidFeed, "id + 1 AS NAME"),
        (
            r#"{"dataset":"d","batch_size":1099511627776,"remainder":"pad"}"#,
            Code::InvalidFeed,
            "lower batch_size",
        ),
        (r#"{"dataset":"d","delivery":"dynamic"}"#, Code::Unsupported, "delivery"),
        (r#"{"dataset":"d","lanes":2}"#, Code::InvalidFeed, "shuffle"),
        (r#"{"dataset":"d","snapshot":"abc"}"#, Code::SnapshotGone, "without a snapshot"),
        (r#"{"dataset":"d""#, Code::InvalidFeed, "JSON"),
    ] {
        let error = client.feed(feed).await.unwrap_err();
        assert_eq!(error.code, code, "{feed}");
        assert!(error.message.contains(text) && !error.message.contains('\n'), "{feed}: {error}");
    }
    let path = FlightDescriptor::new_path(vec!["d".to_owned(), "x".to_owned()]);
    assert!(client.info(path).await.unwrap_err().message.contains("2 parts"));
    let forged = client.read(Ticket::new("made up")).await.unwrap_err();
    assert_eq!(forged.code, Code::BadTicket);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_shares_tickets_and_tells_all_its_addresses() {
    let mut stage = Stage::new(&[100], 50);
    stage.config.ticket_key = TicketKey::from_secret(b"a secret that is shared by a fleet");
    stage.config.fleet = vec!["127.0.0.1:1".to_owned()];
    let (mut one, mut other) = (stage.client().await, stage.client().await);
    let info = one.feed(r#"{"dataset":"d","world_size":2}"#).await.unwrap();
    let told: Vec<_> =
        info.endpoint.iter().map(|e| e.location.iter().map(|l| l.uri.as_str()).collect()).collect();
    let [first, second]: [Vec<&str>; 2] = told.try_into().unwrap();
    assert_eq!((first.len(), first[1]), (2, "grpc://127.0.0.1:1"));
    assert_eq!((second[0], second[1]), (first[1], first[0]));
    let ticket = info.endpoint[1].ticket.clone().unwrap();
    assert_eq!(one.read(ticket.clone()).await.unwrap(), other.read(ticket).await.unwrap());

    let mut stranger = Stage::new(&[100], 50).client().await;
    let ticket = one.feed(r#"{"dataset":"d"}"#).await.unwrap().endpoint[0].ticket.clone().unwrap();
    assert_eq!(stranger.read(ticket).await.unwrap_err().code, Code::BadTicket);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_files_are_another_snapshot_and_the_old_one_goes_on() {
    let stage = Stage::new(&[100], 50);
    let mut client = stage.client().await;
    let old = client.feed(r#"{"dataset":"d","remainder":"keep"}"#).await.unwrap();
    write(stage.dir.path(), &[100, 50], 50);
    // The first file was written again, so even its rows are another version.
    let error = client.read(old.endpoint[0].ticket.clone().unwrap()).await.unwrap_err();
    assert_eq!(error.code, Code::SnapshotGone, "{error}");
    assert!(error.message.contains("000.parquet"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_tell_health_and_end_streams() {
    let stage = Stage::new(&[100], 50);
    let mut client = stage.client().await;
    let mut act = async |name: &str| {
        let action = Action::new(name, "");
        let results = client.0.do_action(action).await.map_err(Error::from)?.into_inner();
        Ok::<_, Error>(results.try_collect::<Vec<_>>().await.unwrap().remove(0).body)
    };
    let health: serde_json::Value = serde_json::from_slice(&act("health").await.unwrap()).unwrap();
    assert_eq!(health, serde_json::json!({"status": "serving", "datasets": ["d"], "streams": 0}));
    let unknown = act("dance").await.unwrap_err();
    assert!(unknown.message.contains("CancelFlightInfo"), "{unknown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_learn_from_the_gateway_how_far_all_are() {
    let stage = Stage::new(&[100], 50);
    let mut client = stage.client().await;
    let mut report = async |world_size: u32, rank: u32, acknowledged: u64| {
        let tally = Tally { acknowledged, steps: 2 };
        let report = Report { delivery: "epoch 0".into(), world_size, rank, tally };
        let action = Action::new(delivery::ACTION, serde_json::to_vec(&report).unwrap());
        let results = client.0.do_action(action).await.map_err(Error::from)?.into_inner();
        let body = results.try_collect::<Vec<_>>().await.unwrap().remove(0).body;
        Ok::<Standing, Error>(serde_json::from_slice(&body).unwrap())
    };
    assert_eq!(report(2, 0, 2).await.unwrap().laggards(), "rank 1 (never heard of)");
    assert_eq!(report(2, 1, 1).await.unwrap().laggards(), "rank 1 (1 of 2 steps acknowledged)");
    assert!(report(2, 1, 2).await.unwrap().is_complete());
    assert!(report(2, 0, 0).await.unwrap().is_complete(), "a rank never falls back");
    assert_eq!(report(3, 0, 2).await.unwrap_err().code, Code::InvalidFeed);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_after_files_have_changed_gets_them_as_they_are() {
    let stage = Stage::new(&[20], 10);
    let mut client = stage.client().await;
    let command = r#"{"dataset":"d","batch_size":10,"shuffle":"none"}"#;
    for change in 1..4i64 {
        let (ranks, told) = client.epoch(command).await;
        assert_eq!((ranks.len(), told.rows), (1, 20 * change as u64));
        // At once: one file more, and the first one written again.
        write_from(1_000 * change, stage.dir.path(), &vec![20; change as usize + 1], 10);
    }
    let (ranks, _) = client.epoch(command).await;
    assert_eq!(
        ranks[0].values().flatten().copied().collect::<Vec<_>>(),
        (3_000..3_080).collect::<Vec<i64>>()
    );
}
