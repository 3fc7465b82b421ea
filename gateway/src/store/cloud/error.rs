//! What can go wrong with an object store, told to the person who must set it right.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use http::StatusCode;
use penstock_proto::Code;

use super::address::Kind;
use super::fault::{Fault, How, deepest};

/// Why an object store could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CloudError {
    #[error("no object store has a setting {name:?}: use object_store's names, e.g. aws_region")]
    UnknownOption { name: String },
    #[error("the settings of {store} cannot be used: {reason}")]
    Settings { store: String, reason: String },
    #[error("cannot read {}, a file of AWS profiles", path.display())]
    Profile { path: PathBuf, source: io::Error },
    #[error("there is no {place}")]
    NotFound { place: String },
    #[error("{place} is not what was listed: it was written again or is gone")]
    Changed { place: String },
    #[error("there is no bucket {store}: check its name, the endpoint, and whose it is")]
    NoBucket { store: String },
    #[error("{place} may not be read ({reason}): {advice}")]
    Denied { place: String, reason: String, advice: &'static str },
    #[error("{store} does not accept the credentials ({reason}): {advice}")]
    Unauthenticated { store: String, reason: String, advice: &'static str },
    #[error("the credentials for {store} have expired ({reason}): {advice}")]
    Expired { store: String, reason: String, advice: &'static str },
    #[error("there are no credentials for {store} ({reason}): {advice}")]
    NoCredentials { store: String, reason: String, advice: &'static str },
    #[error("{store} lies in {}: set AWS_REGION, or --store-option aws_region=…", region.as_deref().map_or("another region", |region| region))]
    WrongRegion { store: String, region: Option<String> },
    #[error("no host of {store} can be found ({reason}): check the name, the endpoint and the network")]
    NoHost { store: String, reason: String },
    #[error(
        "{store} does not prove who it is ({reason}): check the endpoint and this machine's certificates"
    )]
    Tls { store: String, reason: String },
    #[error(
        "{place} was asked for {attempts} times in {} s ({reason}): check that the store runs and can be reached \
         from here, or give it longer with --store-option retry_timeout=…",
        after.as_secs()
    )]
    Unavailable { place: String, attempts: u32, after: Duration, reason: String },
    #[error(
        "{place} comes too slowly, a range of it not within {} s: check the network and the store",
        after.as_secs()
    )]
    Slow { place: String, after: Duration },
    #[error(
        "{place} cannot be listed, this web server does not do it ({reason}): name the files, with spaces between"
    )]
    NoListing { place: String, reason: String },
    #[error("{place} cannot be read, this server does not give ranges of a file: serve it from another")]
    NoRanges { place: String },
    #[error("{place}: the store refuses ({reason})")]
    Refused { place: String, reason: String },
    #[error(
        "{place}: the store's answer makes no sense ({reason}): check that the endpoint is that of a store"
    )]
    Nonsense { place: String, reason: String },
}

/// What was asked for, and of whom.
pub(super) struct Asked<'a> {
    pub(super) kind: Kind,
    /// The store's URI without a path.
    pub(super) root: &'a str,
    /// Below the root.
    pub(super) path: &'a str,
}

