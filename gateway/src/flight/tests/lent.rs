//! Streams that are lent, to readers that speak by hand.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use arrow_flight::{CancelFlightInfoRequest, FlightData};
use penstock_proto::loan::{self, HEAD_BYTES, Head, Word};
use penstock_ring::Borrowed;
use prost::Message as _;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;

use super::faults::tight;
use super::*;

const FEED: &str = r#"{"dataset":"d","batch_size":1000,"remainder":"keep"}"#;

/// A gateway with a socket, and a client that asks it over the port.
async fn beside(mut stage: Stage) -> (Stage, Client) {
    stage.config.unix_socket = Some(stage.dir.path().join("s"));
    let client = stage.client().await;
    (stage, client)
}

struct Borrower {
    stream: UnixStream,
    memory: Borrowed,
}

/// A message, and where its body lies if that is lent.
struct Said {
    data: FlightData,
    place: Option<u64>,
}

impl Borrower {
    async fn new(stage: &Stage, info: &FlightInfo) -> Result<Self, Error> {
        let ticket = info.endpoint[0].ticket.clone().unwrap();
        let mut stream = connected(stage).await;
        stream.write_all(&loan::greet(&ticket.ticket)).await.unwrap();
        let mut head = [0; HEAD_BYTES];
        let mut receive = || -> io::Result<(usize, Option<OwnedFd>)> {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut into = [IoSliceMut::new(&mut head)];
            let received = recvmsg(&stream, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
            let descriptor = control.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
                _ => None,
            });
            Ok((received.bytes, descriptor))
        };
        let (count, descriptor) = stream.async_io(Interest::READABLE, &mut receive).await.unwrap();
        assert_eq!(count, HEAD_BYTES);
        match Head::decode(&head).unwrap() {
            Head::Memory { bytes } => {
                let memory = Borrowed::new(descriptor.unwrap().as_fd(), bytes).unwrap();
                Ok(Self { stream, memory })
            }
            Head::Failed { bytes } => Err(failure(&mut stream, bytes).await),
            head => panic!("{head:?} to begin with"),
        }
    }

    /// The next message; `None` at the end.
    async fn next(&mut self) -> Result<Option<Said>, Error> {
        let mut head = [0; HEAD_BYTES];
        self.stream.read_exact(&mut head).await.unwrap();
        let (header, note, body, place) = match Head::decode(&head).unwrap() {
            Head::Message { header, note, body, place } => (header, note, body as usize, place),
            Head::Complete => return Ok(None),
            Head::Failed { bytes } => return Err(failure(&mut self.stream, bytes).await),
            Head::Memory { .. } => panic!("memory twice"),
        };
        let mut data = FlightData {
            data_header: read(&mut self.stream, header as usize).await.into(),
            app_metadata: read(&mut self.stream, note as usize).await.into(),
            ..FlightData::default()
        };
        data.data_body = match place {
            Some(place) => self.body(place, body).to_vec().into(),
            None => read(&mut self.stream, body).await.into(),
        };
        Ok(Some(Said { data, place }))
    }

    fn body(&self, place: u64, bytes: usize) -> &[u8] {
        self.memory.bytes(place as usize..place as usize + bytes).unwrap()
    }

    async fn say(&mut self, word: Word) {
        // A gateway that has said all may have left.
        let _unheard = self.stream.write_all(&word.encode()).await;
    }

    /// Reads to the end, and holds nothing.
    async fn read(mut self) -> Result<Batches, Error> {
        let mut all = Vec::new();
        while let Some(said) = self.next().await? {
            if let Some(place) = said.place {
                self.say(Word::Free { place }).await;
            }
            all.push(said.data);
        }
        Ok(decoded(all).await)
    }
}

async fn connected(stage: &Stage) -> UnixStream {
    UnixStream::connect(stage.config.unix_socket.as_ref().unwrap()).await.unwrap()
}

async fn read(stream: &mut UnixStream, bytes: usize) -> Vec<u8> {
    let mut read = vec![0; bytes];
    stream.read_exact(&mut read).await.unwrap();
    read
}

async fn failure(stream: &mut UnixStream, bytes: u32) -> Error {
    loan::read_error(&read(stream, bytes as usize).await)
}

