//! Messages of gRPC that are Flight's `FlightData`, as their bytes arrive.
//!
//! In: the bytes of a stream, cut anywhere. Out: messages. The body of one is never copied when its
//! bytes are read to [`Envelope::direct`]. What is announced is checked before memory is taken for it.

mod varint;

use arrow::buffer::Buffer;

use self::varint::Varint;
use super::Fault;
use super::room::{Room, Rooms};

/// A flag and a length.
const PREFIX_BYTES: usize = 5;
/// Numbers of the fields of `FlightData`.
const HEADER: u64 = 2;
const METADATA: u64 = 3;
const BODY: u64 = 1000;

/// A `FlightData` without its descriptor.
#[derive(Debug, Default)]
pub(crate) struct Message {
    /// A flatbuffer: an IPC message.
    pub(crate) header: Vec<u8>,
    pub(crate) metadata: Vec<u8>,
    pub(crate) body: Buffer,
    /// Bytes of memory behind the three.
    pub(crate) memory: u64,
    /// Bytes of the stream.
    pub(super) length: u64,
}

/// Where in a message the next byte is.
pub(super) struct Envelope {
    rooms: Rooms,
    at: At,
    /// Bytes of the message that did not arrive yet.
    left: u64,
    message: Message,
    body: Option<Body>,
}

struct Body {
    room: Room,
    filled: usize,
}

enum At {
    Prefix {
        bytes: [u8; PREFIX_BYTES],
        have: usize,
    },
    Key(Varint),
    /// The length of a field that has one.
    Length {
        field: u64,
        varint: Varint,
    },
    Header {
        left: usize,
    },
    Metadata {
        left: usize,
    },
    Body,
    /// A field that is nobody's here.
    Skipped {
        left: u64,
    },
    /// A number that is nobody's here.
    Number(Varint),
}

impl Envelope {
    pub(super) fn new(rooms: Rooms) -> Self {
        Self { rooms, at: At::START, left: 0, message: Message::default(), body: None }
    }

    /// Whether the next byte begins a message.
    pub(super) fn is_between(&self) -> bool {
        matches!(self.at, At::Prefix { have: 0, .. })
    }

    /// Where the next bytes are to be read to; empty where they are not those of a body.
    pub(super) fn direct(&mut self) -> &mut [u8] {
        match (&self.at, &mut self.body) {
            (At::Body, Some(body)) => body.room.rest(body.filled),
            _ => &mut [],
        }
    }

    /// Takes in that `bytes` of [`Envelope::direct`] were read.
    pub(super) fn filled(&mut self, bytes: usize) -> Option<Message> {
        let body = self.body.as_mut()?;
        body.filled += bytes;
        self.left -= bytes as u64;
        if body.room.rest(body.filled).is_empty() {
            self.at = At::NEXT;
        }
        self.finished()
    }

    /// Takes bytes off `input` until a message is whole or none are left.
    pub(super) fn take(&mut self, input: &mut &[u8]) -> Result<Option<Message>, Fault> {
        while !input.is_empty() {
            let message = match self.at {
                At::Prefix { .. } => self.prefix(input)?,
                At::Body => {
                    let direct = self.direct();
                    let count = direct.len().min(input.len());
                    direct[..count].copy_from_slice(advance(input, count));
                    self.filled(count)
                }
                _ => {
                    self.field(input)?;
                    self.finished()
                }
            };
            if message.is_some() {
                return Ok(message);
            }
        }
        Ok(None)
    }

    fn prefix(&mut self, input: &mut &[u8]) -> Result<Option<Message>, Fault> {
        let At::Prefix { bytes, have } = &mut self.at else { return Ok(None) };
        let count = input.len().min(PREFIX_BYTES - *have);
        bytes[*have..*have + count].copy_from_slice(advance(input, count));
        *have += count;
        if *have < PREFIX_BYTES {
            return Ok(None);
        }
        let [compressed, length @ ..] = *bytes;
        if compressed != 0 {
            return Err(Fault::Foreign("a compressed message, which was not asked for"));
        }
        self.left = u32::from_be_bytes(length).into();
        self.rooms.check(self.left)?;
        self.message.length = self.left + PREFIX_BYTES as u64;
        self.at = At::NEXT;
        Ok(self.finished())
    }

