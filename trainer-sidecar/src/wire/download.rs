//! A stream of messages from a gateway: the I/O around a receiver.
//!
//! Whoever waits for something else lets the connection go on with [`Download::idle`]: then what was
//! allowed is still received and questions are still answered, and nothing more is allowed. Dropped, it
//! closes the connection. Every method may be dropped at any of its awaits.

use std::future::{pending, poll_fn};
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use penstock_proto::{Code, Error};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::envelope::Message;
use super::receiver::Receiver;
use super::room::Rooms;
use super::sender::Sender;
use super::socket::Socket;

/// Read at once besides a body. Little, for what of the next body comes with it is copied.
const STAGING_BYTES: usize = 16 << 10;
/// Between looks at whether the peer said anything. After one without, it is asked whether it is there; after
/// the next, it is not.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// What is said to whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) scheme: &'a str,
    pub(crate) authority: &'a str,
}

/// A stream that is being received.
pub(crate) struct Download {
    /// `None` once the stream has ended: nothing more may come, and its peer may be waiting to leave.
    socket: Option<Socket>,
    receiver: Receiver,
    staging: Box<[u8]>,
    looks: Interval,
    quiet: Quiet,
}

/// How quiet the peer has been at the looks since it last said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quiet {
    Not,
    SinceLook,
    SinceAsked,
}

/// What came of waiting.
enum Exchanged {
    Read(usize),
    /// It is time to look.
    Look,
}

impl Download {
    /// Asks for the stream of a ticket; its bytes in flight are `window` at most. Waits for the answer.
    ///
    /// # Errors
    /// What the gateway answers instead, or that it cannot.
    pub(crate) async fn open(
        socket: Socket,
        target: Target<'_>,
        ticket: &[u8],
        window: u32,
        rooms: Rooms,
    ) -> Result<Self, Error> {
        let sender = Sender::new(target.scheme, target.authority, ticket, window);
        let receiver = Receiver::new(sender, window, rooms);
        let mut looks = interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let staging = vec![0; STAGING_BYTES].into();
        let mut download = Self { socket: Some(socket), receiver, staging, looks, quiet: Quiet::Not };
        while !download.receiver.has_begun() {
            match download.receiver.end() {
                Some(Err(error)) => return Err(error),
                Some(Ok(())) => return Ok(download),
                None => download.go_on().await,
            }
        }
        Ok(download)
    }

    /// What the gateway says that the next message waits for.
    pub(crate) fn waits_for(&self) -> Option<&str> {
        self.receiver.waits_for()
    }

    /// The next message; `None` when the gateway has said that the call is complete.
    ///
    /// # Errors
    /// What the gateway says instead, or how the connection broke.
    pub(crate) async fn next(&mut self) -> Result<Option<Message>, Error> {
        loop {
            if let Some(message) = self.receiver.message() {
                return Ok(Some(message));
            }
            if let Some(end) = self.receiver.end() {
                return end.map(|()| None);
            }
            self.receiver.refund();
            self.go_on().await;
        }
    }

    /// Lets the connection go on until this is dropped.
    pub(crate) async fn idle(&mut self) {
        while !self.receiver.has_ended() {
            self.go_on().await;
        }
        pending::<()>().await;
    }

    /// Writes what waits, and reads once.
    async fn go_on(&mut self) {
        let Self { socket: Some(socket), receiver, staging, looks, quiet } = self else { return };
        let exchanged = poll_fn(|cx| match exchange(socket, receiver, staging, cx) {
            Poll::Pending => looks.poll_tick(cx).map(|_| Ok(Exchanged::Look)),
            read => read.map_ok(Exchanged::Read),
        });
        match exchanged.await {
            Ok(Exchanged::Read(0)) => receiver.fail(broken("the gateway closed the connection".to_owned())),
            Ok(Exchanged::Read(bytes)) => {
                *quiet = Quiet::Not;
                receiver.read(bytes, staging);
            }
            Ok(Exchanged::Look) => match *quiet {
                Quiet::Not => *quiet = Quiet::SinceLook,
                Quiet::SinceLook => {
                    receiver.sender.ping();
                    *quiet = Quiet::SinceAsked;
                }
                Quiet::SinceAsked => {
                    let silence = 2 * KEEP_ALIVE.as_secs();
                    receiver.fail(broken(format!("the gateway's machine is silent for {silence}s")));
                }
            },
            Err(error) => receiver.fail(Error::chain(Code::Unreachable, &error)),
        }
        if receiver.has_ended() {
            self.socket = None;
        }
    }
}

fn exchange(
    socket: &mut Socket,
    receiver: &mut Receiver,
    staging: &mut [u8],
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    while !receiver.sender.waiting().is_empty() {
        match socket.poll_write(cx, receiver.sender.waiting()) {
            Poll::Ready(written) => receiver.sender.written(written?),
            // Read on: the peer may not read before it is rid of what it wrote.
            Poll::Pending => break,
        }
    }
    if let Poll::Ready(Err(error)) = socket.poll_flush(cx) {
        return Poll::Ready(Err(error));
    }
    socket.poll_read(cx, receiver.direct(), staging)
}

fn broken(how: String) -> Error {
    Error::new(Code::Unreachable, how)
}

#[cfg(test)]
mod tests;
