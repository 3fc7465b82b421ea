//! Why a feed does not open or has no next batch, in words for the trainer's user.

use std::io;

use crate::memory::MemoryError;

/// A feed cannot be opened or described.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Nobody answers at the path.
    #[error(
        "no sidecar answers at {path}: {source}; start one with `penstock sidecar --listen {path}`, or run the script with `penstock run`"
    )]
    NoSidecar {
        /// The socket.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// It answers, but not in time.
    #[error("the sidecar at {path} did not open the feed within {seconds} s; look at its log")]
    Deadline {
        /// The socket.
        path: String,
        /// How long was waited.
        seconds: u64,
    },
    /// It died meanwhile.
    #[error("the sidecar at {path} died while it opened the feed; look at its log")]
    SidecarDied {
        /// The socket.
        path: String,
    },
    /// It refused, with its own words.
    #[error("{message}")]
    Failed {
        /// Machine-readable kind.
        code: String,
        /// What happened and what to do.
        message: String,
    },
    /// A signal arrived; asking again is safe.
    #[error("interrupted by a signal")]
    Interrupted,
    /// It said something else than was asked.
    #[error(
        "the sidecar at {path} gave an answer that is not understood: {what}; install the same release of penstock on both sides"
    )]
    Protocol {
        /// The socket.
        path: String,
        /// What came.
        what: String,
    },
    /// Its memory cannot be used.
    #[error("the memory that the sidecar at {path} shares cannot be used")]
    Memory {
        /// The socket.
        path: String,
        /// Why not.
        source: MemoryError,
    },
}

/// There is no next batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NextError {
    /// The connection ended without a word.
    #[error(
        "the sidecar at {path} died; look at its log, then start the trainer again from its last checkpoint"
    )]
    SidecarDied {
        /// The socket.
        path: String,
    },
    /// [`Consumer::cancel`] was called.
    #[error("the feed was closed")]
    Cancelled,
    /// The sidecar cannot go on, in its own words.
    #[error("{message}")]
    Failed {
        /// Machine-readable kind.
        code: String,
        /// What happened, where, what to do.
        message: String,
    },
    /// Nothing came because the trainer has every slot.
    #[error(
        "all {held} slots of the feed are held by this process; copy the arrays that you keep (`batch[\"x\"].copy()`), or give the feed more memory"
    )]
    AllSlotsHeld {
        /// Batches held.
        held: usize,
    },
    /// Nothing came, though there are free slots.
    #[error("no batch came within {milliseconds} ms")]
    NotYet {
        /// How long was waited.
        milliseconds: u128,
    },
    /// A signal arrived; asking again is safe.
    #[error("interrupted by a signal")]
    Interrupted,
    /// Used in another process than it was opened in.
    #[error(
        "the feed was opened in process {opener} and is used in its forked child {child}; open it in the child"
    )]
    ForkedProcess {
        /// The process that opened it.
        opener: i32,
        /// The process that asked.
        child: i32,
    },
    /// What came contradicts itself.
    #[error("what the sidecar sent is damaged: {what}; install the same release of penstock on both sides")]
    Damaged {
        /// What contradicts what.
        what: String,
    },
}

/// What came contradicts itself.
pub(crate) fn damaged(what: &impl ToString) -> NextError {
    NextError::Damaged { what: what.to_string() }
}
