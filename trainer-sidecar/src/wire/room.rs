//! Memory for bodies, used again once nobody reads it any more.
//!
//! A body is read from the socket into aligned memory and becomes an Arrow buffer as it lies; memory that
//! was touched before costs no page faults.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::buffer::{Buffer, MutableBuffer};
use bytes::Bytes;

use super::Fault;

/// What every piece of memory is a multiple of.
const SMALLEST: usize = 1 << 10;

/// Where memory comes from and goes to. Clones share it.
#[derive(Clone)]
pub(crate) struct Rooms(Arc<Shared>);

struct Shared {
    idle: Mutex<Idle>,
    /// Bytes that may be idle.
    keep: usize,
    /// Bytes of the largest message.
    largest: u64,
}

#[derive(Default)]
struct Idle {
    pieces: Vec<MutableBuffer>,
    bytes: usize,
}

/// Memory of one body.
pub(super) struct Room {
    memory: MutableBuffer,
    length: usize,
    from: Rooms,
}

impl Rooms {
    /// Keeps up to `keep` bytes that are not in use, and gives no more than `largest` for a message.
    pub(crate) fn new(keep: u32, largest: u64) -> Self {
        Self(Arc::new(Shared { idle: Mutex::default(), keep: keep as usize, largest }))
    }

    /// Whether a message of that size may be received at all.
    pub(super) fn check(&self, bytes: u64) -> Result<(), Fault> {
        let limit = self.0.largest;
        if bytes > limit { Err(Fault::TooLarge { bytes, limit }) } else { Ok(()) }
    }

    /// Memory for a part of a message that was checked.
    pub(super) fn take(&self, length: usize) -> Room {
        let size = size_for(length);
        let memory = self.0.idle().take(size).unwrap_or_else(|| MutableBuffer::from_len_zeroed(size));
        Room { memory, length, from: self.clone() }
    }
}

impl Shared {
    fn idle(&self) -> std::sync::MutexGuard<'_, Idle> {
        // Nothing panics while it is held.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle {
    fn take(&mut self, size: usize) -> Option<MutableBuffer> {
        let index = self.pieces.iter().position(|piece| piece.len() == size)?;
        self.bytes -= size;
        Some(self.pieces.remove(index))
    }

    /// Keeps a piece, and forgets the oldest ones for it.
    fn put(&mut self, piece: MutableBuffer, keep: usize) {
        if piece.len() > keep {
            return;
        }
        self.bytes += piece.len();
        self.pieces.push(piece);
        let mut over = 0;
        while self.bytes > keep {
            self.bytes -= self.pieces[over].len();
            over += 1;
        }
        self.pieces.drain(..over);
    }
}

/// Few sizes, so that bodies of about the same length can use one another's memory; an eighth is lost at
/// most.
fn size_for(length: usize) -> usize {
    length.next_multiple_of((length.next_power_of_two() / 16).max(SMALLEST))
}

impl Room {
    /// Bytes of memory, of which the body is a part.
    pub(super) fn size(&self) -> usize {
        self.memory.len()
    }

    /// What is not filled when the first `filled` bytes are.
    pub(super) fn rest(&mut self, filled: usize) -> &mut [u8] {
        &mut self.memory.as_slice_mut()[filled..self.length]
    }

    /// The body as Arrow reads it, where it is.
    pub(super) fn into_buffer(self) -> Buffer {
        Buffer::from(Bytes::from_owner(self))
    }
}

impl AsRef<[u8]> for Room {
    fn as_ref(&self) -> &[u8] {
        &self.memory.as_slice()[..self.length]
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let memory = std::mem::replace(&mut self.memory, MutableBuffer::new(0));
        self.from.0.idle().put(memory, self.from.0.keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_used_again_when_its_last_reader_is_gone() {
        let rooms = Rooms::new(1 << 20, u64::MAX);
        let mut room = rooms.take(100_000);
        room.rest(99_999)[0] = 7;
        let address = room.as_ref().as_ptr();
        let buffer = room.into_buffer();
        assert_eq!((buffer.as_ptr(), buffer.len(), buffer[99_999]), (address, 100_000, 7));
        assert!(address.addr().is_multiple_of(64));
        let part = buffer.slice(64);
        drop(buffer);
        assert_ne!(rooms.take(100_001).as_ref().as_ptr(), address, "it is still read");
        drop(part);
        assert_eq!(rooms.0.idle().bytes, 2 * size_for(100_000));
        let again = [rooms.take(100_001), rooms.take(99_990)];
        assert!(again.iter().any(|room| room.as_ref().as_ptr() == address));
    }

    #[test]
    fn no_more_is_idle_than_may_be() {
        let rooms = Rooms::new(10 << 10, u64::MAX);
        drop([rooms.take(4 << 10), rooms.take(3 << 10), rooms.take(5 << 10)]);
        assert_eq!(rooms.0.idle().bytes, 8 << 10, "the first was forgotten");
        drop(rooms.take(11 << 10));
        assert_eq!(rooms.0.idle().bytes, 8 << 10);
    }

    #[test]
    fn sizes_are_few_and_close() {
        for length in [1, 1000, 70_000, 4 << 20, (4 << 20) + 1, 123_456_789] {
            let size = size_for(length);
            assert!(size >= length && (size - length <= length / 8 || size <= SMALLEST * 16), "{length}");
        }
    }
}
