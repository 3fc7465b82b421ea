//! Against a peer that says byte for byte what it is told to.

use arrow_flight::FlightData;
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::wire::fields;
use crate::wire::frame::{self, HEAD_BYTES, Head, Kind, PREFACE, STREAM, flag};

const WINDOW: u32 = 200_000;
const TARGET: Target<'_> = Target { scheme: "http", authority: "h:1" };

/// The gateway's end of a connection.
struct Peer(TcpStream);

impl Peer {
    async fn say(&mut self, kind: Kind, flags: u8, stream: u32, payload: &[u8]) {
        let mut out = Vec::new();
        frame::write(&mut out, kind, flags, stream, payload);
        self.0.write_all(&out).await.unwrap();
    }

    async fn headers(&mut self, flags: u8, pairs: &[(&str, &str)]) {
        let mut block = Vec::new();
        pairs.iter().for_each(|(name, value)| fields::encode(&mut block, name, value));
        self.say(Kind::Headers, flags | flag::END_HEADERS, STREAM, &block).await;
    }

    async fn message(&mut self, id: u8, bytes: usize) {
        let metadata = vec![id].into();
        let data =
            FlightData { app_metadata: metadata, data_body: vec![id; bytes].into(), ..FlightData::default() };
        let data = data.encode_to_vec();
        let framed = [&[0][..], &(data.len() as u32).to_be_bytes(), &data].concat();
        for chunk in framed.chunks(16_000) {
            self.say(Kind::Data, 0, STREAM, chunk).await;
        }
    }

    /// Reads frames up to one of a kind.
    async fn hear(&mut self, kind: Kind) -> (Head, Vec<u8>) {
        loop {
            let mut head = [0; HEAD_BYTES];
            self.0.read_exact(&mut head).await.unwrap();
            let head = Head::read(head);
            let mut payload = vec![0; head.length as usize];
            self.0.read_exact(&mut payload).await.unwrap();
            if head.kind == kind {
                return (head, payload);
            }
        }
    }
}

/// A stream that has begun, and its peer.
async fn begun() -> (Download, Peer) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let socket = Socket::tcp(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap()).unwrap();
    let mut peer = Peer(listener.accept().await.unwrap().0);
    let rooms = Rooms::new(WINDOW, 1 << 20);
    let greet = async {
        let mut preface = vec![0; PREFACE.len()];
        peer.0.read_exact(&mut preface).await.unwrap();
        peer.hear(Kind::Data).await;
        peer.say(Kind::Settings, 0, 0, &[]).await;
        peer.headers(0, &[(":status", "200"), ("content-type", "application/grpc")]).await;
    };
    let (download, ()) = tokio::join!(Download::open(socket, TARGET, b"t", WINDOW, rooms), greet);
    (download.unwrap(), peer)
}

fn id(message: Option<Message>) -> u8 {
    message.unwrap().metadata[0]
}

#[tokio::test]
async fn a_stream_comes_to_its_end() {
    let (mut download, mut peer) = begun().await;
    let talk = async {
        peer.message(1, 100_000).await;
        peer.message(2, 0).await;
        peer.headers(flag::END_STREAM, &[("grpc-status", "0")]).await;
    };
    let read = async {
        assert_eq!(id(download.next().await.unwrap()), 1);
        assert_eq!(id(download.next().await.unwrap()), 2);
        assert!(download.next().await.unwrap().is_none());
        assert!(download.next().await.unwrap().is_none(), "again and again");
    };
    tokio::join!(talk, read);
}

#[tokio::test]
async fn a_refusal_is_the_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let socket = Socket::tcp(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap()).unwrap();
    let mut peer = Peer(listener.accept().await.unwrap().0);
    let refuse = async {
        peer.say(Kind::Settings, 0, 0, &[]).await;
        let said = [
            (":status", "200"),
            ("content-type", "application/grpc"),
            ("grpc-status", "16"),
            ("penstock-code", "TicketExpired"),
            ("grpc-message", "too%20old"),
        ];
        peer.headers(flag::END_STREAM, &said).await;
    };
    let rooms = Rooms::new(WINDOW, 1 << 20);
    let (opened, ()) = tokio::join!(Download::open(socket, TARGET, b"t", WINDOW, rooms), refuse);
    assert_eq!(opened.err(), Some(Error::new(Code::TicketExpired, "too old")));
}

#[tokio::test]
async fn who_waits_for_something_else_still_answers_and_allows_nothing_more() {
    let (mut download, mut peer) = begun().await;
    let talk = async {
        peer.message(1, 90_000).await;
        peer.message(2, 90_000).await;
        peer.say(Kind::Ping, 0, 0, b"are you?").await;
        let (head, payload) = peer.hear(Kind::Ping).await;
        assert!(head.has(flag::ACK));
        assert_eq!(payload, b"are you?");
    };
    tokio::select! {
        () = download.idle() => unreachable!("it never ends by itself"),
        () = talk => {}
    }
    assert_eq!(id(download.next().await.unwrap()), 1);
    assert_eq!(id(download.next().await.unwrap()), 2);
    let more = async {
        let (_, allowed) = peer.hear(Kind::WindowUpdate).await;
        let allowed = u32::from_be_bytes(allowed.try_into().unwrap());
        assert!((180_000..181_000).contains(&allowed), "{allowed}: both were taken");
        peer.message(3, 10).await;
    };
    let (read, ()) = tokio::join!(download.next(), more);
    assert_eq!(id(read.unwrap()), 3);
}

#[tokio::test]
async fn a_connection_that_breaks_while_nobody_reads_brings_first_what_came() {
    let (mut download, mut peer) = begun().await;
    let talk = async {
        peer.message(1, 5000).await;
        peer.say(Kind::Ping, 0, 0, &[0; 8]).await;
        peer.hear(Kind::Ping).await;
        drop(peer);
    };
    tokio::select! {
        () = download.idle() => unreachable!("it never ends by itself"),
        () = talk => {}
    }
    assert_eq!(id(download.next().await.unwrap()), 1);
    assert_eq!(download.next().await.unwrap_err().code, Code::Unreachable);
}

#[tokio::test]
async fn a_machine_that_vanished_is_noticed() {
    let (mut download, _peer) = begun().await;
    // From here on nothing moves but time.
    tokio::time::pause();
    let begun = Instant::now();
    let error = download.next().await.unwrap_err();
    assert!(error.message.contains("silent"), "{error}");
    assert!((2 * KEEP_ALIVE..4 * KEEP_ALIVE).contains(&begun.elapsed()), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_dropped_stream_closes_its_connection() {
    let (download, mut peer) = begun().await;
    drop(download);
    let mut rest = Vec::new();
    // Bytes on the way may make it a reset.
    let _ = peer.0.read_to_end(&mut rest).await;
}