async fn decoded(all: Vec<FlightData>) -> Batches {
    let all = futures::stream::iter(all.into_iter().map(Ok::<_, FlightError>));
    let batches = FlightDataDecoder::new(all).try_filter_map(async |decoded| {
        Ok(match decoded.payload {
            DecodedPayload::RecordBatch(batch) => {
                Some((Note::from_json(&decoded.inner.app_metadata).unwrap(), batch))
            }
            DecodedPayload::Schema(_) | DecodedPayload::None => None,
        })
    });
    batches.try_collect().await.unwrap()
}

/// The ids of batches in order, whether or not they are all.
fn ids(batches: &Batches) -> Vec<i64> {
    let of = |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
    batches.iter().flat_map(|(_, batch)| of(batch)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lent_is_what_is_sent() {
    let (stage, mut client) = beside(Stage::new(&[7_000, 1, 20_000], 3_000)).await;
    let feed = r#"{"dataset":"d","batch_size":480,"shuffle":"rows","remainder":"pad","seed":5}"#;
    let info = client.feed(feed).await.unwrap();
    let told: Vec<_> = info.endpoint[0].location.iter().map(|location| location.uri.as_str()).collect();
    let path = stage.config.unix_socket.as_ref().unwrap().display().to_string();
    assert_eq!(told[1..], [format!("grpc+unix://{path}"), format!("penstock+memfd://{path}")]);
    let sent = client.read(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    let lent = Borrower::new(&stage, &info).await.unwrap().read().await.unwrap();
    assert_eq!(lent, sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_is_not_written_and_a_reader_that_holds_all_is_not_waited_for() {
    let (stage, mut client) = beside(with_room(tight())).await;
    let info = client.feed(FEED).await.unwrap();
    let mut borrower = Borrower::new(&stage, &info).await.unwrap();
    let (mut all, mut held, mut inline) = (Vec::new(), Vec::new(), 0);
    loop {
        borrower.say(Word::Hungry).await;
        let Some(said) = borrower.next().await.unwrap() else { break };
        match said.place {
            Some(place) => held.push((place, said.data.data_body.clone())),
            None => inline += usize::from(!said.data.data_body.is_empty()),
        }
        all.push(said.data);
        // Twice in the stream, all is given back.
        if all.len() % 100 == 0 {
            for (place, body) in held.drain(..) {
                assert!(borrower.body(place, body.len()) == body, "it was written while it was held");
                borrower.say(Word::Free { place }).await;
            }
        }
    }
    assert!(inline > 0, "the memory was never full");
    assert!(!held.is_empty(), "what was given back was not lent again");
    assert_eq!(ids(&decoded(all).await), (0..240_000).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_many_parts_has_its_place_until_it_is_whole() {
    let mut stage = Stage::new(&[60_000, 60_000], 5_000);
    stage.config.part_bytes = 16 << 10;
    let (stage, mut client) = beside(stage).await;
    let feed = r#"{"dataset":"d","batch_size":40000,"remainder":"keep","shuffle":"rows","seed":3}"#;
    let info = client.feed(feed).await.unwrap();
    let mut borrower = Borrower::new(&stage, &info).await.unwrap();
    let (mut all, mut held) = (Vec::new(), Vec::new());
    while let Some(said) = borrower.next().await.unwrap() {
        assert!(said.place.is_some() || said.data.data_body.is_empty(), "it came by the socket");
        held.extend(said.place);
        // Of the schema there is none.
        let note = Note::from_json(&said.data.app_metadata);
        if matches!(note, Ok(Note::Part { part, parts, .. }) if part + 1 == parts) {
            for place in held.drain(..) {
                borrower.say(Word::Free { place }).await;
            }
        }
        all.push(said.data);
    }
    let mut fed = ids(&decoded(all).await);
    fed.sort_unstable();
    assert_eq!(fed, (0..120_000).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_talks_nonsense_is_hung_up_on_and_hurts_nobody() {
    let (stage, mut client) = beside(Stage::new(&[2_000], 1_000)).await;
    let info = client.feed(FEED).await.unwrap();
    let mut borrower = Borrower::new(&stage, &info).await.unwrap();
    borrower.say(Word::Free { place: 64 }).await;
    borrower.say(Word::Free { place: 64 }).await;
    hung_up(borrower.stream).await;
    for greeting in [&b"lend/2\r\n\0\0\0\0"[..], b"lend/1\r\n\xff\xff\xff\xff", b"l", b""] {
        let mut stream = connected(&stage).await;
        stream.write_all(greeting).await.unwrap();
        stream.shutdown().await.unwrap();
        hung_up(stream).await;
    }
    let mut forged = info.clone();
    forged.endpoint[0].ticket = Some(Ticket::new("made up"));
    let Err(error) = Borrower::new(&stage, &forged).await else { panic!("anything was taken for a ticket") };
    assert_eq!(error.code, Code::BadTicket);
    let lent = Borrower::new(&stage, &info).await.unwrap().read().await.unwrap();
    assert_eq!(ids(&lent), (0..2_000).collect::<Vec<_>>());
}

/// Reads what still comes, up to the end.
async fn hung_up(mut stream: UnixStream) {
    match stream.read_to_end(&mut Vec::new()).await {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
    }
}

/// Memory for a stream that is lent, and not for many.
fn with_room(mut stage: Stage) -> Stage {
    stage.config.memory_bytes = 2 << 20;
    stage
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_comes_back_from_readers_that_die() {
    let mut stage = with_room(tight());
    stage.config.patience = Duration::from_millis(20);
    let (stage, mut client) = beside(stage).await;
    let info = client.feed(FEED).await.unwrap();
    let mut held = Vec::new();
    let refused = loop {
        match Borrower::new(&stage, &info).await {
            Ok(borrower) => held.push(borrower),
            Err(error) => break error,
        }
    };
    assert!(!held.is_empty() && refused.code == Code::Busy, "{refused}");
    drop(held);
    let again = async {
        loop {
            match Borrower::new(&stage, &info).await {
                Ok(borrower) => break borrower,
                Err(error) => assert_eq!(error.code, Code::Busy),
            }
        }
    };
    let lent = tokio::time::timeout(Duration::from_secs(60), again).await.unwrap().read().await.unwrap();
    assert_eq!(ids(&lent), (0..240_000).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_leaves_does_not_wait_for_what_it_lent() {
    let (stage, mut client) = beside(with_room(tight())).await;
    let info = client.feed(FEED).await.unwrap();
    let mut borrower = Borrower::new(&stage, &info).await.unwrap();
    let (mut all, mut held) = (Vec::new(), Vec::new());
    while let Some(said) = borrower.next().await.unwrap() {
        stage.drain.begin();
        match said.place {
            Some(place) if held.is_empty() => held.push((place, said.data.data_body.clone())),
            Some(place) => borrower.say(Word::Free { place }).await,
            None => {}
        }
        all.push(said.data);
    }
    let batches = decoded(all).await;
    let Some((Note::Moved { step }, _)) = batches.last() else { panic!("it did not hand over") };
    assert_eq!(ids(&batches), (0..*step as i64 * 1000).collect::<Vec<_>>());
    stage.drain.finished(Duration::from_secs(30)).await.unwrap();
    let (place, body) = &held[0];
    assert!(borrower.body(*place, body.len()) == body, "it is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_lent_is_ended_by_its_ticket() {
    let (stage, mut client) = beside(with_room(tight())).await;
    let info = client.feed(FEED).await.unwrap();
    let mut borrower = Borrower::new(&stage, &info).await.unwrap();
    let request = CancelFlightInfoRequest::new(info).encode_to_vec();
    client.0.do_action(Action::new("CancelFlightInfo", request)).await.unwrap();
    let error = loop {
        // Hungry, so that nothing waits for what is held.
        borrower.say(Word::Hungry).await;
        match borrower.next().await {
            Ok(said) => assert!(said.is_some(), "cancelled, not ended"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code, Code::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_wants_no_more_ends_the_stream_behind_it() {
    let (stage, mut client) = beside(with_room(tight())).await;
    let info = client.feed(FEED).await.unwrap();
    let mut borrower = Borrower::new(&stage, &info).await.unwrap();
    borrower.say(Word::Enough).await;
    let ended = async {
        loop {
            let action = client.0.do_action(Action::new("health", "")).await.unwrap().into_inner();
            let body = action.try_collect::<Vec<_>>().await.unwrap().remove(0).body;
            let health: serde_json::Value = serde_json::from_slice(&body).unwrap();
            if health["streams"] == 0 {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ended).await.unwrap();
    drop(borrower);
}
