use arrow::array::AsArray as _;
use arrow::datatypes::Int64Type;
use penstock_proto::{FeedCommand, SnapshotId};
use prost::Message as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;

use super::*;
use crate::TlsConfig;
use crate::batcher::{Joiner, Meter, Rows, Step};
use crate::fake::{Fake, Fault, Script, deadlines, link};
use crate::subscribe::{Address, Trust};
use crate::wire::Rooms;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

fn request(start_step: u64) -> FeedRequest {
    let command = FeedCommand {
        dataset: "d".into(),
        rank: Some(0),
        epoch: Some(3),
        start_step: Some(start_step),
        ..FeedCommand::default()
    };
    FeedRequest { snapshot: Some(SnapshotId::new("5a")), ..FeedRequest::resolve(&command).unwrap() }
}

fn rooms() -> Rooms {
    Rooms::new(link().window, u64::MAX)
}

fn stream(fake: &Fake, known: Vec<Address>, start_step: u64) -> Stream {
    let gateways = Gateways::new(known, deadlines().give_up).unwrap();
    Stream::new(link(), gateways, Fake::schema(), fake.steps, request(start_step), None, rooms())
}

/// Steps and their ids, as the batcher joins them.
async fn steps(mut stream: Stream, fake: &Fake) -> Result<Vec<(u64, Vec<i64>)>, Error> {
    let meter = Meter::new(u64::MAX);
    let rows = Rows { per_step: fake.rows * u64::from(fake.parts), short: None };
    let mut joiner = Joiner::new(3, rows);
    let mut steps = Vec::new();
    while let Some(part) = stream.next().await? {
        let held = meter.hold(part.bytes);
        steps.extend(joiner.add(part, held)?.map(|step| (step.step, ids(&step))));
    }
    Ok(steps)
}

