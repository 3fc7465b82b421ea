//! What sidecar and trainer say to each other.
//!
//! ```text
//!  0        4         6       8         12       16
//!  "PNST"   version   kind    length    0        payload …
//! ```
//!
//! *In:* a message or the bytes of one. *Out:* the other. *Promise:* little endian, versioned; whatever
//! the bytes, decoding returns a message or an error. *Knows nothing* of sockets. A file descriptor that
//! rides along is the socket's business; which message needs one is said here.

use std::borrow::Cow;

use crate::free_list::SlotId;

/// The largest payload: what a Unix socket carries with default buffers.
pub const MAX_PAYLOAD: usize = 128 << 10;

pub(crate) const HEADER: usize = 16;
const MAGIC: [u8; 4] = *b"PNST";
const VERSION: u16 = 1;

/// Bytes that are no message, or a message that is too large.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Not one of ours.
    #[error("the bytes are no message of the ring")]
    Foreign,
    /// Of another release.
    #[error(
        "the message has version {version}; this release speaks {VERSION}: install the same release of penstock on both sides"
    )]
    Version {
        /// The version it states.
        version: u16,
    },
    /// A number that is no kind in this direction.
    #[error("message kind {kind} is not known in this direction")]
    Kind {
        /// The number.
        kind: u16,
    },
    /// Shorter or longer than its kind and header say.
    #[error("a message of kind {kind} has {bytes} bytes, which it cannot have")]
    Length {
        /// Its kind.
        kind: u16,
        /// Bytes of the payload.
        bytes: usize,
    },
    /// A text that is not UTF-8.
    #[error("the text of a message of kind {kind} is not UTF-8")]
    Text {
        /// Its kind.
        kind: u16,
    },
    /// Payload above [`MAX_PAYLOAD`].
    #[error("the message has {bytes} bytes; at most {MAX_PAYLOAD} can be sent")]
    TooLarge {
        /// Bytes of the payload.
        bytes: usize,
    },
}

/// A direction's messages.
pub trait Message: Sized {
    /// The bytes to send.
    ///
    /// # Errors
    /// [`MessageError::TooLarge`].
    fn encode(&self) -> Result<Vec<u8>, MessageError>;

    /// The message of these bytes.
    ///
    /// # Errors
    /// Anything but a whole message of this direction.
    fn decode(bytes: &[u8]) -> Result<Self, MessageError>;
}

/// From the trainer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToSidecar {
    /// Start the feed of this request (JSON); the connection is the feed from now on.
    Open {
        /// The request.
        request: String,
    },
    /// Say what the feed of this request would be (JSON); nothing is started.
    Describe {
        /// The request.
        request: String,
    },
    /// The trainer does not read this slot any more.
    Release {
        /// The slot.
        slot: SlotId,
    },
    /// The batch's effect is safe on the trainer's side.
    Acknowledge {
        /// Its epoch.
        epoch: u64,
        /// Its step.
        step: u64,
    },
    /// The trainer waits for the next batch. Said once for each batch that is waited for.
    Waiting {
        /// Batches that it has received of this feed: what was sent beyond them is on its way.
        received: u64,
    },
}

/// From the sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToTrainer {
    /// The feed is there; the ring's memory rides along.
    Opened {
        /// Slots of the ring.
        slots: u32,
        /// Bytes of a slot.
        slot_bytes: u64,
    },
    /// The answer to `Describe`; memory with the JSON text ([`crate::seal_text`]) rides along.
    Described {
        /// Length of the text.
        bytes: u64,
    },
    /// A slot is ready. A batch larger than its slot brings its own memory along.
    Batch {
        /// The slot.
        slot: SlotId,
        /// The batch's epoch.
        epoch: u64,
        /// The batch's step.
        step: u64,
    },
    /// All epochs are done.
    End,
    /// What the trainer waits for is long in coming; it may come yet.
    Notice {
        /// One line for the user: who does not answer, and why.
        text: String,
    },
    /// The feed cannot go on; nothing comes after this.
    Failed {
        /// Machine-readable kind of failure.
        code: String,
        /// One line for the user: what happened, where, what to do.
        message: String,
    },
}

impl Message for ToSidecar {
    fn encode(&self) -> Result<Vec<u8>, MessageError> {
        match self {
            ToSidecar::Open { request } => frame(1, &[request.as_bytes()]),
            ToSidecar::Describe { request } => frame(2, &[request.as_bytes()]),
            ToSidecar::Release { slot } => frame(3, &[&slot.0.to_le_bytes()]),
            ToSidecar::Acknowledge { epoch, step } => frame(4, &[&epoch.to_le_bytes(), &step.to_le_bytes()]),
            ToSidecar::Waiting { received } => frame(5, &[&received.to_le_bytes()]),
        }
    }

