//! Foreign bytes for a connection.

use penstock_fuzz::fuzz;

use super::tests::{receive, whole};

/// What a gateway once said to a feed of 24 rows, from its settings to its trailers.
const RECORDED: &[u8] = include_bytes!("recorded.bin");

#[test]
fn a_stream_as_it_was_recorded_is_received_to_its_end() {
    let (messages, end) = receive([RECORDED], true);
    // A schema, three steps, and the end of the epoch.
    assert_eq!((messages.len(), end), (5, Some(Ok(()))));
}

#[test]
fn fuzz_connections() {
    fuzz("connections", &[RECORDED.to_vec(), whole()], |bytes| {
        let (messages, end) = receive([bytes], false);
        let in_pieces = receive(bytes.chunks(7), true);
        assert_eq!((&messages, &end), (&in_pieces.0, &in_pieces.1), "however it is cut");
        assert!(messages.iter().map(|(metadata, body)| metadata.len() + body).sum::<usize>() <= bytes.len());
        format!("{} {end:?}", "message ".repeat(messages.len().min(8)))
    });
}
