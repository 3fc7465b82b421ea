//! The one error code: what went wrong, and whether trying again can help.
//!
//! An error becomes a gRPC status here and comes back here, nowhere else. The code travels in a
//! metadata entry of its own, for gRPC has fewer codes than we have cases.

use std::fmt;

use tonic::metadata::MetadataValue;

/// The metadata entry that carries a [`Code`]'s name.
const CODE_HEADER: &str = "penstock-code";

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident => $grpc:ident, $retry:literal;)*) => {
        /// What kind of thing went wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// Every code, for tests and tables.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name that travels.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// The code that travels by that name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.name() == name)
            }

            /// Whether the same request may succeed later or at another gateway.
            pub fn may_retry(self) -> bool {
                match self { $(Self::$name => $retry,)* }
            }

            fn grpc(self) -> tonic::Code {
                match self { $(Self::$name => tonic::Code::$grpc,)* }
            }
        }
    };
}

codes! {
    /// No dataset of that name is served.
    UnknownDataset => NotFound, false;
    /// The dataset has no column of that name.
    UnknownColumn => InvalidArgument, false;
    /// A value of the feed makes no sense, alone or for this dataset.
    InvalidFeed => InvalidArgument, false;
    /// Sensible, but not in this release.
    Unsupported => Unimplemented, false;
    /// The ticket was not sealed by this fleet, or was edited.
    BadTicket => Unauthenticated, false;
    /// The ticket's time is over: ask for a new one.
    TicketExpired => Unauthenticated, true;
    /// The snapshot cannot be read any more.
    SnapshotGone => FailedPrecondition, false;
    /// A file is missing, truncated or corrupt.
    BadFile => DataLoss, false;
    /// The store did not answer, or refused for the moment.
    StoreUnavailable => Unavailable, true;
    /// No budget was free within the deadline.
    Busy => ResourceExhausted, true;
    /// The gateway is leaving.
    Draining => Unavailable, true;
    /// The gateway could not be reached, or the connection broke.
    Unreachable => Unavailable, true;
    /// The stream went on at another place than it must.
    BrokenStream => DataLoss, true;
    /// The reader went away.
    Cancelled => Cancelled, false;
    /// A fault of ours.
    Internal => Internal, false;
}

/// A code and one line that says what happened, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Error {
    pub code: Code,
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Writes an error and its sources as one line, outermost first.
    pub fn chain(code: Code, error: &dyn std::error::Error) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // Some libraries repeat their source in their own text.
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            source = cause.source();
        }
        Self { code, message: message.replace('\n', " ") }
    }

    pub fn may_retry(&self) -> bool {
        self.code.may_retry()
    }
}

impl From<Error> for tonic::Status {
    fn from(error: Error) -> Self {
        let mut status = Self::new(error.code.grpc(), error.message);
        status.metadata_mut().insert(CODE_HEADER, MetadataValue::from_static(error.code.name()));
        status
    }
}

impl From<tonic::Status> for Error {
    /// A status of ours keeps its code; one that gRPC itself made is read by its gRPC code.
    fn from(status: tonic::Status) -> Self {
        let named =
            status.metadata().get(CODE_HEADER).and_then(|value| value.to_str().ok()).and_then(Code::named);
        let code = named.unwrap_or(match status.code() {
            tonic::Code::InvalidArgument | tonic::Code::OutOfRange => Code::InvalidFeed,
            tonic::Code::NotFound => Code::UnknownDataset,
            tonic::Code::Unimplemented => Code::Unsupported,
            tonic::Code::Unauthenticated | tonic::Code::PermissionDenied => Code::BadTicket,
            tonic::Code::DataLoss => Code::BadFile,
            tonic::Code::ResourceExhausted => Code::Busy,
            tonic::Code::FailedPrecondition => Code::SnapshotGone,
            // A connection that breaks reaches us as one of these, whatever broke it: cancelled is what was asked
            // of one that closes at that moment.
            tonic::Code::Unavailable
            | tonic::Code::Cancelled
            | tonic::Code::Unknown
            | tonic::Code::Internal
            | tonic::Code::DeadlineExceeded
            | tonic::Code::Aborted => Code::Unreachable,
            tonic::Code::Ok | tonic::Code::AlreadyExists => Code::Internal,
        });
        let message = if status.message().is_empty() {
            format!("the gateway answered {:?}", status.code())
        } else {
            status.message().to_owned()
        };
        Self { code, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_the_wire() {
        for &code in Code::ALL {
            let error = Error::new(code, "what, where, what to do");
            assert_eq!(Error::from(tonic::Status::from(error.clone())), error);
        }
    }

    #[test]
    fn a_broken_connection_may_be_retried() {
        for status in [
            tonic::Status::unavailable("x"),
            tonic::Status::unknown("x"),
            tonic::Status::internal("h2"),
            tonic::Status::cancelled("operation was canceled"),
        ] {
            assert!(Error::from(status).may_retry());
        }
        assert!(!Error::from(tonic::Status::not_found("x")).may_retry());
    }
}
