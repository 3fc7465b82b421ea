//! Messages between a stream and its socket.
//!
//! In: messages, or the error that ends them. Out: the same, one at a time. The promise: no more bytes wait
//! than were foreseen, those counted that the socket has not taken yet; the stream waits for its reader,
//! and gives up on one that holds up a gateway that leaves.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use penstock_daemon::{Budget, Drain, Lease};
use penstock_proto::Error;
use tokio::sync::mpsc;

use crate::encode::Message;

/// A draining gateway gives a reader this long to make room for the hand-over.
const HAND_OVER: Duration = Duration::from_secs(5);

/// What the socket polls. Dropping it ends the stream behind it.
pub(crate) struct Messages(Way);

enum Way {
    Open(mpsc::UnboundedReceiver<Result<Queued, Error>>),
    /// The stream is being opened.
    Coming(Coming),
    /// It was not.
    Ended,
}

/// A stream that is being opened, for as long as it is polled.
type Coming = Pin<Box<dyn Future<Output = Result<Messages, Error>> + Send>>;

/// A message, and what was leased of the queue for it until the socket has taken it.
pub(crate) struct Queued {
    pub(super) message: Message,
    pub(super) lease: Lease,
}

/// The other end of [`Messages`].
pub(super) struct Sender {
    queue: mpsc::UnboundedSender<Result<Queued, Error>>,
    /// Bytes that may wait for the socket. The stream waits when they are leased out.
    room: Budget,
    drain: Drain,
}

/// Why a message was not sent.
pub(super) enum Unsent {
    /// The reader is gone, or does not make room for a gateway that leaves.
    Left,
    Refused(Error),
}

impl From<Error> for Unsent {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// A queue of so many bytes.
pub(super) fn queue(bytes: u64, drain: Drain) -> (Sender, Messages) {
    let (sender, messages) = mpsc::unbounded_channel();
    (Sender { queue: sender, room: Budget::new(bytes), drain }, Messages(Way::Open(messages)))
}

impl Messages {
    /// Those of a stream that is being opened, or the error that it is not.
    pub(super) fn coming(opening: Coming) -> Self {
        Self(Way::Coming(opening))
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Queued, Error>>> {
        loop {
            match &mut self.0 {
                Way::Open(messages) => return messages.poll_recv(cx),
                Way::Ended => return Poll::Ready(None),
                Way::Coming(opening) => match ready!(opening.as_mut().poll(cx)) {
                    Ok(opened) => *self = opened,
                    Err(error) => {
                        self.0 = Way::Ended;
                        return Poll::Ready(Some(Err(error)));
                    }
                },
            }
        }
    }
}

impl Sender {
    /// Queues a message when there is room for it.
    pub(super) async fn send(&self, message: Message) -> Result<(), Unsent> {
        let bytes = message.body_bytes() + message.header.len() as u64;
        let lease = match self.room.try_lease(bytes) {
            Some(lease) => lease,
            None => self.wait_for(bytes).await?,
        };
        self.queue.send(Ok(Queued { message, lease })).map_err(|_| Unsent::Left)
    }

    /// Ends the stream with an error.
    pub(super) fn fail(&self, error: Error) {
        // A reader that left needs no reason.
        let _unread = self.queue.send(Err(error));
    }

    /// Resolves when the reader is gone.
    pub(super) async fn closed(&self) {
        self.queue.closed().await;
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.drain.has_begun()
    }

    /// Waits until half of the room is free, so that of small messages not each one wakes the stream.
    async fn wait_for(&self, bytes: u64) -> Result<Lease, Unsent> {
        let mut lease = tokio::select! {
            biased;
            lease = self.room.lease(bytes.max(self.room.total() / 2)) => lease,
            () = self.hopeless() => return Err(Unsent::Left),
        };
        lease.shrink_to(bytes);
        Ok(lease)
    }

    /// Resolves when the gateway has been leaving for a while.
    async fn hopeless(&self) {
        self.drain.begun().await;
        tokio::time::sleep(HAND_OVER).await;
    }
}
