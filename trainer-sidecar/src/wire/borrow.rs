//! A stream whose bodies are lent by a gateway on this machine: the I/O around a loan.
//!
//! In: a socket and a ticket. Out: messages, each body where the gateway wrote it. The promise: what a
//! gateway says is checked before it is used; a body is the gateway's to write again only when its last
//! reader is gone, whatever becomes of the stream. Every method may be dropped at any of its awaits.

mod loan;

use std::future::pending;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use bytes::{Buf as _, BytesMut};
use penstock_proto::loan::{ALIGNMENT, HEAD_BYTES, Head, MOST_SAID_BYTES, greet, read_error};
use penstock_proto::{Code, Error};
use penstock_ring::Borrowed;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;

use self::loan::Loan;
use super::Fault;
use super::envelope::Message;
use super::room::{Room, Rooms};

/// Read at once beside bodies; several heads, for what is lent comes quickly.
const STAGING_BYTES: usize = 64 << 10;

/// A stream that is being lent.
pub(crate) struct Borrowing {
    stream: UnixStream,
    loan: Arc<Loan>,
    rooms: Rooms,
    /// Read, and not looked at.
    staging: BytesMut,
    at: At,
}

/// What the next byte belongs to.
enum At {
    Head,
    /// What follows a head.
    Said(Head),
    /// A body that found no place in the memory.
    Body {
        message: Message,
        room: Room,
        filled: usize,
    },
    Ended,
}

impl Borrowing {
    /// Asks for the stream of a ticket, and waits until it is lent memory.
    ///
    /// # Errors
    /// What the gateway answers instead, or that it cannot.
    pub(crate) async fn open(mut stream: UnixStream, ticket: &[u8], rooms: Rooms) -> Result<Self, Error> {
        stream.write_all(&greet(ticket)).await.map_err(|error| unreachable(&error))?;
        let (head, descriptor) = first(&stream).await.map_err(|error| unreachable(&error))?;
        let head = Head::decode(&head).map_err(|error| Error::chain(Code::BrokenStream, &error))?;
        let (bytes, descriptor) = match (head, descriptor) {
            (Head::Memory { bytes }, Some(descriptor)) => (bytes, descriptor),
            (Head::Failed { bytes }, None) => {
                let mut said = Vec::new();
                let read = stream.take(bytes.into()).read_to_end(&mut said).await;
                read.map_err(|error| unreachable(&error))?;
                return Err(read_error(&said));
            }
            _ => return Err(Fault::Foreign("it lends no memory").into()),
        };
        let memory = Borrowed::new(descriptor.as_fd(), bytes);
        let memory = memory.map_err(|error| Error::chain(Code::BrokenStream, &error))?;
        let loan = Loan::new(memory, &stream).map_err(|error| unreachable(&error))?;
        Ok(Self { stream, loan: Arc::new(loan), rooms, staging: BytesMut::new(), at: At::Head })
    }

    /// The next message; `None` when the gateway has said that the call is complete.
    ///
    /// # Errors
    /// What the gateway says instead, or how the connection broke.
    pub(crate) async fn next(&mut self) -> Result<Option<Message>, Error> {
        loop {
            if let Some(message) = self.take()? {
                self.loan.received();
                return Ok(Some(message));
            }
            if matches!(self.at, At::Ended) {
                return Ok(None);
            }
            self.loan.wait();
            if self.read().await.map_err(|error| unreachable(&error))? == 0 {
                return Err(Error::new(Code::Unreachable, "the gateway closed the connection"));
            }
        }
    }

    /// The last message was the last one of its step: what is held so far becomes free without any other.
    pub(crate) fn step_done(&self) {
        self.loan.step_done();
    }

    /// Lets the connection go on until this is dropped: nothing of it needs this side.
    pub(crate) async fn idle(&mut self) {
        pending::<()>().await;
    }

