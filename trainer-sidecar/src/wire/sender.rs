//! What a connection says: the request, and the little that an answer needs.

use super::Fault;
use super::fields;
use super::frame::{self, Kind, LARGEST_PAYLOAD, PREFACE, STREAM, flag, setting};
use super::window::{INITIAL, Outbound};

/// Bytes that may wait to be written. A peer that makes us answer and does not read would have more.
const MOST_WAITING: usize = 64 << 10;
/// The path of the one call.
const CALL: &str = "/arrow.flight.protocol.FlightService/DoGet";
const AGENT: &str = concat!("penstock-sidecar/", env!("CARGO_PKG_VERSION"));

/// Bytes on their way out.
pub(super) struct Sender {
    out: Vec<u8>,
    /// The request's message, as far as the windows did not let it out yet.
    request: Vec<u8>,
    windows: Outbound,
}

impl Sender {
    /// Begins a connection whose peer may send `window` bytes, and asks for a ticket's stream.
    pub(super) fn new(scheme: &str, authority: &str, ticket: &[u8], window: u32) -> Self {
        let mut out = PREFACE.to_vec();
        let settings = [
            (setting::HEADER_TABLE_SIZE, 0),
            (setting::ENABLE_PUSH, 0),
            (setting::INITIAL_WINDOW_SIZE, window),
            (setting::MAX_FRAME_SIZE, LARGEST_PAYLOAD),
            (setting::MAX_HEADER_LIST_SIZE, fields::MOST_BYTES as u32),
        ];
        let settings: Vec<u8> = settings
            .iter()
            .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        frame::write(&mut out, Kind::Settings, 0, 0, &settings);
        if window > INITIAL {
            frame::write(&mut out, Kind::WindowUpdate, 0, 0, &(window - INITIAL).to_be_bytes());
        }
        let mut block = Vec::new();
        for (name, value) in [
            (":method", "POST"),
            (":scheme", scheme),
            (":path", CALL),
            (":authority", authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", AGENT),
        ] {
            fields::encode(&mut block, name, value);
        }
        frame::write(&mut out, Kind::Headers, flag::END_HEADERS, STREAM, &block);
        let mut sender = Self { out, request: envelope(ticket), windows: Outbound::new() };
        sender.go_on();
        sender
    }

    /// What is to be written.
    pub(super) fn waiting(&self) -> &[u8] {
        &self.out
    }

    /// Takes in that the first `bytes` of it were written.
    pub(super) fn written(&mut self, bytes: usize) {
        self.out.drain(..bytes);
    }

    /// The windows, when the peer changes them; see [`Sender::go_on`].
    pub(super) fn windows(&mut self) -> &mut Outbound {
        &mut self.windows
    }

    /// Sends what the windows let out of the request.
    pub(super) fn go_on(&mut self) {
        while !self.request.is_empty() {
            let bytes = self.windows.spend(self.request.len());
            if bytes == 0 {
                return;
            }
            let ends = if bytes == self.request.len() { flag::END_STREAM } else { 0 };
            frame::write(&mut self.out, Kind::Data, ends, STREAM, &self.request[..bytes]);
            self.request.drain(..bytes);
        }
    }

    /// Allows the peer `bytes` more.
    pub(super) fn allow(&mut self, bytes: u32) {
        for stream in [0, STREAM] {
            frame::write(&mut self.out, Kind::WindowUpdate, 0, stream, &bytes.to_be_bytes());
        }
    }

    /// Asks whether the peer is there.
    pub(super) fn ping(&mut self) {
        frame::write(&mut self.out, Kind::Ping, 0, 0, &[0; 8]);
    }

    /// Answers a frame that wants an answer.
    pub(super) fn acknowledge(&mut self, kind: Kind, payload: &[u8]) -> Result<(), Fault> {
        if self.out.len() > MOST_WAITING {
            return Err(Fault::Foreign("more questions than answers are read"));
        }
        frame::write(&mut self.out, kind, flag::ACK, 0, payload);
        Ok(())
    }
}

/// A ticket as a message of gRPC: flag, length, and a protobuf of one field.
fn envelope(ticket: &[u8]) -> Vec<u8> {
    let message = prost::Message::encode_to_vec(&arrow_flight::Ticket::new(ticket.to_vec()));
    let length = u32::try_from(message.len()).expect("a ticket came in a message of this length");
    [&[0][..], &length.to_be_bytes(), &message].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::{COMMON_PAYLOAD, HEAD_BYTES, Head};

    /// Frames that wait, and forgets them.
    fn frames(sender: &mut Sender) -> Vec<(Head, Vec<u8>)> {
        let out = sender.waiting().to_vec();
        sender.written(out.len());
        let mut rest = out.strip_prefix(PREFACE).unwrap_or(&out);
        let mut frames = Vec::new();
        while let Some((head, after)) = rest.split_first_chunk::<HEAD_BYTES>() {
            let head = Head::read(*head);
            let (payload, after) = after.split_at(head.length as usize);
            frames.push((head, payload.to_vec()));
            rest = after;
        }
        frames
    }

    fn data(frames: &[(Head, Vec<u8>)]) -> Vec<u8> {
        frames
            .iter()
            .filter(|(head, _)| head.kind == Kind::Data)
            .flat_map(|(_, bytes)| bytes.clone())
            .collect()
    }

    #[test]
    fn a_connection_begins_with_its_settings_and_the_whole_request() {
        let mut sender = Sender::new("http", "h:1", b"ticket", 1 << 20);
        let frames = frames(&mut sender);
        let kinds: Vec<_> = frames.iter().map(|(head, _)| head.kind).collect();
        assert_eq!(kinds, [Kind::Settings, Kind::WindowUpdate, Kind::Headers, Kind::Data]);
        assert_eq!(data(&frames), [0, 0, 0, 0, 8, 0x0a, 6, b't', b'i', b'c', b'k', b'e', b't']);
        assert!(frames.last().unwrap().0.has(flag::END_STREAM));
    }

    #[test]
    fn a_long_request_waits_for_the_windows() {
        let mut sender = Sender::new("http", "h:1", &[7; 100_000], 1000);
        let whole = envelope(&[7; 100_000]);
        let first = frames(&mut sender);
        assert!(first.iter().all(|(head, _)| head.length as usize <= COMMON_PAYLOAD));
        assert_eq!(data(&first), whole[..INITIAL as usize]);
        sender.go_on();
        assert!(sender.waiting().is_empty());
        sender.windows().raise_connection(100_000).unwrap();
        sender.windows().set_initial(INITIAL + 100_000).unwrap();
        sender.go_on();
        let second = frames(&mut sender);
        assert_eq!(data(&second), whole[INITIAL as usize..]);
        assert!(second.last().unwrap().0.has(flag::END_STREAM));
    }

    #[test]
    fn who_asks_and_does_not_read_is_left() {
        let mut sender = Sender::new("http", "h:1", b"", 1000);
        let asked = (0..10_000).try_for_each(|_| sender.acknowledge(Kind::Ping, &[0; 8]));
        assert!(asked.is_err());
        assert!(sender.waiting().len() < MOST_WAITING + 100);
    }
}
