//! The bytes of a connection, from frames to messages. No I/O.
//!
//! In: bytes, cut anywhere. Out: messages, what is to be said in return, and how it all ended. Bytes of a
//! body may be read to where they belong, [`Receiver::direct`], instead of being handed in.

mod control;

use std::collections::VecDeque;

use penstock_proto::Error;

use super::Fault;
use super::envelope::{Envelope, Message};
use super::frame::{HEAD_BYTES, Head, Kind, STREAM, flag};
use super::response::{Answer, unsaid};
use super::room::Rooms;
use super::sender::Sender;
use super::window::Inbound;

/// One connection with one stream.
pub(super) struct Receiver {
    at: At,
    /// Whether the peer has said its settings, which must come first.
    greeted: bool,
    answer: Answer,
    /// What the gateway said that the first message waits for.
    waits_for: Option<String>,
    block: Option<control::Block>,
    inbound: Inbound,
    envelope: Envelope,
    messages: VecDeque<Message>,
    /// Bytes of the stream that the messages were.
    queued: u64,
    ended: Option<Result<(), Error>>,
    pub(super) sender: Sender,
}

/// Where in a frame the next byte is.
enum At {
    Head {
        bytes: [u8; HEAD_BYTES],
        have: usize,
    },
    /// At the length of a data frame's padding.
    Padding {
        head: Head,
    },
    Data {
        left: usize,
        padding: usize,
        ends: bool,
    },
    /// In a payload that is looked at as a whole.
    Payload {
        head: Head,
        payload: Vec<u8>,
    },
    Skipped {
        left: usize,
    },
}

const START: At = At::Head { bytes: [0; HEAD_BYTES], have: 0 };

impl Receiver {
    pub(super) fn new(sender: Sender, window: u32, rooms: Rooms) -> Self {
        Self {
            at: START,
            greeted: false,
            answer: Answer::Awaited,
            waits_for: None,
            block: None,
            inbound: Inbound::new(window),
            envelope: Envelope::new(rooms),
            messages: VecDeque::new(),
            queued: 0,
            ended: None,
            sender,
        }
    }

    /// Whether messages may come, now or already.
    pub(super) fn has_begun(&self) -> bool {
        self.answer == Answer::Begun
    }

