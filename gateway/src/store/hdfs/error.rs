//! What can go wrong with HDFS, told to the person who must set it right.

use std::path::PathBuf;
use std::time::Duration;

use hdfs_native::HdfsError as Native;

/// Why HDFS could not be read.
#[derive(Debug, thiserror::Error)]
pub enum HdfsError {
    #[error("cannot read the Hadoop configuration {}", path.display())]
    Configuration { path: PathBuf, source: std::io::Error },
    #[error("the Hadoop configuration {} is not XML", path.display())]
    Xml { path: PathBuf, source: roxmltree::Error },
    #[error("cannot read the token file {} of HADOOP_TOKEN_FILE_LOCATION", path.display())]
    Tokens { path: PathBuf, source: std::io::Error },
    #[error("{uri} names no cluster: {reason}")]
    NoCluster { uri: String, reason: String },
    #[error("the settings of {cluster} cannot be used")]
    Settings { cluster: String, source: Native },
    #[error(
        "no NameNode of {cluster} answered in {} s ({tried}): check that they run and can be reached from here, \
         and that the Hadoop configuration names the right ones",
        after.as_secs()
    )]
    NoNameNode { cluster: String, after: Duration, tried: String },
    #[error(
        "{cluster} does not accept who is asking ({reason}): check the ticket (klist, kinit), the keytab and its \
         principal, or the token file of HADOOP_TOKEN_FILE_LOCATION"
    )]
    Unauthenticated { cluster: String, reason: String },
    #[error("{path} may not be read ({reason}): ask its owner for access, or ask as another user")]
    Denied { path: String, reason: String },
    #[error("there is no {path}")]
    NotFound { path: String },
    #[error("{path} is not what was listed: it has {found}, expected was {expected}")]
    Changed { path: String, found: String, expected: String },
    #[error("the NameNode refuses {path}: {reason}")]
    Refused { path: String, reason: String },
    #[error(
        "no DataNode gave bytes {start} to {end} of {path} in {attempts} attempts over {} s ({reason}): check \
         that its DataNodes run and can be reached from here (hdfs fsck {path} -files -blocks -locations)",
        after.as_secs()
    )]
    NoDataNode { path: String, start: u64, end: u64, attempts: u32, after: Duration, reason: String },
    #[error("{path} is written in a way that this release does not read: {reason}")]
    Unsupported { path: String, reason: String },
}

impl HdfsError {
    /// As the readers of any store know it. `path` is what they asked for.
    pub(super) fn into_object_store(self, path: &str) -> object_store::Error {
        use object_store::Error;
        let path = path.to_owned();
        match self {
            Self::NotFound { .. } => Error::NotFound { path, source: self.into() },
            Self::Changed { .. } => Error::Precondition { path, source: self.into() },
            Self::Denied { .. } => Error::PermissionDenied { path, source: self.into() },
            Self::Unauthenticated { .. } => Error::Unauthenticated { path, source: self.into() },
            Self::Unsupported { .. } => Error::NotSupported { source: self.into() },
            _ => Error::Generic { store: "HDFS", source: self.into() },
        }
    }
}

/// A failed call in a few words, for a list of what was tried.
pub(super) fn in_words(error: &Native) -> String {
    match error {
        Native::IOError(e) => e.to_string(),
        Native::RPCError(exception, text) | Native::FatalRPCError(exception, text) => remote(exception, text),
        // The crate prints every field of every replica.
        Native::DataTransferError(text) if text.starts_with("All DataNodes failed: []") => {
            "no DataNode is known to hold them".to_owned()
        }
        Native::DataTransferError(text) if text.starts_with("All DataNodes failed") => {
            "none of the DataNodes that hold them could be read".to_owned()
        }
        Native::GSSAPIError(_, _, text) | Native::SASLError(text) => first_line(text).to_owned(),
        Native::ChecksumError => "the bytes do not match their checksums".to_owned(),
        error => first_line(&error.to_string()).to_owned(),
    }
}

/// An exception without its package and its stack.
pub(super) fn remote(exception: &str, text: &str) -> String {
    let name = exception.rsplit('.').next().unwrap_or(exception);
    format!("{name}: {}", first_line(text))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
