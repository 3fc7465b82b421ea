//! A gRPC message as one buffer in many places.
//!
//! In: a message of a stream, or a piece of any other answer. Out: bytes in the order of the wire, to be
//! gathered by the socket. The promise: nothing of a body is copied, and what was leased for a message is
//! held until the socket has taken it.

use std::collections::VecDeque;
use std::io::IoSlice;

use arrow::buffer::Buffer;
use bytes::{Buf, BufMut as _, Bytes};
use penstock_daemon::Lease;
use penstock_proto::{Code, Error};

use crate::encode::Message;

/// What stands before a gRPC message: not compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// Tags of `FlightData`: field number and "bytes of that length".
const HEADER_TAG: u64 = tag(2);
const NOTE_TAG: u64 = tag(3);
const BODY_TAG: u64 = tag(1000);
/// Tags and lengths of the three fields, at most.
const FIELDS_BYTES: usize = 48;

/// Bytes in many places. Given up piece by piece as they are sent.
pub(crate) struct Rope {
    /// None is empty.
    pieces: VecDeque<Buffer>,
    remaining: usize,
    _lease: Option<Lease>,
}

impl Rope {
    /// A `FlightData` as gRPC frames it.
    pub(super) fn message(message: Message, lease: Lease) -> Result<Self, Error> {
        let Message { header, note, body } = message;
        let body_bytes: usize = body.iter().map(Buffer::len).sum();
        let mut head = Vec::with_capacity(PREFIX_BYTES + FIELDS_BYTES + header.len() + note.len());
        head.put_bytes(0, PREFIX_BYTES);
        put_field(&mut head, HEADER_TAG, &header);
        put_field(&mut head, NOTE_TAG, &note);
        if body_bytes > 0 {
            put_varint(&mut head, BODY_TAG);
            put_varint(&mut head, body_bytes as u64);
        }
        let remaining = head.len() + body_bytes;
        let length = u32::try_from(remaining - PREFIX_BYTES).map_err(|_| too_large(body_bytes))?;
        head[1..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());

        let body = body.into_iter().filter(|piece| !piece.is_empty());
        let pieces = std::iter::once(Buffer::from(head)).chain(body).collect();
        Ok(Self { pieces, remaining, _lease: Some(lease) })
    }
}

impl From<Bytes> for Rope {
    fn from(bytes: Bytes) -> Self {
        let remaining = bytes.len();
        let pieces = (remaining > 0).then(|| Buffer::from(bytes)).into_iter().collect();
        Self { pieces, remaining, _lease: None }
    }
}

impl Buf for Rope {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        self.pieces.front().map_or(&[], Buffer::as_slice)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let filled = slices.iter_mut().zip(&self.pieces);
        filled.map(|(slice, piece)| *slice = IoSlice::new(piece)).count()
    }

    fn advance(&mut self, mut count: usize) {
        self.remaining = self.remaining.checked_sub(count).expect("nobody advances beyond the end");
        while let Some(piece) = self.pieces.front_mut().filter(|_| count > 0) {
            if count < piece.len() {
                piece.advance(count);
                return;
            }
            count -= piece.len();
            self.pieces.pop_front();
        }
    }
}

const fn tag(field: u64) -> u64 {
    field << 3 | 2
}

/// A field of bytes; one without any is not written.
fn put_field(into: &mut Vec<u8>, tag: u64, bytes: &[u8]) {
    if !bytes.is_empty() {
        put_varint(into, tag);
        put_varint(into, bytes.len() as u64);
        into.extend_from_slice(bytes);
    }
}

fn put_varint(into: &mut Vec<u8>, value: u64) {
    prost::encoding::encode_varint(value, into);
}

fn too_large(bytes: usize) -> Error {
    let message = format!(
        "a message of {} MiB is more than gRPC can frame: leave the column with the large values out",
        bytes >> 20
    );
    Error::new(Code::Unsupported, message)
}

#[cfg(test)]
mod tests {
    use arrow_flight::FlightData;
    use penstock_daemon::Budget;
    use prost::Message as _;

    use super::*;

    fn rope(body: Vec<Buffer>) -> Rope {
        let lease = Budget::new(1).try_lease(1).unwrap();
        Rope::message(Message { header: vec![1; 200], note: b"{}".to_vec(), body }, lease).unwrap()
    }

    fn body() -> Vec<Buffer> {
        [300usize, 0, 1, 70_000].map(|length| Buffer::from(vec![7u8; length])).into()
    }

    #[test]
    fn it_reads_as_the_message_that_protobuf_writes() {
        let mut bytes = rope(body());
        assert_eq!(bytes.get_u8(), 0);
        assert_eq!(bytes.get_u32() as usize, bytes.remaining());
        let read = FlightData::decode(bytes).unwrap();
        assert_eq!((read.data_header.as_ref(), read.app_metadata.as_ref()), (&[1; 200][..], &b"{}"[..]));
        assert!(read.data_body == vec![7; 70_301]);
        let mut bare = rope(Vec::new());
        bare.advance(PREFIX_BYTES);
        assert!(FlightData::decode(bare).unwrap().data_body.is_empty());
    }

    #[test]
    fn however_it_is_taken_it_is_the_same() {
        let whole = rope(body()).copy_to_bytes(rope(body()).remaining());
        for step in [97, 299, 4096, 80_000] {
            let (mut rope, mut taken) = (rope(body()), Vec::new());
            while rope.has_remaining() {
                let mut slices = [IoSlice::new(&[]); 3];
                let filled = rope.chunks_vectored(&mut slices);
                let gathered: Vec<u8> =
                    slices[..filled].iter().map(|slice| &**slice).collect::<Vec<_>>().concat();
                assert!(gathered.starts_with(rope.chunk()) && !rope.chunk().is_empty());
                let count = step.min(gathered.len());
                taken.extend_from_slice(&gathered[..count]);
                rope.advance(count);
            }
            assert!(taken == whole);
        }
    }

    #[test]
    fn a_lease_ends_with_its_rope() {
        let budget = Budget::new(1 << 20);
        let message = Message { header: vec![], note: vec![], body: body() };
        let mut rope = Rope::message(message, budget.try_lease(70_301).unwrap()).unwrap();
        rope.advance(rope.remaining() - 1);
        assert!(budget.leased() >= 70_301);
        drop(rope);
        assert_eq!(budget.leased(), 0);
    }
}
