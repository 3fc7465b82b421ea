use arrow_flight::FlightData;
use penstock_proto::Code;
use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::wire::fields;
use crate::wire::frame::{self, setting};

const WINDOW: u32 = 100_000;

fn receiver() -> Receiver {
    let mut receiver =
        Receiver::new(Sender::new("http", "h:1", b"t", WINDOW), WINDOW, Rooms::new(0, 1 << 20));
    written(&mut receiver);
    receiver
}

/// What the receiver says, and forgets it.
fn written(receiver: &mut Receiver) -> Vec<u8> {
    let said = receiver.sender.waiting().to_vec();
    receiver.sender.written(said.len());
    said
}

fn of(kind: Kind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write(&mut out, kind, flags, stream, payload);
    out
}

fn block(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    pairs.iter().for_each(|(name, value)| fields::encode(&mut block, name, value));
    block
}

fn settings() -> Vec<u8> {
    of(Kind::Settings, 0, 0, &[])
}

fn answer() -> Vec<u8> {
    let block = block(&[(":status", "200"), ("content-type", "application/grpc")]);
    of(Kind::Headers, flag::END_HEADERS, STREAM, &block)
}

fn trailers(status: &str) -> Vec<u8> {
    of(Kind::Headers, flag::END_HEADERS | flag::END_STREAM, STREAM, &block(&[("grpc-status", status)]))
}

fn message(id: u8, body: usize) -> Vec<u8> {
    let data = FlightData {
        app_metadata: vec![id].into(),
        data_header: vec![id; 20].into(),
        data_body: vec![id; body].into(),
        ..FlightData::default()
    };
    let message = data.encode_to_vec();
    [&[0][..], &(message.len() as u32).to_be_bytes(), &message].concat()
}

/// Data of a stream in frames of `size` bytes, each second one padded.
fn data(bytes: &[u8], size: usize) -> Vec<u8> {
    let frames = bytes.chunks(size).enumerate().map(|(i, chunk)| match i % 2 {
        0 => of(Kind::Data, 0, STREAM, chunk),
        _ => of(Kind::Data, flag::PADDED, STREAM, &[&[3][..], chunk, &[0; 3]].concat()),
    });
    frames.collect::<Vec<_>>().concat()
}

/// A stream as it should be, with everything in it that a peer may say.
pub(super) fn whole() -> Vec<u8> {
    let mut cut = block(&[("grpc-status", "0"), ("x", &"y".repeat(50))]);
    let rest = cut.split_off(20);
    [
        of(Kind::Settings, 0, 0, &[0, 4, 0, 1, 0, 0, 0, 9, 0, 0, 0, 1]),
        of(Kind::Settings, flag::ACK, 0, &[]),
        of(Kind::WindowUpdate, 0, 0, &[0, 0, 1, 0]),
        answer(),
        data(&message(1, 500), 100),
        of(Kind::Ping, 0, 0, b"abcdefgh"),
        of(Kind::Unknown, 9, 77, &[5; 30]),
        of(Kind::Priority, 0, 5, &[0; 5]),
        data(&[message(2, 0), message(3, 7)].concat(), 11),
        of(Kind::Data, 0, STREAM, &[]),
        of(Kind::GoAway, 0, 0, &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]),
        of(Kind::WindowUpdate, 0, STREAM, &[0, 0, 1, 0]),
        data(&message(4, 3000), 1000),
        of(Kind::Headers, flag::END_STREAM | flag::PADDED, STREAM, &[&[2][..], &cut, &[0; 2]].concat()),
        of(Kind::Continuation, flag::END_HEADERS, STREAM, &rest),
    ]
    .concat()
}

/// Messages by their metadata and body's length, and how it ended.
pub(super) type Outcome = (Vec<(Vec<u8>, usize)>, Option<Result<(), Error>>);

/// Hands pieces in as a socket would: into the body as far as `direct`, the rest staged.
pub(super) fn receive<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, direct: bool) -> Outcome {
    let mut receiver = receiver();
    let mut messages = Vec::new();
    for piece in pieces {
        let memory = receiver.direct();
        let count = if direct { memory.len().min(piece.len()) } else { 0 };
        if direct && count == memory.len() {
            memory.copy_from_slice(&piece[..count]);
            receiver.read(piece.len(), &piece[count..]);
        } else if direct {
            memory[..count].copy_from_slice(&piece[..count]);
            receiver.read(count, &[]);
        } else if let Err(fault) = receiver.take(piece) {
            receiver.fail(fault.into());
        }
        while let Some(message) = receiver.message() {
            messages.push((message.metadata, message.body.len()));
        }
    }
    assert_eq!(receiver.queued, 0);
    (messages, receiver.end())
}