    /// What the gateway says that the next message waits for.
    pub(super) fn waits_for(&self) -> Option<&str> {
        self.waits_for.as_deref()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// The next message that is whole.
    pub(super) fn message(&mut self) -> Option<Message> {
        let message = self.messages.pop_front()?;
        self.waits_for = None;
        self.queued -= message.length;
        Some(message)
    }

    /// How the stream ended; again and again.
    pub(super) fn end(&self) -> Option<Result<(), Error>> {
        self.ended.clone()
    }

    /// Ends it, unless it has ended.
    pub(super) fn fail(&mut self, error: Error) {
        self.ended.get_or_insert(Err(error));
    }

    /// Allows the peer to send again what has been received and does not wait to be taken.
    pub(super) fn refund(&mut self) {
        if let Some(bytes) = self.inbound.refund(self.queued) {
            self.sender.allow(bytes);
        }
    }

    /// Where the next bytes are to be read to; empty where they are not those of a body.
    pub(super) fn direct(&mut self) -> &mut [u8] {
        let At::Data { left, .. } = self.at else { return &mut [] };
        let direct = self.envelope.direct();
        let count = direct.len().min(left);
        &mut direct[..count]
    }

    /// Takes in that `bytes` were read: to [`Receiver::direct`] as far as it reached, the others to
    /// `staged`.
    pub(super) fn read(&mut self, bytes: usize, staged: &[u8]) {
        let direct = bytes.min(self.direct().len());
        if direct > 0 {
            let message = self.envelope.filled(direct);
            self.received(direct, message);
        }
        if let Err(fault) = self.take(&staged[..bytes - direct]) {
            self.fail(fault.into());
        }
    }

    fn take(&mut self, mut input: &[u8]) -> Result<(), Fault> {
        while !input.is_empty() && self.ended.is_none() {
            match &mut self.at {
                At::Head { bytes, have } => {
                    let count = input.len().min(HEAD_BYTES - *have);
                    bytes[*have..*have + count].copy_from_slice(&input[..count]);
                    *have += count;
                    input = &input[count..];
                    if *have == HEAD_BYTES {
                        let head = Head::read(*bytes);
                        self.begin(head)?;
                    }
                }
                At::Padding { head } => {
                    let padding = usize::from(input[0]);
                    input = &input[1..];
                    let left = (head.length as usize - 1).checked_sub(padding);
                    let left = left.ok_or(Fault::Foreign("a padded frame is shorter than its padding"))?;
                    let ends = head.has(flag::END_STREAM);
                    self.at = At::Data { left, padding, ends };
                    self.received(0, None);
                }
                At::Data { left, .. } => {
                    let mut part = &input[..input.len().min(*left)];
                    let before = part.len();
                    let message = self.envelope.take(&mut part)?;
                    let count = before - part.len();
                    input = &input[count..];
                    self.received(count, message);
                }
                At::Payload { head, payload } => {
                    let count = input.len().min(head.length as usize - payload.len());
                    payload.extend_from_slice(&input[..count]);
                    input = &input[count..];
                    self.finish_payload()?;
                }
                At::Skipped { left } => {
                    let count = input.len().min(*left);
                    *left -= count;
                    input = &input[count..];
                    if *left == 0 {
                        self.at = START;
                    }
                }
            }
        }
        Ok(())
    }

    /// Begins a frame.
    fn begin(&mut self, head: Head) -> Result<(), Fault> {
        self.check(head)?;
        let length = head.length as usize;
        match head.kind {
            Kind::Data => {
                self.inbound.receive(head.length)?;
                let ends = head.has(flag::END_STREAM);
                if head.has(flag::PADDED) {
                    if length == 0 {
                        return Err(Fault::Foreign("a padded frame is shorter than its padding"));
                    }
                    self.at = At::Padding { head };
                } else {
                    self.at = At::Data { left: length, padding: 0, ends };
                    self.received(0, None);
                }
            }
            Kind::Priority | Kind::Unknown if length == 0 => self.at = START,
            Kind::Priority | Kind::Unknown => self.at = At::Skipped { left: length },
            _ => {
                self.at = At::Payload { head, payload: Vec::new() };
                self.finish_payload()?;
            }
        }
        Ok(())
    }

    /// Takes in `count` bytes of a data frame, with which a message may have become whole.
    fn received(&mut self, count: usize, message: Option<Message>) {
        if let Some(message) = message {
            self.queued += message.length;
            self.messages.push_back(message);
        }
        let At::Data { left, padding, ends } = &mut self.at else { return };
        *left -= count;
        if *left > 0 {
            return;
        }
        let (padding, ends) = (*padding, *ends);
        self.at = if padding > 0 { At::Skipped { left: padding } } else { START };
        if ends {
            self.fail(unsaid());
        }
    }

    fn finish_payload(&mut self) -> Result<(), Fault> {
        let At::Payload { head, payload } = &mut self.at else { return Ok(()) };
        if payload.len() < head.length as usize {
            return Ok(());
        }
        let (head, payload) = (*head, std::mem::take(payload));
        self.at = START;
        self.control(head, &payload)
    }

    /// Whether a frame may come here, and be as long as it says.
    fn check(&mut self, head: Head) -> Result<(), Fault> {
        if !self.greeted && (head.kind != Kind::Settings || head.has(flag::ACK)) {
            return Err(Fault::Foreign("it does not begin as HTTP/2 does"));
        }
        self.greeted = true;
        if self.block.is_some() != (head.kind == Kind::Continuation) {
            return Err(Fault::Foreign("header fields are interrupted"));
        }
        let stream_is_right = match head.kind {
            Kind::Data | Kind::Headers | Kind::Reset | Kind::Continuation => head.stream == STREAM,
            Kind::Settings | Kind::Ping | Kind::GoAway => head.stream == 0,
            Kind::WindowUpdate => head.stream <= STREAM,
            Kind::Promise => false,
            Kind::Priority | Kind::Unknown => true,
        };
        if !stream_is_right {
            return Err(Fault::Foreign("a frame of a stream that is none"));
        }
        if head.kind == Kind::Data && self.answer != Answer::Begun {
            return Err(Fault::Foreign("data before an answer"));
        }
        control::check_length(head)
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
