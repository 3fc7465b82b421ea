//! Frames of HTTP/2 (RFC 9113, sections 4 and 6): heads of those that arrive, and how one is written.

use super::Fault;

/// What a client says first.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(super) const HEAD_BYTES: usize = 9;
/// The largest payload that a head can say.
pub(super) const LARGEST_PAYLOAD: u32 = (1 << 24) - 1;
/// The payload that every peer takes unasked.
pub(super) const COMMON_PAYLOAD: usize = 16 << 10;
/// The one stream of a connection.
pub(super) const STREAM: u32 = 1;

pub(super) mod flag {
    pub(in crate::wire) const END_STREAM: u8 = 0x1;
    pub(in crate::wire) const ACK: u8 = 0x1;
    pub(in crate::wire) const END_HEADERS: u8 = 0x4;
    pub(in crate::wire) const PADDED: u8 = 0x8;
    pub(in crate::wire) const PRIORITY: u8 = 0x20;
}

/// Settings by their numbers.
pub(super) mod setting {
    pub(in crate::wire) const HEADER_TABLE_SIZE: u16 = 0x1;
    pub(in crate::wire) const ENABLE_PUSH: u16 = 0x2;
    pub(in crate::wire) const INITIAL_WINDOW_SIZE: u16 = 0x4;
    pub(in crate::wire) const MAX_FRAME_SIZE: u16 = 0x5;
    pub(in crate::wire) const MAX_HEADER_LIST_SIZE: u16 = 0x6;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Data = 0x0,
    Headers = 0x1,
    Priority = 0x2,
    Reset = 0x3,
    Settings = 0x4,
    Promise = 0x5,
    Ping = 0x6,
    GoAway = 0x7,
    WindowUpdate = 0x8,
    Continuation = 0x9,
    /// To be skipped, says the standard.
    Unknown = 0xff,
}

/// What stands before a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) length: u32,
    pub(super) kind: Kind,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Head {
    pub(super) fn read(bytes: [u8; HEAD_BYTES]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = bytes;
        let kind = match kind {
            0x0 => Kind::Data,
            0x1 => Kind::Headers,
            0x2 => Kind::Priority,
            0x3 => Kind::Reset,
            0x4 => Kind::Settings,
            0x5 => Kind::Promise,
            0x6 => Kind::Ping,
            0x7 => Kind::GoAway,
            0x8 => Kind::WindowUpdate,
            0x9 => Kind::Continuation,
            _ => Kind::Unknown,
        };
        // The highest bit is reserved and means nothing.
        let stream = u32::from_be_bytes(stream) & 0x7fff_ffff;
        Self { length: u32::from_be_bytes([0, a, b, c]), kind, flags, stream }
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame. The payload is at most [`COMMON_PAYLOAD`].
pub(super) fn write(out: &mut Vec<u8>, kind: Kind, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("a payload that every peer takes");
    out.extend_from_slice(&length.to_be_bytes()[1..]);
    out.extend_from_slice(&[kind as u8, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// A payload without the padding and the priority that its flags say it has.
pub(super) fn unwrap(head: Head, mut payload: &[u8]) -> Result<&[u8], Fault> {
    let short = Fault::Foreign("a padded frame is shorter than its padding");
    if head.has(flag::PADDED) {
        let (&padding, rest) = payload.split_first().ok_or(short.clone())?;
        let kept = rest.len().checked_sub(usize::from(padding)).ok_or(short.clone())?;
        payload = &rest[..kept];
    }
    if head.kind == Kind::Headers && head.has(flag::PRIORITY) {
        payload = payload.get(5..).ok_or(short)?;
    }
    Ok(payload)
}

/// The number that a payload of four bytes is.
pub(super) fn number(payload: &[u8]) -> Result<u32, Fault> {
    let bytes = payload.try_into().map_err(|_| Fault::Foreign("a frame has the wrong length"))?;
    Ok(u32::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_reads_as_it_was_written() {
        let mut out = Vec::new();
        write(&mut out, Kind::Continuation, flag::END_HEADERS, 1, &[7; 300]);
        let head = Head::read(out[..HEAD_BYTES].try_into().unwrap());
        assert_eq!(head, Head { length: 300, kind: Kind::Continuation, flags: flag::END_HEADERS, stream: 1 });
        assert_eq!(out.len(), HEAD_BYTES + 300);
    }

    #[test]
    fn the_reserved_bit_is_no_part_of_a_stream() {
        assert_eq!(Head::read([0, 0, 0, 0, 0, 0x80, 0, 0, 1]).stream, 1);
    }

    #[test]
    fn padding_and_priority_are_taken_off() {
        let head = |flags| Head { length: 0, kind: Kind::Headers, flags, stream: 1 };
        assert_eq!(unwrap(head(flag::PADDED), &[2, 9, 0, 0]).unwrap(), &[9]);
        assert_eq!(unwrap(head(flag::PADDED | flag::PRIORITY), &[1, 0, 0, 0, 0, 0, 9, 0]).unwrap(), &[9]);
        assert!(unwrap(head(flag::PADDED), &[3, 9, 0]).is_err());
        assert!(unwrap(head(flag::PADDED), &[]).is_err());
        assert!(unwrap(head(flag::PRIORITY), &[0; 4]).is_err());
    }
}
