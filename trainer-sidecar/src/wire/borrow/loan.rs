//! Memory of a gateway, and what is held of it.
//!
//! In: places, and where steps end. Out: buffers that are there. The promise: the gateway is told of a place when its last
//! reader is gone, at once if a message is waited for and with some others if not; it is told to send what finds no place
//! only when what is held will not become free before that comes; the connection stands as long as anything is read.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::buffer::Buffer;
use bytes::Bytes;
use penstock_proto::loan::Word;
use penstock_ring::Borrowed;
use rustix::net::{SendFlags, send};
use tokio::net::UnixStream;

use crate::wire::Fault;

pub(super) struct Loan {
    memory: Borrowed,
    /// The stream's own descriptor goes with the stream; what was lent may outlive that.
    socket: OwnedFd,
    words: Mutex<Words>,
}

/// What is to be said, and what decides when.
#[derive(Default)]
struct Words {
    /// Words that the socket has not taken.
    unsaid: Vec<u8>,
    /// Bytes that became free and were not said to be.
    freed: u64,
    /// Places in use.
    held: usize,
    /// Those of them that are of the step which has not come whole. The others become free in their turn.
    held_of_step: usize,
    /// Steps that have come whole.
    steps: u64,
    /// A message is waited for.
    is_waiting: bool,
    /// The gateway knows that it is, and that all that is held waits for it.
    is_hungry: bool,
    /// The stream is over; the gateway takes no more notice of what is free.
    is_over: bool,
}

/// A body in use.
struct Held {
    loan: Arc<Loan>,
    place: u64,
    bytes: u64,
    /// Steps that had come whole when it came.
    step: u64,
}

impl Loan {
    pub(super) fn new(memory: Borrowed, stream: &UnixStream) -> io::Result<Self> {
        let socket = stream.as_fd().try_clone_to_owned()?;
        Ok(Self { memory, socket, words: Mutex::default() })
    }

    /// The body at a place.
    ///
    /// # Errors
    /// It is not in the memory.
    pub(super) fn body(self: &Arc<Self>, place: u64, bytes: u64) -> Result<Buffer, Fault> {
        let step = {
            let mut words = self.words();
            words.held += 1;
            words.held_of_step += 1;
            words.steps
        };
        let held = Held { loan: Arc::clone(self), place, bytes, step };
        if held.bytes().is_none() {
            return Err(Fault::Foreign("a body outside the memory that is lent"));
        }
        Ok(Buffer::from(Bytes::from_owner(held)))
    }

    /// A message was received.
    pub(super) fn received(&self) {
        let mut words = self.words();
        words.is_waiting = false;
        words.is_hungry = false;
    }

    /// A step has come whole.
    pub(super) fn step_done(&self) {
        let mut words = self.words();
        words.held_of_step = 0;
        words.steps += 1;
    }

    /// A message will be waited for: what is free is said now, and if nothing more will be, that too.
    pub(super) fn wait(&self) {
        let mut words = self.words();
        words.is_waiting = true;
        words.say_if_hungry();
        // The stream says the rest when the socket takes it.
        let _ = words.say(&self.socket);
    }

    /// Whether the socket has not taken all words.
    pub(super) fn has_unsaid(&self) -> bool {
        !self.words().unsaid.is_empty()
    }

    /// Says what is unsaid.
    ///
    /// # Errors
    /// The socket does not take it now.
    pub(super) fn say(&self) -> io::Result<()> {
        self.words().say(&self.socket)
    }

    /// No more messages are wanted.
    pub(super) fn leave(&self) {
        let mut words = self.words();
        words.is_over = true;
        words.put(Word::Enough);
        // A gateway that cannot be told sees the end of the connection.
        let _ = words.say(&self.socket);
    }

    fn words(&self) -> MutexGuard<'_, Words> {
        // Nothing panics while it is held.
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Words {
    fn say_if_hungry(&mut self) {
        if self.is_waiting && !self.is_hungry && self.held > 0 && self.held == self.held_of_step {
            self.is_hungry = true;
            self.put(Word::Hungry);
        }
    }

    fn put(&mut self, word: Word) {
        self.unsaid.extend_from_slice(&word.encode());
    }

    fn say(&mut self, socket: &OwnedFd) -> io::Result<()> {
        self.freed = 0;
        while !self.unsaid.is_empty() {
            match send(socket, &self.unsaid, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => drop(self.unsaid.drain(..count)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Err(io::ErrorKind::WouldBlock.into()),
                // Nobody is there to be told; who reads sees that.
                Err(_) => self.unsaid.clear(),
            }
        }
        Ok(())
    }
}

impl Held {
    fn bytes(&self) -> Option<&[u8]> {
        let start = usize::try_from(self.place).ok()?;
        let end = start.checked_add(usize::try_from(self.bytes).ok()?)?;
        self.loan.memory.bytes(start..end)
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.bytes().expect("a body is in use only if it lies in the memory")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut words = self.loan.words();
        words.held -= 1;
        words.held_of_step -= usize::from(self.step == words.steps);
        if words.is_over {
            return;
        }
        words.put(Word::Free { place: self.place });
        words.freed += self.bytes;
        words.say_if_hungry();
        if words.is_waiting || words.freed >= self.loan.memory.len() as u64 / 4 {
            // The stream says what the socket does not take now.
            let _ = words.say(&self.loan.socket);
        }
    }
}
