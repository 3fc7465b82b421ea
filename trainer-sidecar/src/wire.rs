//! Flight's `DoGet` over a connection of our own, or its messages in memory that a gateway here lends.
//!
//! In: an open socket and a ticket. Out: messages, each body in aligned memory that the socket was read
//! into, or that the gateway wrote. The promise: what a peer sends that HTTP/2, gRPC or Flight forbids ends the stream with an error,
//! and takes no more memory than the window and the largest message that was allowed. It knows no schema,
//! no step, and no second stream.

mod borrow;
mod download;
mod envelope;
mod fields;
mod frame;
mod incoming;
mod receiver;
mod response;
mod room;
mod sender;
mod socket;
mod window;

pub(crate) use self::borrow::Borrowing;
pub(crate) use self::download::{Download, Target};
pub(crate) use self::envelope::Message;
pub(crate) use self::incoming::Incoming;
pub(crate) use self::room::Rooms;
pub(crate) use self::socket::Socket;

use penstock_proto::{Code, Error};

/// What arrived and may not be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("the gateway broke the protocol: {0}")]
    Foreign(&'static str),
    #[error(
        "a message of {bytes} bytes is more than the {limit} bytes of memory that the feed may have: give it more with memory=, or lower batch_size"
    )]
    TooLarge { bytes: u64, limit: u64 },
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let code = match fault {
            Fault::Foreign(_) => Code::BrokenStream,
            Fault::TooLarge { .. } => Code::InvalidFeed,
        };
        Self::chain(code, &fault)
    }
}
