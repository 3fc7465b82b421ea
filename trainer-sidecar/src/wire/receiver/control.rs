//! Frames that are not data.

use penstock_proto::{Code, Error};

use super::Receiver;
use crate::wire::Fault;
use crate::wire::fields::{self, MOST_BYTES};
use crate::wire::frame::{self, COMMON_PAYLOAD, Head, Kind, STREAM, flag, setting};
use crate::wire::response::Said;

/// Frames that one header block may come in.
const MOST_FRAMES: u32 = 32;

/// A header block whose end did not arrive yet.
pub(super) struct Block {
    bytes: Vec<u8>,
    ends_stream: bool,
    frames: u32,
}

/// Whether a frame may be as long as it says.
pub(super) fn check_length(head: Head) -> Result<(), Fault> {
    let length = head.length as usize;
    let fits = match head.kind {
        Kind::Data | Kind::Unknown => true,
        Kind::Headers | Kind::Continuation => length <= MOST_BYTES,
        Kind::Settings if head.has(flag::ACK) => length == 0,
        Kind::Settings => length.is_multiple_of(6) && length <= COMMON_PAYLOAD,
        Kind::GoAway => (8..=COMMON_PAYLOAD).contains(&length),
        Kind::Ping => length == 8,
        Kind::Priority => length == 5,
        Kind::Reset | Kind::WindowUpdate => length == 4,
        Kind::Promise => false,
    };
    if fits { Ok(()) } else { Err(Fault::Foreign("a frame has the wrong length")) }
}

impl Receiver {
    /// Takes in a whole frame.
    pub(super) fn control(&mut self, head: Head, payload: &[u8]) -> Result<(), Fault> {
        match head.kind {
            Kind::Headers => {
                let bytes = frame::unwrap(head, payload)?.to_vec();
                let ends_stream = head.has(flag::END_STREAM);
                self.go_on_with(Block { bytes, ends_stream, frames: 1 }, head)
            }
            Kind::Continuation => {
                let Some(mut block) = self.block.take() else { return Ok(()) };
                block.bytes.extend_from_slice(payload);
                block.frames += 1;
                self.go_on_with(block, head)
            }
            Kind::Settings if head.has(flag::ACK) => Ok(()),
            Kind::Settings => self.settings(payload),
            Kind::Ping if head.has(flag::ACK) => Ok(()),
            Kind::Ping => self.sender.acknowledge(Kind::Ping, payload),
            Kind::WindowUpdate => {
                let bytes = frame::number(payload)? & 0x7fff_ffff;
                if bytes == 0 {
                    return Err(Fault::Foreign("a window that grows by nothing"));
                }
                match head.stream {
                    0 => self.sender.windows().raise_connection(bytes)?,
                    _ => self.sender.windows().raise_stream(bytes)?,
                }
                self.sender.go_on();
                Ok(())
            }
            Kind::Reset => {
                let reason = frame::number(payload)?;
                self.fail(gone(format!("the gateway gave the stream up (HTTP/2 error {reason})")));
                Ok(())
            }
            Kind::GoAway => self.go_away(payload),
            Kind::Data | Kind::Priority | Kind::Promise | Kind::Unknown => Ok(()),
        }
    }

    fn go_on_with(&mut self, block: Block, head: Head) -> Result<(), Fault> {
        if block.bytes.len() > MOST_BYTES || block.frames > MOST_FRAMES {
            return Err(Fault::Foreign("more header fields than may be"));
        }
        if !head.has(flag::END_HEADERS) {
            self.block = Some(block);
            return Ok(());
        }
        match self.answer.take(fields::decode(&block.bytes)?, block.ends_stream)? {
            Said::Nothing => {}
            Said::Begun(waits_for) => self.waits_for = waits_for,
            Said::Ended(Ok(())) if !self.envelope.is_between() => {
                return Err(Fault::Foreign("the stream ends inside a message"));
            }
            Said::Ended(how) => {
                self.ended.get_or_insert(how);
            }
        }
        Ok(())
    }

    fn settings(&mut self, payload: &[u8]) -> Result<(), Fault> {
        for pair in payload.chunks_exact(6) {
            let (name, value) = pair.split_at(2);
            if name == setting::INITIAL_WINDOW_SIZE.to_be_bytes() {
                self.sender.windows().set_initial(frame::number(value)?)?;
            }
        }
        self.sender.go_on();
        self.sender.acknowledge(Kind::Settings, &[])
    }

    /// The peer takes no new streams; ours may go on, unless the peer never saw it.
    fn go_away(&mut self, payload: &[u8]) -> Result<(), Fault> {
        let (last, rest) = payload.split_at(4);
        let last = frame::number(last)? & 0x7fff_ffff;
        if last < STREAM {
            let reason = frame::number(&rest[..4])?;
            self.fail(gone(format!("the gateway takes no more streams (HTTP/2 error {reason})")));
        }
        Ok(())
    }
}

fn gone(message: String) -> Error {
    Error::new(Code::Unreachable, message)
}