    fn decode(bytes: &[u8]) -> Result<ToSidecar, MessageError> {
        let mut fields = Fields::open(bytes)?;
        let message = match fields.kind {
            1 => ToSidecar::Open { request: fields.text()? },
            2 => ToSidecar::Describe { request: fields.text()? },
            3 => ToSidecar::Release { slot: SlotId(fields.half()?) },
            4 => ToSidecar::Acknowledge { epoch: fields.word()?, step: fields.word()? },
            5 => ToSidecar::Waiting { received: fields.word()? },
            kind => return Err(MessageError::Kind { kind }),
        };
        fields.close(message)
    }
}

impl Message for ToTrainer {
    fn encode(&self) -> Result<Vec<u8>, MessageError> {
        match self {
            ToTrainer::Opened { slots, slot_bytes } => {
                frame(101, &[&slots.to_le_bytes(), &slot_bytes.to_le_bytes()])
            }
            ToTrainer::Described { bytes } => frame(102, &[&bytes.to_le_bytes()]),
            ToTrainer::Batch { slot, epoch, step } => {
                frame(103, &[&slot.0.to_le_bytes(), &epoch.to_le_bytes(), &step.to_le_bytes()])
            }
            ToTrainer::End => frame(104, &[]),
            ToTrainer::Failed { code, message } => {
                // A failure must arrive whatever its text: better cut than refused.
                let (code, message) = (cut(code, 1 << 10), cut(message, 64 << 10));
                frame(105, &[&(code.len() as u32).to_le_bytes(), code.as_bytes(), message.as_bytes()])
            }
            ToTrainer::Notice { text } => frame(106, &[cut(text, 64 << 10).as_bytes()]),
        }
    }

    fn decode(bytes: &[u8]) -> Result<ToTrainer, MessageError> {
        let mut fields = Fields::open(bytes)?;
        let message = match fields.kind {
            101 => ToTrainer::Opened { slots: fields.half()?, slot_bytes: fields.word()? },
            102 => ToTrainer::Described { bytes: fields.word()? },
            103 => {
                ToTrainer::Batch { slot: SlotId(fields.half()?), epoch: fields.word()?, step: fields.word()? }
            }
            104 => ToTrainer::End,
            105 => {
                let code = fields.half()? as usize;
                ToTrainer::Failed { code: fields.text_of(code)?, message: fields.text()? }
            }
            106 => ToTrainer::Notice { text: fields.text()? },
            kind => return Err(MessageError::Kind { kind }),
        };
        fields.close(message)
    }
}

fn frame(kind: u16, parts: &[&[u8]]) -> Result<Vec<u8>, MessageError> {
    let bytes = parts.iter().map(|part| part.len()).sum();
    if bytes > MAX_PAYLOAD {
        return Err(MessageError::TooLarge { bytes });
    }
    let mut frame = Vec::with_capacity(HEADER + bytes);
    frame.extend(MAGIC);
    frame.extend(VERSION.to_le_bytes());
    frame.extend(kind.to_le_bytes());
    frame.extend((bytes as u32).to_le_bytes());
    frame.extend([0; 4]);
    for part in parts {
        frame.extend_from_slice(part);
    }
    Ok(frame)
}

fn cut(text: &str, bytes: usize) -> Cow<'_, str> {
    if text.len() <= bytes {
        text.into()
    } else {
        format!("{}…", &text[..text.floor_char_boundary(bytes)]).into()
    }
}

/// The payload, taken field by field.
struct Fields<'a> {
    kind: u16,
    payload: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn open(bytes: &'a [u8]) -> Result<Fields<'a>, MessageError> {
        let Some((head, payload)) = bytes.split_at_checked(HEADER) else {
            return Err(MessageError::Foreign);
        };
        if head[..4] != MAGIC {
            return Err(MessageError::Foreign);
        }
        let version = u16::from_le_bytes([head[4], head[5]]);
        if version != VERSION {
            return Err(MessageError::Version { version });
        }
        let kind = u16::from_le_bytes([head[6], head[7]]);
        let length = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        if length as usize != payload.len() || payload.len() > MAX_PAYLOAD || head[12..] != [0; 4] {
            return Err(MessageError::Length { kind, bytes: payload.len() });
        }
        Ok(Fields { kind, payload, rest: payload })
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], MessageError> {
        let wrong = MessageError::Length { kind: self.kind, bytes: self.payload.len() };
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(wrong)?;
        self.rest = rest;
        Ok(taken)
    }

    fn half(&mut self) -> Result<u32, MessageError> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes")))
    }

    fn word(&mut self) -> Result<u64, MessageError> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    fn text_of(&mut self, bytes: usize) -> Result<String, MessageError> {
        let text = self.take(bytes)?.to_vec();
        String::from_utf8(text).map_err(|_| MessageError::Text { kind: self.kind })
    }

    fn text(&mut self) -> Result<String, MessageError> {
        self.text_of(self.rest.len())
    }

    fn close<M>(self, message: M) -> Result<M, MessageError> {
        if self.rest.is_empty() {
            Ok(message)
        } else {
            Err(MessageError::Length { kind: self.kind, bytes: self.payload.len() })
        }
    }
}

#[cfg(test)]
mod tests;
