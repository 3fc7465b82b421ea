//! What went wrong, for both borders: a number for C, a code for TensorFlow, one line for the user.
//!
//! *In:* the ring's errors and our own. *Out:* [`Failure`]. *Promise:* numbers never change meaning;
//! every text names the feed it is about.

use std::error::Error;

use penstock_ring::{NextError, OpenError};

/// The numbers that the C ABI returns; 0 is success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Kind {
    /// The feed is at its end.
    End = 1,
    /// Nothing came within the deadline; ask again.
    NotYet = 2,
    /// A signal arrived; ask again.
    Interrupted = 3,
    /// The sidecar died.
    SidecarDied = 4,
    /// The feed was closed.
    Cancelled = 5,
    /// The sidecar says why it cannot go on, or refuses.
    Failed = 6,
    /// Every slot is held by this process.
    AllSlotsHeld = 7,
    /// Used in a forked child.
    Forked = 8,
    /// What came contradicts itself.
    Damaged = 9,
    /// Nobody listens at the socket, or nobody answers.
    NoSidecar = 10,
    /// The caller's mistake.
    Argument = 11,
    /// Our mistake.
    Fault = 12,
}

/// One failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    /// The sidecar's code, where it gave one.
    pub(crate) code: String,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Failure {
        Failure { kind, code: String::new(), message: message.into() }
    }

    pub(crate) fn open(name: &str, error: &OpenError) -> Failure {
        let (kind, code) = match error {
            OpenError::NoSidecar { .. } | OpenError::Deadline { .. } => (Kind::NoSidecar, ""),
            OpenError::SidecarDied { .. } => (Kind::SidecarDied, ""),
            OpenError::Failed { code, .. } => (Kind::Failed, code.as_str()),
            OpenError::Interrupted => (Kind::Interrupted, ""),
            OpenError::Protocol { .. } | OpenError::Memory { .. } => (Kind::Damaged, ""),
        };
        Failure { kind, code: code.into(), message: format!("feed '{name}': {}", chain(error)) }
    }

    pub(crate) fn next(name: &str, error: &NextError) -> Failure {
        let (kind, code) = match error {
            NextError::SidecarDied { .. } => (Kind::SidecarDied, ""),
            NextError::Cancelled => (Kind::Cancelled, ""),
            NextError::Failed { code, .. } => (Kind::Failed, code.as_str()),
            NextError::AllSlotsHeld { .. } => (Kind::AllSlotsHeld, ""),
            NextError::NotYet { .. } => (Kind::NotYet, ""),
            NextError::Interrupted => (Kind::Interrupted, ""),
            NextError::ForkedProcess { .. } => (Kind::Forked, ""),
            NextError::Damaged { .. } => (Kind::Damaged, ""),
        };
        Failure { kind, code: code.into(), message: format!("feed '{name}': {error}") }
    }

    /// The code of `tensorflow::error::Code` that fits best.
    pub(crate) fn tensorflow(&self) -> i32 {
        const CANCELLED: i32 = 1;
        const INVALID_ARGUMENT: i32 = 3;
        const NOT_FOUND: i32 = 5;
        const RESOURCE_EXHAUSTED: i32 = 8;
        const FAILED_PRECONDITION: i32 = 9;
        const OUT_OF_RANGE: i32 = 11;
        const INTERNAL: i32 = 13;
        const UNAVAILABLE: i32 = 14;
        const DATA_LOSS: i32 = 15;
        match self.kind {
            Kind::End => OUT_OF_RANGE,
            Kind::SidecarDied | Kind::NoSidecar | Kind::NotYet | Kind::Interrupted => UNAVAILABLE,
            Kind::Cancelled => CANCELLED,
            Kind::AllSlotsHeld => RESOURCE_EXHAUSTED,
            Kind::Forked => FAILED_PRECONDITION,
            Kind::Damaged => DATA_LOSS,
            Kind::Argument => INVALID_ARGUMENT,
            Kind::Fault => INTERNAL,
            Kind::Failed => match self.code.as_str() {
                "UnknownDataset" => NOT_FOUND,
                "UnknownColumn" | "InvalidFeed" | "Unsupported" => INVALID_ARGUMENT,
                "BadFile" | "BrokenStream" => DATA_LOSS,
                "StoreUnavailable" | "Draining" | "Unreachable" => UNAVAILABLE,
                "Busy" => RESOURCE_EXHAUSTED,
                "SnapshotGone" => FAILED_PRECONDITION,
                _ => INTERNAL,
            },
        }
    }
}

/// An error and its sources as one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let part = error.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_sidecar_is_unavailable_and_names_itself_and_its_feed() {
        let failure = Failure::next("train", &NextError::SidecarDied { path: "/run/s.sock".into() });
        assert_eq!((failure.kind, failure.tensorflow()), (Kind::SidecarDied, 14));
        assert!(failure.message.starts_with("feed 'train': the sidecar at /run/s.sock died"), "{failure}");
    }

    #[test]
    fn the_sidecars_code_decides_tensorflows() {
        let failed = |code: &str| NextError::Failed { code: code.into(), message: "m".into() };
        assert_eq!(Failure::next("f", &failed("UnknownDataset")).tensorflow(), 5);
        assert_eq!(Failure::next("f", &failed("BadFile")).tensorflow(), 15);
        assert_eq!(Failure::next("f", &failed("a code of a later release")).tensorflow(), 13);
    }
}
