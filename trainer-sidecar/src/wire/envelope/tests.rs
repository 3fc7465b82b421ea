use arrow_flight::{FlightData, FlightDescriptor};
use proptest::prelude::*;
use prost::Message as _;

use super::*;

fn rooms() -> Rooms {
    Rooms::new(1 << 20, 1 << 20)
}

pub(super) fn framed(message: &[u8]) -> Vec<u8> {
    [&[0][..], &(message.len() as u32).to_be_bytes(), message].concat()
}

/// What a message brings.
pub(super) type Parts = (Vec<u8>, Vec<u8>, Vec<u8>);

/// Receives pieces, each into the body's own memory as far as `direct` and the body allow.
pub(super) fn receive<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    direct: bool,
) -> Result<Vec<Parts>, Fault> {
    let mut envelope = Envelope::new(rooms());
    let mut messages = Vec::new();
    for mut piece in pieces {
        while !piece.is_empty() {
            let memory = envelope.direct();
            let message = if direct && !memory.is_empty() {
                let count = memory.len().min(piece.len());
                memory[..count].copy_from_slice(advance(&mut piece, count));
                envelope.filled(count)
            } else {
                envelope.take(&mut piece)?
            };
            let parts = |message: Message| (message.header, message.metadata, message.body.to_vec());
            messages.extend(message.map(parts));
        }
    }
    if envelope.is_between() { Ok(messages) } else { Err(Fault::Foreign("cut")) }
}

pub(super) fn data(header: usize, metadata: usize, body: usize) -> FlightData {
    let bytes = |length: usize, seed: usize| (0..length).map(|i| (i * 7 + seed) as u8).collect::<Vec<_>>();
    FlightData {
        flight_descriptor: None,
        data_header: bytes(header, 1).into(),
        app_metadata: bytes(metadata, 2).into(),
        data_body: bytes(body, 3).into(),
    }
}

fn parts(data: &FlightData) -> Parts {
    (data.data_header.to_vec(), data.app_metadata.to_vec(), data.data_body.to_vec())
}

#[test]
fn messages_are_the_same_wherever_their_bytes_are_cut() {
    let described =
        FlightData { flight_descriptor: Some(FlightDescriptor::new_cmd(vec![5; 200])), ..data(3, 0, 4) };
    let messages = [data(30, 10, 300), data(0, 0, 0), data(5, 0, 0), data(0, 0, 200), described];
    let bytes: Vec<u8> = messages.iter().flat_map(|data| framed(&data.encode_to_vec())).collect();
    let expected: Vec<_> = messages.iter().map(parts).collect();
    for direct in [false, true] {
        for cut in 0..=bytes.len() {
            let (first, second) = bytes.split_at(cut);
            assert_eq!(receive([first, second], direct).unwrap(), expected, "cut at {cut}");
        }
        assert_eq!(receive(bytes.chunks(1), direct).unwrap(), expected);
    }
}

#[test]
fn fields_of_the_future_are_skipped() {
    let mut message = vec![0x08, 0xac, 0x02]; // 1: a number
    message.extend([0x21, 1, 2, 3, 4, 5, 6, 7, 8]); // 4: eight bytes
    message.extend([0x12, 1, 9]); // 2: the header
    message.extend([0x2d, 1, 2, 3, 4]); // 5: four bytes
    message.extend([0x32, 2, 1, 2]); // 6: a text
    let bytes = framed(&message);
    assert_eq!(receive(bytes.chunks(1), false).unwrap(), [(vec![9], vec![], vec![])]);
}

#[test]
fn what_is_no_message_is_refused() {
    let long = [0x12, 0xff, 0xff, 0xff, 0xff, 0x0f];
    for message in [
        &[0x12][..],                           // ends before a length
        &[0x12, 2, 1],                         // ends inside a field
        &long,                                 // a field longer than its message
        &[0x13],                               // a group
        &[0x12, 1, 1, 0x12, 1, 1],             // a header twice
        &[0xc2, 0x3e, 1, 1, 0xc2, 0x3e, 1, 1], // a body twice
        &[0xff; 11],                           // a number of more than 64 bits
    ] {
        let bytes = [framed(message), framed(&[])].concat();
        assert!(receive([&bytes[..]], false).is_err(), "{message:?}");
    }
    assert!(receive([&[1, 0, 0, 0, 0][..]], false).is_err(), "compressed");
}

#[test]
fn no_memory_is_taken_for_more_than_may_be() {
    let announced = [&[0][..], &u32::MAX.to_be_bytes()].concat();
    let refused = receive([&announced[..]], false).unwrap_err();
    assert_eq!(refused, Fault::TooLarge { bytes: u32::MAX.into(), limit: 1 << 20 });
}

#[test]
fn a_body_lies_where_it_was_read_to() {
    let bytes = framed(&data(10, 0, 5000).encode_to_vec());
    let mut envelope = Envelope::new(rooms());
    let mut head = &bytes[..bytes.len() - 4000];
    assert!(envelope.take(&mut head).unwrap().is_none());
    let memory = envelope.direct();
    let address = memory.as_ptr().addr() - 1000;
    memory.copy_from_slice(&bytes[bytes.len() - 4000..]);
    let message = envelope.filled(4000).unwrap();
    assert_eq!(message.body.as_ptr().addr(), address);
    assert!(address.is_multiple_of(64));
    assert!(message.memory >= 5010 && message.memory < 6200, "{}", message.memory);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_bytes_are_messages_or_refused_and_the_same_however_cut(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..400),
        sizes in (0_usize..40, 0_usize..40, 0_usize..200),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
        chunk in 1_usize..50,
    ) {
        let mut whole = framed(&data(sizes.0, sizes.1, sizes.2).encode_to_vec());
        whole.append(&mut bytes);
        for (index, byte) in changes {
            let index = index.index(whole.len());
            whole[index] = byte;
        }
        let at_once = receive([&whole[..]], false);
        prop_assert_eq!(&at_once, &receive(whole.chunks(chunk), true));
        prop_assert_eq!(&at_once, &receive(whole.chunks(1), false));
    }
}