fn ids(step: &Step) -> Vec<i64> {
    step.parts.iter().flat_map(|part| part.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

/// Reads from `start_step` through what `script` does, and expects every step once and in order.
async fn check(script: Script, start_step: u64) {
    let fake = Fake::new(3, 2, 2).scripted(script.clone());
    // Two doors of one gateway: only a full round costs a pause.
    let known = vec![fake.serve().await, fake.serve().await];
    let read = steps(stream(&fake, known, start_step), &fake).await.unwrap();
    let expected: Vec<_> = (start_step..3).map(|step| (step, fake.ids(step))).collect();
    assert_eq!(read, expected, "{script:?}");
}

#[tokio::test]
async fn an_undisturbed_stream_brings_every_step_from_its_start() {
    for start_step in 0..=3 {
        check(vec![], start_step).await;
    }
}

#[tokio::test]
async fn whatever_breaks_wherever_no_row_is_repeated_or_skipped() {
    let faults = [
        Fault::Break,
        Fault::EndUnsaid,
        Fault::Gap,
        Fault::Repeat,
        Fault::Moved,
        Fault::EndEarly,
        Fault::Garbage,
        Fault::Refuse(Code::Busy),
        Fault::Refuse(Code::Draining),
        Fault::Refuse(Code::Cancelled),
    ];
    for fault in faults {
        // Before the first of six parts, between any two, and before the end is said.
        for sent in 0..=6 {
            check(vec![(sent, fault)], 0).await;
        }
    }
}

#[tokio::test]
async fn a_stream_that_breaks_again_and_again_still_arrives() {
    check((0..6).map(|i| (i % 4, Fault::Break)).collect(), 0).await;
    check(vec![(1, Fault::Repeat), (1, Fault::Gap), (3, Fault::EndUnsaid)], 1).await;
}

#[tokio::test]
async fn a_silent_gateway_is_left() {
    check(vec![(3, Fault::Silence)], 0).await;
}

#[tokio::test]
async fn the_next_gateway_is_asked_for_the_step_that_was_not_complete() {
    let first = Fake::new(4, 2, 2).scripted(vec![(5, Fault::Break)]);
    let second = Fake::new(4, 2, 2);
    let known = vec![first.serve().await, second.serve().await];
    let read = steps(stream(&first, known, 0), &first).await.unwrap();
    assert_eq!(read.len(), 4);
    assert_eq!(*first.opened.lock().unwrap(), [(3, 0)]);
    assert_eq!(*second.opened.lock().unwrap(), [(3, 2)], "two steps were whole, the third was not");
}

#[tokio::test]
async fn a_gateway_that_was_only_a_location_takes_over() {
    let second = Fake::new(2, 1, 2);
    let first = Fake::new(2, 1, 2).scripted(vec![(1, Fault::Break)]);
    let location = second.serve().await.to_string();
    first.locations.lock().unwrap().push(location);
    let address = first.serve().await;
    let read = steps(stream(&first, vec![address], 0), &first).await.unwrap();
    assert_eq!(read.len(), 2);
    assert_eq!(*second.opened.lock().unwrap(), [(3, 1)]);
}

#[tokio::test]
async fn a_refusal_is_passed_on_as_it_is() {
    let fake = Fake::new(2, 1, 2).scripted(vec![(1, Fault::Refuse(Code::BadFile))]);
    let address = fake.serve().await;
    let error = steps(stream(&fake, vec![address], 0), &fake).await.unwrap_err();
    assert_eq!(error, Error::new(Code::BadFile, "as the script says"));
    assert_eq!(fake.opened.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_ticket_that_has_aged_is_replaced() {
    let fake = Fake::new(2, 1, 2);
    let known = vec![fake.serve().await];
    let gateways = Gateways::new(known, deadlines().give_up).unwrap();
    // As far as this gateway can tell, a ticket of somebody else.
    let ticket = Some(Ticket::new(vec![0xff]));
    let stream = Stream::new(link(), gateways, Fake::schema(), 2, request(0), ticket, rooms());
    let read = steps(stream, &fake).await;
    assert_eq!(read.unwrap().len(), 2);
}

#[tokio::test]
async fn without_a_gateway_left_it_says_who_was_tried_and_why() {
    let fake = Fake::new(2, 1, 2);
    // Bound and not listened at: nobody else can have the port.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let gone = Address::parse(&format!("grpc://{}", socket.local_addr().unwrap())).unwrap();
    let gateways = Gateways::new(vec![gone.clone()], Duration::from_millis(200)).unwrap();
    let stream = Stream::new(link(), gateways, Fake::schema(), 2, request(0), None, rooms());
    let error = steps(stream, &fake).await.unwrap_err();
    assert_eq!(error.code, Code::Unreachable);
    assert!(error.message.contains(&gone.to_string()) && error.message.contains("refused"), "{error}");
}

#[tokio::test]
async fn a_gateway_on_this_machine_is_read_over_its_socket() {
    let fake = Fake::new(2, 2, 2).scripted(vec![(3, Fault::Break)]);
    let directory = tempfile::tempdir().unwrap();
    let here = fake.serve_here(&directory.path().join("g.sock"));
    let read = steps(stream(&fake, vec![here], 0), &fake).await.unwrap();
    assert_eq!(read.len(), 2);
    assert_eq!(*fake.opened.lock().unwrap(), [(3, 0), (3, 1)]);
}

/// A file of `testdata`.
fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

/// Secures a gateway: whoever comes is decrypted and passed on.
async fn secured(gateway: &Address) -> Address {
    let chain = CertificateDer::pem_file_iter(testdata("gateway.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(testdata("gateway.key")).unwrap();
    let server = rustls::ServerConfig::builder_with_provider(ring::default_provider().into());
    let server = server.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut server = server.with_single_cert(chain, key).unwrap();
    server.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(server));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::parse(&format!("grpc+tls://{}", listener.local_addr().unwrap())).unwrap();
    let gateway = gateway.authority().to_owned();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (acceptor, gateway) = (acceptor.clone(), gateway.clone());
            tokio::spawn(async move {
                // A client that trusts nobody leaves during the handshake.
                let Ok(mut client) = acceptor.accept(client).await else { return };
                let mut server = TcpStream::connect(gateway).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn a_gateway_behind_tls_is_read_by_who_trusts_its_authority() {
    let fake = Fake::new(3, 2, 2).scripted(vec![(3, Fault::Break)]);
    let address = secured(&fake.serve().await).await;
    let read = |ca: Option<&str>| {
        let gateways = Gateways::new(vec![address.clone()], Duration::from_millis(200)).unwrap();
        let own = None;
        let trust = ca.map(|ca| Trust::read(&TlsConfig { ca: testdata(ca), own }).unwrap());
        let link = Link { trust: trust.unwrap_or_default(), ..link() };
        let stream = Stream::new(link, gateways, Fake::schema(), fake.steps, request(0), None, rooms());
        steps(stream, &fake)
    };
    let expected: Vec<_> = (0..3).map(|step| (step, fake.ids(step))).collect();
    assert_eq!(read(Some("authority.pem")).await.unwrap(), expected);
    let error = read(None).await.unwrap_err();
    assert!(error.code == Code::InvalidFeed && error.message.contains("--tls-ca"), "{error}");
    let error = read(Some("gateway.pem")).await.unwrap_err();
    assert!(error.code == Code::Unreachable && error.message.contains("certificate"), "{error}");
}

/// Passes bytes between clients and a gateway; as often as it is told, it breaks the next connection after
/// some bytes of the gateway's.
struct Breaker {
    address: Address,
    after: mpsc::UnboundedSender<u64>,
}

impl Breaker {
    async fn new(gateway: &Address) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Address::parse(&format!("grpc://{}", listener.local_addr().unwrap())).unwrap();
        let gateway = gateway.authority().to_owned();
        let (after, mut told) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut server = TcpStream::connect(&gateway).await.unwrap();
                let limit = told.try_recv().unwrap_or(u64::MAX);
                tokio::spawn(async move {
                    let (server_reads, mut server_writes) = server.split();
                    let (mut client_reads, mut client_writes) = client.split();
                    let mut server_reads = server_reads.take(limit);
                    tokio::select! {
                        _ = tokio::io::copy(&mut client_reads, &mut server_writes) => {}
                        _ = tokio::io::copy(&mut server_reads, &mut client_writes) => {}
                    }
                });
            }
        });
        Self { address, after }
    }
}

#[tokio::test]
async fn a_connection_may_break_at_any_byte() {
    const LONGER_THAN_THE_STREAM: u64 = 3500;
    let fake = Fake::new(2, 2, 2);
    let gateway = fake.serve().await;
    let breaker = Breaker::new(&gateway).await;
    let expected: Vec<_> = (0..2).map(|step| (step, fake.ids(step))).collect();
    for after in (0..LONGER_THAN_THE_STREAM).step_by(11) {
        breaker.after.send(after).unwrap();
        fake.opened.lock().unwrap().clear();
        let known = vec![breaker.address.clone(), gateway.clone()];
        let gateways = Gateways::new(known, deadlines().give_up).unwrap();
        // With a ticket, the first connection is the stream's.
        let ticket = Some(Ticket::new(request(0).to_command().encode_to_vec()));
        let stream = Stream::new(link(), gateways, Fake::schema(), 2, request(0), ticket, rooms());
        assert_eq!(steps(stream, &fake).await.unwrap(), expected, "broken after {after} bytes");
    }
    assert_eq!(fake.opened.lock().unwrap().len(), 1, "the stream is longer than that");
}
