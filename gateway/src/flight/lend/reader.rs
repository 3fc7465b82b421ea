//! A reader's connection: bytes out, words in.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use penstock_proto::loan::{self, Head, MOST_TICKET_BYTES, WORD_BYTES, Word};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;

/// Words that are read at once.
const WORDS: usize = 64;

pub(super) struct Reader {
    stream: UnixStream,
    read: [u8; WORDS * WORD_BYTES],
    /// Of these, how many are words that were taken, and how many were read.
    taken: usize,
    filled: usize,
}

impl Reader {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream, read: [0; WORDS * WORD_BYTES], taken: 0, filled: 0 }
    }

    /// The ticket that it greets with.
    pub(super) async fn greeting(&mut self) -> io::Result<Vec<u8>> {
        let mut greeting = [0; loan::GREETING.len()];
        self.stream.read_exact(&mut greeting).await?;
        let length = self.stream.read_u32_le().await?;
        if greeting != loan::GREETING || length > MOST_TICKET_BYTES {
            return Err(io::Error::other("it greets like no reader"));
        }
        let mut ticket = Vec::new();
        // No more memory than arrives.
        (&mut self.stream).take(length.into()).read_to_end(&mut ticket).await?;
        Ok(ticket)
    }

    /// Says how large the memory is, which goes along.
    pub(super) async fn announce(&mut self, bytes: u64, memory: BorrowedFd<'_>) -> io::Result<()> {
        let head = Head::Memory { bytes }.encode();
        let send = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let descriptors = [memory];
            let fits = control.push(SendAncillaryMessage::ScmRights(&descriptors));
            assert!(fits, "the space was made for one descriptor");
            Ok(sendmsg(&self.stream, &[IoSlice::new(&head)], &mut control, SendFlags::NOSIGNAL)?)
        };
        let sent = self.stream.async_io(Interest::WRITABLE, send).await?;
        // The descriptor is with the first byte.
        self.write(&head[sent..]).await
    }

    /// Writes all of it; the reader takes it when it can.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// The next word; `None` when the reader is gone. Cancel-safe.
    pub(super) async fn word(&mut self) -> io::Result<Option<Word>> {
        loop {
            if let Some((word, _)) = self.read[self.taken..self.filled].split_first_chunk() {
                self.taken += WORD_BYTES;
                return Ok(Some(Word::decode(*word)));
            }
            self.read.copy_within(self.taken..self.filled, 0);
            self.filled -= self.taken;
            self.taken = 0;
            match self.stream.read(&mut self.read[self.filled..]).await {
                Ok(0) => return Ok(None),
                Ok(count) => self.filled += count,
                // It left without having read all.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}
