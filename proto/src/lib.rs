//! What penstock's processes say to each other.
//!
//! In: nothing. Out: ids, the feed a trainer asks for, the ticket a gateway seals, the notes that ride
//! on a stream, how batches are lent in shared memory, the standing of a delivery, and the one error code.
//! The promise: a message of a neighbour one release away is understood or refused in words, never misread.
//! This crate knows no dataset, no socket and no Arrow.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests state their expectations by unwrapping"))]

pub mod code;
pub mod compression;
pub mod delivery;
pub mod feed;
#[cfg(test)]
mod fuzz;
mod hint;
pub mod ids;
pub mod info;
pub mod loan;
pub mod mixture;
pub mod note;
pub mod ticket;
pub mod waiting;

/// Messages generated from `penstock.proto`; `tests/generated.rs` keeps them true.
#[allow(missing_docs, clippy::all, unreachable_pub)]
#[rustfmt::skip]
mod generated {
    include!("generated/penstock.v1.rs");
}

pub use code::{Code, Error};
pub use compression::Compression;
pub use feed::{Feed, FeedRequest, Remainder, Shuffle};
pub use generated::{FeedCommand, MixtureComponent};
pub use hint::{hint, sql_name};
pub use ids::{OrderRules, Rank, SnapshotId, WorldSize};
pub use info::{ComponentInfo, FeedInfo, NullsInfo};
pub use mixture::{Exhausted, Mixture};
pub use note::{Effort, Note};
pub use ticket::{Pull, Ticket, TicketKey};