fn ids(outcome: &Outcome) -> Vec<(u8, usize)> {
    outcome.0.iter().map(|(metadata, body)| (metadata[0], *body)).collect()
}

/// The error that a stream of these frames ends with.
fn refusal(frames: &[Vec<u8>]) -> Error {
    match receive([&frames.concat()[..]], true).1 {
        Some(Err(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stream_is_the_same_wherever_its_bytes_are_cut() {
    let bytes = whole();
    let expected = vec![(1, 500), (2, 0), (3, 7), (4, 3000)];
    for direct in [false, true] {
        for cut in 0..=bytes.len() {
            let (first, second) = bytes.split_at(cut);
            let outcome = receive([first, second], direct);
            assert_eq!((ids(&outcome), &outcome.1), (expected.clone(), &Some(Ok(()))), "cut at {cut}");
        }
        for size in [1, 2, 3, 7, 100] {
            let outcome = receive(bytes.chunks(size), direct);
            assert_eq!((ids(&outcome), &outcome.1), (expected.clone(), &Some(Ok(()))), "in pieces of {size}");
        }
    }
}

#[test]
fn a_stream_that_is_cut_anywhere_brings_whole_messages_and_no_end() {
    let bytes = whole();
    for cut in 0..bytes.len() {
        let outcome = receive([&bytes[..cut]], true);
        assert_eq!(outcome.1, None, "cut at {cut}");
        assert_eq!(ids(&outcome)[..], [(1, 500), (2, 0), (3, 7), (4, 3000)][..outcome.0.len()]);
    }
}

#[test]
fn questions_are_answered() {
    let mut receiver = receiver();
    receiver.take(&settings()).unwrap();
    assert_eq!(written(&mut receiver), of(Kind::Settings, flag::ACK, 0, &[]));
    receiver.take(&of(Kind::Ping, 0, 0, b"12345678")).unwrap();
    assert_eq!(written(&mut receiver), of(Kind::Ping, flag::ACK, 0, b"12345678"));
    receiver.take(&of(Kind::Ping, flag::ACK, 0, b"12345678")).unwrap();
    receiver.take(&of(Kind::Settings, flag::ACK, 0, &[])).unwrap();
    assert!(written(&mut receiver).is_empty());
}

#[test]
fn no_more_is_allowed_than_was_taken() {
    let mut receiver = receiver();
    receiver.take(&[settings(), answer()].concat()).unwrap();
    written(&mut receiver);
    receiver.take(&data(&message(1, 60_000), 16_000)).unwrap();
    receiver.refund();
    assert!(written(&mut receiver).is_empty(), "a message waits");
    receiver.message().unwrap();
    receiver.refund();
    let said = written(&mut receiver);
    let update = |nth: usize| u32::from_be_bytes(said[nth * 13 + 9..][..4].try_into().unwrap());
    assert!((60_000..61_000).contains(&update(0)));
    assert_eq!((said.len(), update(1)), (26, update(0)));
    receiver.refund();
    assert!(written(&mut receiver).is_empty());
    let half = data(&message(2, 90_000), 16_000);
    receiver.take(&half[..50_000]).unwrap();
    receiver.refund();
    assert!(!written(&mut receiver).is_empty(), "a message that is not whole is waited for");
}

#[test]
fn an_end_is_an_end_whoever_says_it() {
    let begun = [settings(), answer()].concat();
    let reset = of(Kind::Reset, 0, STREAM, &[0, 0, 0, 8]);
    let leaving = of(Kind::GoAway, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 2]);
    let ended = of(Kind::Data, flag::END_STREAM, STREAM, &[]);
    assert_eq!(refusal(&[begun.clone(), reset]).code, Code::Unreachable);
    assert_eq!(refusal(&[begun.clone(), leaving]).code, Code::Unreachable);
    assert_eq!(refusal(&[begun.clone(), ended]).code, Code::BrokenStream);
    assert_eq!(refusal(&[begun.clone(), trailers("14")]).code, Code::Unreachable);
    let inside = data(&message(1, 100)[..50], 50);
    assert_eq!(refusal(&[begun.clone(), inside, trailers("0")]).code, Code::BrokenStream);
    let complete = receive([&[begun, trailers("0"), settings()].concat()[..]], true);
    assert_eq!(complete.1, Some(Ok(())));
}

#[test]
fn what_http2_forbids_ends_the_stream() {
    let one =
        |kind, flags, stream, payload: &[u8]| vec![settings(), answer(), of(kind, flags, stream, payload)];
    let headers = |flags, payload: &[u8]| of(Kind::Headers, flags, STREAM, payload);
    let cut = headers(0, &[]);
    let many = [vec![settings(), cut.clone()], vec![of(Kind::Continuation, 0, STREAM, &[]); 40]].concat();
    let large = (0..8).map(|_| of(Kind::Continuation, 0, STREAM, &[b'x'; 16_000]));
    let large = [settings(), cut.clone()].into_iter().chain(large).collect();
    let mut floods = vec![settings()];
    floods.resize(10_000, of(Kind::Ping, 0, 0, &[0; 8]));
    let window = setting::INITIAL_WINDOW_SIZE.to_be_bytes();
    for frames in [
        vec![answer()],
        vec![of(Kind::Settings, flag::ACK, 0, &[])],
        vec![settings(), of(Kind::Data, 0, STREAM, &[0])],
        vec![settings(), answer(), answer()],
        vec![settings(), cut.clone(), settings()],
        vec![settings(), cut.clone(), cut],
        many,
        large,
        floods,
        one(Kind::Data, 0, 3, &[]),
        one(Kind::Data, 0, 0, &[]),
        one(Kind::Data, flag::PADDED, STREAM, &[]),
        one(Kind::Data, flag::PADDED, STREAM, &[2, 0]),
        one(Kind::Headers, flag::END_HEADERS, 2, &[]),
        one(Kind::Headers, flag::END_HEADERS | flag::END_STREAM | flag::PADDED, STREAM, &[9, 0]),
        one(Kind::Continuation, flag::END_HEADERS, STREAM, &[]),
        one(Kind::Promise, flag::END_HEADERS, STREAM, &[0, 0, 0, 2]),
        one(Kind::Settings, 0, STREAM, &[]),
        one(Kind::Settings, 0, 0, &[0; 5]),
        one(Kind::Settings, flag::ACK, 0, &[0; 6]),
        one(Kind::Settings, 0, 0, &[&window[..], &[0x80, 0, 0, 0]].concat()),
        one(Kind::Ping, 0, 0, &[0; 7]),
        one(Kind::Ping, 0, STREAM, &[0; 8]),
        one(Kind::GoAway, 0, 0, &[0; 7]),
        one(Kind::Reset, 0, STREAM, &[0; 3]),
        one(Kind::Priority, 0, STREAM, &[0; 4]),
        one(Kind::WindowUpdate, 0, 0, &[0; 4]),
        one(Kind::WindowUpdate, 0, STREAM, &[0x7f, 0xff, 0xff, 0xff]),
        one(Kind::WindowUpdate, 0, 9, &[0, 0, 0, 1]),
    ] {
        let error = refusal(&frames);
        assert_eq!(error.code, Code::BrokenStream, "{error}");
    }
    let flood = data(&message(1, 200_000), 16_000);
    assert_eq!(refusal(&[settings(), answer(), flood]).code, Code::BrokenStream, "beyond the window");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A true stream with bytes changed, frames left out, and noise behind it.
    #[test]
    fn any_bytes_end_or_do_not_and_the_same_however_cut(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
        left_out in proptest::option::of((any::<proptest::sample::Index>(), 1_usize..60)),
        noise in proptest::collection::vec(any::<u8>(), 0..100),
        chunk in 1_usize..300,
    ) {
        let mut bytes = whole();
        for (index, byte) in changes {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        if let Some((from, count)) = left_out {
            let from = from.index(bytes.len());
            bytes.drain(from..(from + count).min(bytes.len()));
        }
        bytes.extend(noise);
        let at_once = receive([&bytes[..]], false);
        let in_pieces = receive(bytes.chunks(chunk), true);
        // Only one that is refused may differ in how many of the last bytes were looked at.
        prop_assert_eq!(at_once, in_pieces);
    }
}
