//! Requests that no client of ours sends.

use std::time::Duration;

use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::body::Body;
use tower_service::Service as _;

use super::super::listener::Accepted;
use super::super::prepared::Prepared;
use super::super::server;
use super::*;

const DO_GET: &str = "/arrow.flight.protocol.FlightService/DoGet";

/// Calls DoGet with any bytes for a body; returns gRPC's status, wherever it was said.
async fn do_get(channel: &mut Channel, address: SocketAddr, bytes: Vec<u8>) -> Option<String> {
    let request = Request::post(format!("http://{address}{DO_GET}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(Full::new(bytes.into()).map_err(|never| match never {})))
        .unwrap();
    std::future::poll_fn(|cx| channel.poll_ready(cx)).await.unwrap();
    let answer = channel.call(request).await.unwrap();
    let said = |headers: &HeaderMap| Some(headers.get("grpc-status")?.to_str().unwrap().to_owned());
    let in_headers = said(answer.headers());
    let body = answer.into_body().collect().await.unwrap();
    in_headers.or_else(|| said(body.trailers()?))
}

/// A gRPC message, as it should be framed.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u32).to_be_bytes();
    [&[0][..], &length, message].concat()
}

/// Any bytes, any message, and a ticket's message with bytes changed or cut off.
fn requests(ticket: &Ticket) -> impl Strategy<Value = Vec<u8>> + use<> {
    let message = framed(&prost::Message::encode_to_vec(ticket));
    let length = message.len();
    let changed = (Just(message.clone()), 0..length, 1u8..).prop_map(|(mut message, at, by)| {
        message[at] ^= by;
        message
    });
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..64),
        prop::collection::vec(any::<u8>(), 0..64).prop_map(|message| framed(&message)),
        changed,
        (0..length).prop_map(move |end| message[..end].to_vec()),
    ]
}

#[test]
fn whatever_asks_for_a_stream_is_answered_and_harms_nobody() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stage = Stage::new(&[100], 50);
    let (mut client, ticket) = runtime.block_on(async {
        let mut client = stage.client().await;
        let info = client.feed(r#"{"dataset":"d","remainder":"keep"}"#).await.unwrap();
        (client, info.endpoint[0].ticket.clone().unwrap())
    });
    let address = client.1;
    let channel = runtime
        .block_on(async { Channel::from_shared(format!("http://{address}")).unwrap().connect().await });
    let channel = channel.unwrap();
    let whole = framed(&prost::Message::encode_to_vec(&ticket));
    let served = runtime.block_on(do_get(&mut channel.clone(), address, whole));
    assert_eq!(served.as_deref(), Some("0"));
    proptest!(ProptestConfig::with_cases(300), |(bytes in requests(&ticket))| {
        let status = runtime.block_on(do_get(&mut channel.clone(), address, bytes));
        // Unknown fields are skipped, so a message may be another and its ticket the same.
        prop_assert!(status.is_some(), "no status");
    });
    let batches = runtime.block_on(client.read(ticket)).unwrap();
    assert_eq!(batches.iter().map(|(_, batch)| batch.num_rows()).sum::<usize>(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_speaks_no_http2_is_hung_up_on() {
    let stage = Stage::new(&[100], 50);
    let mut client = stage.client().await;
    for said in
        [&b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"[..], &[0; 64], &[0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3]]
    {
        let mut stranger = TcpStream::connect(client.1).await.unwrap();
        stranger.write_all(said).await.unwrap();
        let mut heard = Vec::new();
        // Closed, or torn off with bytes unread.
        let _torn = stranger.read_to_end(&mut heard).await;
        assert!(heard.len() < 1_000);
    }
    assert!(client.feed(r#"{"dataset":"d"}"#).await.is_ok());
}

#[tokio::test]
async fn whoever_asks_nothing_is_not_kept() {
    let (mut silent, socket) = tokio::io::duplex(64 << 10);
    let drain = Drain::new();
    let prepared = Prepared { batches: Vec::new().into(), times: 0, drain: drain.clone() };
    let accepted = Accepted::plain(socket, Peer::default());
    let served = tokio::spawn(server::connection(accepted, prepared, drain, Duration::from_millis(10)));
    // The beginning of HTTP/2, and no more.
    silent.write_all(b"PRI * HTTP").await.unwrap();
    served.await.unwrap();
}
