//! What can be wrong with a dataset, told to the person who named it.

use std::io;
use std::path::PathBuf;

use penstock_proto::{Code, sql_name};

use crate::expression::ExpressionError;
use crate::store::StoreError;
use crate::store::legible::legible;

/// What a URI looks like.
const PLACES: &[&str] = &[
    "file:///absolute/path",
    #[cfg(feature = "hdfs")]
    "hdfs://HOST:PORT/path",
    #[cfg(feature = "cloud")]
    "s3://BUCKET/path (gs, az, abfss, https alike)",
];

/// Why a dataset has no snapshot, or a snapshot not those columns.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    #[error(
        "{uri:?} is not a place this {} reads: give a path, a pattern such as data/*.parquet, {}",
        if cfg!(all(feature = "hdfs", feature = "cloud")) { "release" } else { "build" },
        PLACES.join(" or ")
    )]
    UnknownPlace { uri: String },
    #[error("{uri:?} is not a readable pattern: brackets close, and ** stands alone between slashes")]
    Pattern { uri: String, source: glob::PatternError },
    #[error("there is no {}: check the path", legible(&path.to_string_lossy()))]
    NoSuchPath { path: PathBuf },
    #[error(
        "no Parquet file in {}: a directory is searched for names that end in .parquet, and names \
         that begin with _ or . are passed over",
        legible(location)
    )]
    NoFiles { location: String },
    #[error("cannot list {}", legible(&path.to_string_lossy()))]
    List { path: PathBuf, source: io::Error },
    #[cfg(any(feature = "hdfs", feature = "cloud", test))]
    #[error("cannot list {place}")]
    ListStore { place: String, source: StoreError },
    #[cfg(feature = "hdfs")]
    #[error(transparent)]
    Hdfs(#[from] crate::store::hdfs::HdfsError),
    #[cfg(feature = "cloud")]
    #[error(transparent)]
    Cloud(#[from] crate::store::cloud::CloudError),
    #[error("{} has a name that is not UTF-8 or not a path: rename it", legible(&path.to_string_lossy()))]
    Name { path: PathBuf },
    #[error("cannot read {file}")]
    Read { file: String, source: StoreError },
    #[error("{file} is not a whole Parquet file, {reason}: write it again, or take it out of the dataset")]
    NotParquet { file: String, reason: String },
    #[error("{file} is encrypted, which this release does not read: take it out of the dataset")]
    Encrypted { file: String },
    #[error("{file} has two columns named {column:?}: write it with names of their own")]
    DuplicateColumn { file: String, column: String },
    #[error(
        "column {column:?} is {found} in {file} but {expected} in {first}: write both with the same type, make two datasets \
         of them, or leave it out with columns"
    )]
    ColumnType { file: String, column: String, found: String, first: String, expected: String },
    #[error(
        "{} names places in several stores: the files of a dataset lie in one store; make a dataset of each, and mix \
         them",
        legible(uri)
    )]
    SeveralStores { uri: String },
    #[error("{file} is named twice: name it once")]
    FileTwice { file: String },
    #[error(
        "{file} has no column {column:?} but {first} has: write it into all files, or leave it out with columns"
    )]
    MissingColumn { file: String, column: String, first: String },
    #[error(
        "{file} has a column {column:?} but {first} has not: write it into all files, or leave it out with columns"
    )]
    ExtraColumn { file: String, column: String, first: String },
    #[error("the dataset has no column {column:?}: {hint}")]
    UnknownColumn { column: String, hint: String },
    #[error(
        "codes names column {column:?}, which the feed does not have: {hint}; name none that columns or select leave out"
    )]
    UnknownText { column: String, hint: String },
    #[error("column {column:?} is asked for twice: name it once")]
    ColumnTwice { column: String },
    #[error(
        "codes names column {column:?}, which is {found}: codes are of texts, make one of it with select, such as \
         CAST({0} AS TEXT) AS {0}, or leave it out of codes",
        sql_name(column)
    )]
    NoTexts { column: String, found: String },
    #[error("select {text:?}")]
    Select { text: String, source: ExpressionError },
    #[error("filter {text:?}")]
    Filter { text: String, source: ExpressionError },
    #[error(
        "the footers of the files take {footers_mib} MiB, and at most {most_mib} of the gateway's {memory_mib} MiB may go to them: \
         give it more --memory, or write fewer and larger row groups"
    )]
    Footers { footers_mib: u64, memory_mib: u64, most_mib: u64 },
    #[error(
        "no memory became free for footers within {seconds} s: try again, or give the gateway more --memory"
    )]
    NoRoom { seconds: u64 },
    #[error("a listing or a footer could not be worked on")]
    Worker { source: tokio::task::JoinError },
}

impl DatasetError {
    /// The code under which it travels.
    pub fn code(&self) -> Code {
        match self {
            Self::UnknownPlace { .. } | Self::SeveralStores { .. } => Code::Unsupported,
            Self::Pattern { .. } | Self::FileTwice { .. } => Code::InvalidFeed,
            // A file that the listing saw and the store does not is being replaced: the next look may do.
            Self::Read { source, .. } => source.code(),
            // What is forbidden is not tried again.
            Self::List { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => Code::BadFile,
            Self::List { .. } => Code::StoreUnavailable,
            #[cfg(any(feature = "hdfs", feature = "cloud", test))]
            Self::ListStore { source, .. } => source.code(),
            #[cfg(feature = "hdfs")]
            Self::Hdfs(_) => Code::StoreUnavailable,
            #[cfg(feature = "cloud")]
            Self::Cloud(error) => error.code(),
            Self::UnknownColumn { .. } | Self::UnknownText { .. } => Code::UnknownColumn,
            Self::Select { source: ExpressionError::UnknownColumn { .. }, .. }
            | Self::Filter { source: ExpressionError::UnknownColumn { .. }, .. } => Code::UnknownColumn,
            Self::ColumnTwice { .. } | Self::NoTexts { .. } | Self::Select { .. } | Self::Filter { .. } => {
                Code::InvalidFeed
            }
            Self::Worker { .. } => Code::Internal,
            Self::NoRoom { .. } => Code::Busy,
            Self::NoSuchPath { .. }
            | Self::NoFiles { .. }
            | Self::Name { .. }
            | Self::NotParquet { .. }
            | Self::Encrypted { .. }
            | Self::Footers { .. }
            | Self::DuplicateColumn { .. }
            | Self::ColumnType { .. }
            | Self::MissingColumn { .. }
            | Self::ExtraColumn { .. } => Code::BadFile,
        }
    }
}
