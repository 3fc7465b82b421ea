//! Streams whose batches are lent in shared memory, to readers on this machine.
//!
//! In: a connection that greeted, and who opens streams. Out: the messages of a ticket's stream, their bodies
//! copied once, to where the reader maps them. The promise: what a reader still holds is not written; a
//! reader that holds all, or says nonsense, or dies keeps its own stream's memory and nothing else, and when
//! it is gone all of that comes back. It knows no dataset and no column.

mod held;
mod reader;

use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use arrow::buffer::Buffer;
use metrics::{Counter, counter};
use penstock_daemon::Drain;
use penstock_proto::loan::{self, Head, Word};
use penstock_proto::{Code, Error};
use penstock_ring::Lent;
use tokio::net::UnixStream;
use tokio::time::timeout;

use self::held::Held;
use self::reader::Reader;
use super::queue::{Messages, Queued};
use crate::read::on_cpu;

/// Who has not said its ticket by then is hung up on.
const GREETING: Duration = Duration::from_secs(10);
/// Parts that the memory has room for at least, so that the reader may hold some while others are copied.
pub(super) const PARTS: u64 = 4;
const PAGE_BYTES: u64 = 4 << 10;

/// Who opens streams that are lent.
pub(super) trait Lender: Send + Sync {
    /// What stands for bytes that may be lent.
    type Room: Send;

    /// Opens the stream of a ticket.
    fn open(&self, ticket: &[u8]) -> impl Future<Output = Result<Opened<Self::Room>, Error>> + Send;
}

/// A stream that may be lent.
pub(super) struct Opened<R> {
    pub(super) messages: Messages,
    /// Bytes of messages that there is room for.
    pub(super) bytes: u64,
    pub(super) room: R,
}

/// One reader's stream.
struct Loan {
    reader: Reader,
    memory: Lent,
    held: Held,
    /// Nothing is there for the reader to read, and what it holds will not become free before there is.
    is_hungry: bool,
    lent: Counter,
}

/// How a stream ended for its reader.
enum Ended {
    /// All was said.
    Said,
    /// The reader wants no more.
    Unwanted,
    /// The reader is gone.
    Gone,
}

/// Serves a connection to its end.
///
/// # Errors
/// It broke, or the reader said what is not to be said.
pub(super) async fn lend(stream: UnixStream, lender: &impl Lender, drain: &Drain) -> io::Result<()> {
    let mut reader = Reader::new(stream);
    let ticket = timeout(GREETING, reader.greeting()).await.map_err(|_| io::ErrorKind::TimedOut)??;
    // A reader that leaves meanwhile is found out by what is written to it.
    let (memory, messages, _room) = match open(lender, &ticket).await {
        Ok(opened) => opened,
        Err(error) => return fail(&mut reader, &error).await,
    };
    reader.announce(memory.len() as u64, memory.reader().as_fd()).await?;
    let held = Held::new(memory.len() as u64);
    let lent = counter!("penstock_gateway_lent_bytes_total");
    let mut loan = Loan { reader, memory, held, is_hungry: false, lent };
    match loan.send_all(messages).await? {
        Ended::Gone => loan.memory.take_back(),
        Ended::Said | Ended::Unwanted => tokio::select! {
            gone = loan.reader_gone() => {
                gone?;
                loan.memory.take_back();
            }
            // Its reader keeps the memory alive for as long as it needs it.
            () = drain.begun() => {}
        },
    }
    Ok(())
}

async fn open<L: Lender>(lender: &L, ticket: &[u8]) -> Result<(Lent, Messages, L::Room), Error> {
    let Opened { messages, bytes, room } = lender.open(ticket).await?;
    let memory = on_cpu(move || Lent::create(bytes.next_multiple_of(PAGE_BYTES))).await;
    let memory = memory.map_err(|panic| Error::chain(Code::Internal, &panic))?;
    Ok((memory.map_err(|error| Error::chain(Code::Busy, &error))?, messages, room))
}

async fn fail(reader: &mut Reader, error: &Error) -> io::Result<()> {
    let said = loan::put_error(error);
    let bytes = u32::try_from(said.len()).unwrap_or(u32::MAX);
    reader.write(&[&Head::Failed { bytes }.encode()[..], &said].concat()).await
}

impl Loan {
    /// Sends messages until they end or nobody wants them.
    async fn send_all(&mut self, mut messages: Messages) -> io::Result<Ended> {
        // One that finds no place waits for the reader, and all behind it.
        let mut waiting = None;
        loop {
            tokio::select! {
                biased;
                word = self.reader.word() => match word? {
                    None => return Ok(Ended::Gone),
                    Some(Word::Enough) => return Ok(Ended::Unwanted),
                    Some(word) => self.take_in(word)?,
                },
                message = poll_fn(|cx| messages.poll_next(cx)), if waiting.is_none() => match message {
                    Some(Ok(message)) => waiting = Some(message),
                    Some(Err(error)) => {
                        fail(&mut self.reader, &error).await?;
                        return Ok(Ended::Said);
                    }
                    None => {
                        self.reader.write(&Head::Complete.encode()).await?;
                        return Ok(Ended::Said);
                    }
                },
            }
            if let Some(message) = waiting.take() {
                waiting = self.send(message).await?;
            }
        }
    }

    /// Sends a message, unless it has to wait for a place. Copying is no more work here than a socket's is.
    async fn send(&mut self, message: Queued) -> io::Result<Option<Queued>> {
        let body = message.message.body_bytes();
        let place = if body == 0 { None } else { self.held.place(body) };
        if place.is_none() && body <= self.held.size() && body > 0 && !self.is_hungry {
            return Ok(Some(message));
        }
        if let Some(place) = place {
            self.lent.increment(body);
            copy(&message.message.body, &mut self.memory.bytes_mut()[place as usize..]);
        }
        let lengths =
            (u32::try_from(message.message.header.len()), u32::try_from(message.message.note.len()));
        let (Ok(header), Ok(note)) = lengths else {
            return Err(io::Error::other("a batch's description is larger than any is"));
        };
        let head = Head::Message { header, note, body, place }.encode();
        self.reader.write(&[&head[..], &message.message.header, &message.message.note].concat()).await?;
        if place.is_none() {
            for piece in &message.message.body {
                self.reader.write(piece).await?;
            }
        }
        self.is_hungry = false;
        Ok(None)
    }

    fn take_in(&mut self, word: Word) -> io::Result<()> {
        match word {
            Word::Free { place } if !self.held.free(place) => {
                Err(io::Error::other("the reader gives back what it does not have"))
            }
            Word::Free { .. } | Word::Enough => Ok(()),
            Word::Hungry => {
                self.is_hungry = true;
                Ok(())
            }
        }
    }

    /// Waits for a reader that still holds some to be gone.
    async fn reader_gone(&mut self) -> io::Result<()> {
        while let Some(word) = self.reader.word().await? {
            self.take_in(word)?;
        }
        Ok(())
    }
}

fn copy(body: &[Buffer], mut into: &mut [u8]) {
    for piece in body {
        let (place, rest) = into.split_at_mut(piece.len());
        place.copy_from_slice(piece);
        into = rest;
    }
}