    /// Takes bytes of what is not the body.
    fn field(&mut self, input: &mut &[u8]) -> Result<(), Fault> {
        let within = usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len());
        let mut part = &input[..within];
        if part.is_empty() {
            return Err(Fault::Foreign("a message ends inside a field"));
        }
        match &mut self.at {
            At::Key(varint) => {
                if let Some(key) = varint.take(&mut part)? {
                    self.at = At::after_key(key)?;
                }
            }
            At::Length { field, varint } => {
                let field = *field;
                if let Some(length) = varint.take(&mut part)? {
                    let taken = (within - part.len()) as u64;
                    self.begin(field, length, self.left - taken)?;
                }
            }
            At::Header { left } => {
                if collect(&mut self.message.header, &mut part, left) {
                    self.at = At::NEXT;
                }
            }
            At::Metadata { left } => {
                if collect(&mut self.message.metadata, &mut part, left) {
                    self.at = At::NEXT;
                }
            }
            At::Skipped { left } => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(part.len());
                advance(&mut part, count);
                *left -= count as u64;
                if *left == 0 {
                    self.at = At::NEXT;
                }
            }
            At::Number(varint) => {
                if varint.take(&mut part)?.is_some() {
                    self.at = At::NEXT;
                }
            }
            At::Prefix { .. } | At::Body => {}
        }
        let taken = within - part.len();
        self.left -= taken as u64;
        *input = &input[taken..];
        Ok(())
    }

    /// Begins the value of a field, of which a message has `left` bytes at most.
    fn begin(&mut self, field: u64, length: u64, left: u64) -> Result<(), Fault> {
        if length > left {
            return Err(Fault::Foreign("a field is longer than its message"));
        }
        let fits = || usize::try_from(length).map_err(|_| Fault::Foreign("a field beyond all measure"));
        let is_new = match field {
            HEADER => self.message.header.is_empty(),
            METADATA => self.message.metadata.is_empty(),
            _ => self.body.is_none(),
        };
        if !is_new && matches!(field, HEADER | METADATA | BODY) {
            return Err(Fault::Foreign("a message says a field twice"));
        }
        self.at = match field {
            _ if length == 0 => At::NEXT,
            HEADER => At::Header { left: fits()? },
            METADATA => At::Metadata { left: fits()? },
            BODY => {
                self.body = Some(Body { room: self.rooms.take(fits()?), filled: 0 });
                At::Body
            }
            _ => At::Skipped { left: length },
        };
        Ok(())
    }

    /// The message, if all of it is there.
    fn finished(&mut self) -> Option<Message> {
        if self.left > 0 || !matches!(&self.at, At::Key(varint) if varint.is_new()) {
            return None;
        }
        self.at = At::START;
        let mut message = std::mem::take(&mut self.message);
        message.memory = (message.header.len() + message.metadata.len()) as u64;
        if let Some(Body { room, .. }) = self.body.take() {
            message.memory += room.size() as u64;
            message.body = room.into_buffer();
        }
        Some(message)
    }
}

impl At {
    const START: Self = Self::Prefix { bytes: [0; PREFIX_BYTES], have: 0 };
    const NEXT: Self = Self::Key(Varint::NEW);

    fn after_key(key: u64) -> Result<Self, Fault> {
        let field = key >> 3;
        match key & 7 {
            0 => Ok(Self::Number(Varint::NEW)),
            1 => Ok(Self::Skipped { left: 8 }),
            2 => Ok(Self::Length { field, varint: Varint::NEW }),
            5 => Ok(Self::Skipped { left: 4 }),
            _ => Err(Fault::Foreign("a message that is no protobuf")),
        }
    }
}

/// Moves bytes from `part` to `into`; whether that were all that `left` said.
fn collect(into: &mut Vec<u8>, part: &mut &[u8], left: &mut usize) -> bool {
    let count = part.len().min(*left);
    into.extend_from_slice(advance(part, count));
    *left -= count;
    *left == 0
}

/// Cuts the first `count` bytes off.
fn advance<'a>(input: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(count);
    *input = rest;
    taken
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