    /// Reads once, and meanwhile says what could not be said at once.
    async fn read(&mut self) -> io::Result<usize> {
        let Self { stream, loan, staging, at, .. } = self;
        let (mut incoming, outgoing) = stream.split();
        loop {
            let read = async {
                match at {
                    At::Body { room, filled, .. } if staging.is_empty() => {
                        let count = incoming.read(room.rest(*filled)).await?;
                        *filled += count;
                        Ok(count)
                    }
                    _ => {
                        staging.reserve(STAGING_BYTES);
                        incoming.read_buf(staging).await
                    }
                }
            };
            tokio::select! {
                biased;
                read = read => return read,
                ready = outgoing.writable(), if loan.has_unsaid() => {
                    ready?;
                    // What is left is said when the socket takes it.
                    let _ = outgoing.as_ref().try_io(Interest::WRITABLE, || loan.say());
                }
            }
        }
    }

    /// Takes a message off what was read, if it is there whole.
    fn take(&mut self) -> Result<Option<Message>, Error> {
        loop {
            match &mut self.at {
                At::Head => {
                    let Some(head) = self.staging.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
                    let head =
                        Head::decode(head).map_err(|error| Error::chain(Code::BrokenStream, &error))?;
                    self.staging.advance(HEAD_BYTES);
                    self.at = self.begin(head)?;
                }
                At::Said(Head::Message { header, note, body, place }) => {
                    let (header, note, body, place) = (*header as usize, *note as usize, *body, *place);
                    if self.staging.len() < header + note {
                        return Ok(None);
                    }
                    let mut message = Message {
                        header: self.staging[..header].to_vec(),
                        metadata: self.staging[header..header + note].to_vec(),
                        memory: body + (header + note) as u64,
                        ..Message::default()
                    };
                    self.staging.advance(header + note);
                    self.at = At::Head;
                    if let Some(place) = place {
                        message.body = self.loan.body(place, body)?;
                    } else if body > 0 {
                        self.at = At::Body { message, room: self.rooms.take(body as usize), filled: 0 };
                        continue;
                    }
                    return Ok(Some(message));
                }
                At::Said(Head::Failed { bytes }) => {
                    let bytes = *bytes as usize;
                    if self.staging.len() < bytes {
                        return Ok(None);
                    }
                    return Err(read_error(&self.staging[..bytes]));
                }
                At::Body { room, filled, .. } => {
                    let rest = room.rest(*filled);
                    let count = rest.len().min(self.staging.len());
                    self.staging.copy_to_slice(&mut rest[..count]);
                    *filled += count;
                    if !room.rest(*filled).is_empty() {
                        return Ok(None);
                    }
                    if let At::Body { message, room, .. } = std::mem::replace(&mut self.at, At::Head) {
                        return Ok(Some(Message { body: room.into_buffer(), ..message }));
                    }
                }
                At::Said(_) | At::Ended => return Ok(None),
            }
        }
    }

    /// What comes behind a head, which is checked before memory is taken for it.
    fn begin(&self, head: Head) -> Result<At, Fault> {
        match head {
            Head::Message { header, note, body, place } => {
                self.rooms.check(body)?;
                if u64::from(header) + u64::from(note) > MOST_SAID_BYTES {
                    return Err(Fault::Foreign("a description larger than any is"));
                }
                if place.is_some_and(|place| !place.is_multiple_of(ALIGNMENT)) {
                    return Err(Fault::Foreign("a body that begins where none may"));
                }
                Ok(At::Said(head))
            }
            Head::Failed { bytes } if u64::from(bytes) <= MOST_SAID_BYTES => Ok(At::Said(head)),
            Head::Complete => Ok(At::Ended),
            Head::Memory { .. } | Head::Failed { .. } => Err(Fault::Foreign("it lends memory twice")),
        }
    }
}

impl Drop for Borrowing {
    fn drop(&mut self) {
        self.loan.leave();
    }
}

/// The first head, and the descriptor that came along.
async fn first(stream: &UnixStream) -> io::Result<([u8; HEAD_BYTES], Option<OwnedFd>)> {
    let mut head = [0; HEAD_BYTES];
    let receive = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut head)];
        let received = recvmsg(stream, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        let descriptor = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        Ok((received.bytes, descriptor))
    };
    match stream.async_io(Interest::READABLE, receive).await? {
        (HEAD_BYTES, descriptor) => Ok((head, descriptor)),
        // It is sent at once, and so it arrives.
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn unreachable(error: &io::Error) -> Error {
    Error::chain(Code::Unreachable, error)
}

#[cfg(test)]
mod tests;
