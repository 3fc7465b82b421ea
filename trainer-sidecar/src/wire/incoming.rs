//! A stream, whichever way it comes.

use penstock_proto::Error;

use super::borrow::Borrowing;
use super::download::Download;
use super::envelope::Message;

/// A stream that is being received. Every method may be dropped at any of its awaits.
pub(crate) enum Incoming {
    Http(Box<Download>),
    Lent(Box<Borrowing>),
}

impl Incoming {
    /// The next message; `None` when the gateway has said that the call is complete.
    ///
    /// # Errors
    /// What the gateway says instead, or how the connection broke.
    pub(crate) async fn next(&mut self) -> Result<Option<Message>, Error> {
        match self {
            Self::Http(download) => download.next().await,
            Self::Lent(borrowing) => borrowing.next().await,
        }
    }

    /// What the gateway says that the next message waits for. What has to wait is not lent.
    pub(crate) fn waits_for(&self) -> Option<&str> {
        match self {
            Self::Http(download) => download.waits_for(),
            Self::Lent(_) => None,
        }
    }

    /// The last message was the last one of its step.
    pub(crate) fn step_done(&self) {
        match self {
            Self::Http(_) => {}
            Self::Lent(borrowing) => borrowing.step_done(),
        }
    }

    /// Lets the connection go on until this is dropped; it brings no more than was allowed.
    pub(crate) async fn idle(&mut self) {
        match self {
            Self::Http(download) => download.idle().await,
            Self::Lent(borrowing) => borrowing.idle().await,
        }
    }
}