impl CloudError {
    /// The code under which it travels.
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } | Self::NoBucket { .. } | Self::Denied { .. } => Code::BadFile,
            Self::NoListing { .. } | Self::NoRanges { .. } | Self::UnknownOption { .. } => Code::Unsupported,
            Self::Changed { .. } => Code::SnapshotGone,
            _ => Code::StoreUnavailable,
        }
    }

    /// What object_store says, in our words.
    pub(super) fn new(error: &object_store::Error, asked: &Asked<'_>) -> Self {
        use object_store::Error::{NotFound, NotModified, NotSupported, Precondition};
        let place = asked.place();
        match error {
            NotFound { .. } => Self::NotFound { place },
            Precondition { .. } | NotModified { .. } => Self::Changed { place },
            NotSupported { .. } => Self::NoRanges { place },
            error => match Fault::of(error) {
                Some(fault) => Self::of_fault(&fault, asked),
                None => Self::Nonsense { place, reason: deepest(error) },
            },
        }
    }

    pub(super) fn of_fault(fault: &Fault, asked: &Asked<'_>) -> Self {
        let (store, place) = (asked.store(), asked.place());
        let (reason, advice) = (fault.to_string(), advice(asked.kind));
        match fault {
            Fault::Lasting { fault, attempts, after } => match Self::of_fault(fault, asked) {
                Self::Refused { place, reason } => {
                    Self::Unavailable { place, attempts: *attempts, after: *after, reason }
                }
                error => error,
            },
            Fault::NoCredentials(_) => Self::NoCredentials { store, reason, advice },
            Fault::Unreached { how: How::Name, .. } => Self::NoHost { store, reason },
            Fault::Unreached { how: How::Tls, .. } => Self::Tls { store, reason },
            Fault::Unreached { .. } => Self::Refused { place, reason },
            Fault::Refused { status, code, region, .. } => match (code.as_str(), status.as_u16()) {
                ("NoSuchBucket" | "ContainerNotFound" | "InvalidBucketName", _) => Self::NoBucket { store },
                ("PermanentRedirect" | "AuthorizationHeaderMalformed", _) | (_, 301 | 307) => {
                    Self::WrongRegion { store, region: region.clone() }
                }
                ("ExpiredToken" | "TokenRefreshRequired" | "RequestExpired", _) => {
                    Self::Expired { store, reason, advice }
                }
                (
                    "InvalidAccessKeyId"
                    | "SignatureDoesNotMatch"
                    | "InvalidToken"
                    | "AuthenticationFailed"
                    | "InvalidAuthenticationInfo"
                    | "RequestTimeTooSkewed",
                    _,
                )
                | (_, 401) => Self::Unauthenticated { store, reason, advice },
                (_, 403) => Self::Denied { place, reason, advice },
                (_, 405 | 501) if asked.kind == Kind::Http => Self::NoListing { place, reason },
                _ => Self::Refused { place, reason },
            },
        }
    }

    /// Whether the store said that it refuses but not why: an answer to HEAD has no words.
    pub(super) fn is_silent(error: &object_store::Error) -> bool {
        matches!(
            Fault::of(error),
            Some(Fault::Refused { status, code, .. })
                if code.is_empty() && matches!(status, StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN)
        )
    }

    /// As the readers of any store know it.
    pub(super) fn into_object_store(self, path: &str) -> object_store::Error {
        use object_store::Error;
        let path = path.to_owned();
        match self {
            Self::NotFound { .. } => Error::NotFound { path, source: self.into() },
            Self::Changed { .. } => Error::Precondition { path, source: self.into() },
            Self::Denied { .. } => Error::PermissionDenied { path, source: self.into() },
            Self::Unauthenticated { .. } => Error::Unauthenticated { path, source: self.into() },
            Self::NoListing { .. } | Self::NoRanges { .. } => Error::NotSupported { source: self.into() },
            _ => Error::Generic { store: "object store", source: self.into() },
        }
    }
}

impl Asked<'_> {
    fn store(&self) -> String {
        self.root.trim_end_matches('/').to_owned()
    }

    pub(super) fn place(&self) -> String {
        format!("{}{}", self.root, self.path)
    }
}

/// Where credentials of a family are looked for.
pub(super) fn advice(kind: Kind) -> &'static str {
    match kind {
        Kind::S3 => {
            "see that AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE or the machine's role may list \
             and read it; a public bucket needs --store-option aws_skip_signature=true"
        }
        Kind::Google => {
            "see that GOOGLE_APPLICATION_CREDENTIALS or `gcloud auth application-default login` may list and \
             read it; a public bucket needs --store-option google_skip_signature=true"
        }
        Kind::Azure => {
            "see that AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_CLIENT_ID \
             may list and read it; a public container needs --store-option azure_skip_signature=true"
        }
        Kind::Http => "this release sends web servers no credentials",
    }
}
