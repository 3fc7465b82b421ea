//! One Flight message, its body in pieces.
//!
//! In: what IPC's writer made of a batch. Out: the description, the note and the body. The promise: the
//! body's pieces are the columns' own buffers, in their order; only what is smaller than a piece's own cost
//! is copied together. It knows neither protobuf nor gRPC: how a message looks there is the socket's side.

use arrow::buffer::Buffer;

/// A piece smaller than this costs more to hand to the kernel by itself than to copy.
const SMALL_BYTES: usize = 512;
/// What stands before a message in a stream of IPC: a mark, and the length of the description.
const PREFIX_BYTES: usize = 8;

/// What Flight sends of a batch.
pub(crate) struct Message {
    /// The flatbuffer that describes the body.
    pub(crate) header: Vec<u8>,
    /// The note in JSON; a schema has none.
    pub(crate) note: Vec<u8>,
    /// The body, to be sent in this order.
    pub(crate) body: Vec<Buffer>,
}

impl Message {
    /// Takes apart the one message that IPC's writer made of a batch.
    pub(super) fn take(written: Vec<Buffer>, note: Vec<u8>) -> Self {
        let mut buffers = written.into_iter();
        let length = buffers.next().map_or(0, |prefix| description_bytes(&prefix));
        let mut header = Vec::with_capacity(length);
        while header.len() < length {
            let Some(part) = buffers.next() else { break };
            header.extend_from_slice(&part);
        }
        let message = Self { header, note, body: join_small(buffers) };
        debug_assert_eq!(
            Some(message.body_bytes()),
            described_bytes(&message.header),
            "more than one message"
        );
        message
    }

    /// Bytes of the body.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.body.iter().map(|piece| piece.len() as u64).sum()
    }
}

fn description_bytes(prefix: &[u8]) -> usize {
    debug_assert_eq!(prefix.len(), PREFIX_BYTES);
    let length = prefix.last_chunk().map_or(0, |length| i32::from_le_bytes(*length));
    usize::try_from(length).unwrap_or(0)
}

/// How long the body is by its own description.
fn described_bytes(header: &[u8]) -> Option<u64> {
    u64::try_from(arrow::ipc::root_as_message(header).ok()?.bodyLength()).ok()
}

/// Neighbours that are small become one piece.
fn join_small(buffers: impl Iterator<Item = Buffer>) -> Vec<Buffer> {
    let mut pieces = Vec::with_capacity(buffers.size_hint().0);
    let mut small = Vec::new();
    for buffer in buffers {
        if buffer.len() < SMALL_BYTES {
            small.extend_from_slice(&buffer);
            continue;
        }
        if !small.is_empty() {
            pieces.push(Buffer::from(std::mem::take(&mut small)));
        }
        pieces.push(buffer);
    }
    if !small.is_empty() {
        pieces.push(Buffer::from(small));
    }
    pieces
}
