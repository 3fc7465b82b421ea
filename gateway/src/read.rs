//! Batches of one rank's share of one epoch, step by step.
//!
//! In: a snapshot, columns, the epoch's order, a rank's partition and the step to begin with. Out: parts
//! of steps, gathered from lanes that are decoded in parallel. The promise: never more bytes than were
//! leased for it, no decoding on the async threads, and whoever stops reading stops the reading. It knows
//! no wire: what a part looks like there is [`encode`](crate::encode)'s.

mod ahead;
mod block;
mod cache;
mod cpu;
mod decode;
mod early;
mod fetch;
mod gather;
mod hydrate;
mod lane;
mod mixed;
mod need;
mod passing;
mod pulled;
mod reading;
mod rows;
mod scan;
mod share;
mod shared;
mod source;
mod spent;
mod steps;
mod walked;

use arrow::error::ArrowError;
use parquet::errors::ParquetError;
use penstock_proto::Code;

use crate::dataset::File;
use crate::expression::Uncast;
use crate::store::StoreError;

pub(crate) use self::cache::{Content, Disk, describe};
pub(crate) use self::cpu::{Panicked, run as on_cpu};
pub use self::decode::decode_file;
pub(crate) use self::fetch::fetch;
pub(crate) use self::gather::Gathered;
pub(crate) use self::hydrate::plain_schema;
pub(crate) use self::mixed::MixedSteps;
pub(crate) use self::need::{BlockBytes, Need, block_bytes, decoding_bytes, part_rows};
pub(crate) use self::passing::{Passing, passing, selected};
pub(crate) use self::pulled::{Ask, Pulled};
pub(crate) use self::reading::Reading;
pub(crate) use self::scan::scan;
pub(crate) use self::share::{Room, Share, mib};
pub(crate) use self::shared::{Shared, View};
pub(crate) use self::source::Source;
pub(crate) use self::steps::{Steps, pulled_bytes, with_valid};

/// Why rows could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("cannot read {file}")]
    Store { file: String, source: StoreError },
    #[error(
        "{file} is gone or was replaced since the feed began: ask for the feed again to read it as it is now"
    )]
    Changed { file: String, source: StoreError },
    #[error("{file} is damaged, its footer points at byte {end} but it ends at {size}: write it again")]
    Beyond { file: String, end: u64, size: u64 },
    #[error(
        "{file}, row group {row_group}, {column}: cannot be decoded, write the file again or leave it out"
    )]
    Damaged { file: String, row_group: usize, column: String, source: ParquetError },
    #[error("{file}, row group {row_group}, {column}: is written in a way that this release does not read")]
    Unsupported { file: String, row_group: usize, column: String, source: ParquetError },
    #[error(
        "{file}, row group {row_group}: holds {found} of the {expected} rows that its footer promises, write \
         the file again or leave it out"
    )]
    Rows { file: String, row_group: usize, expected: u64, found: u64 },
    #[error(
        "{file}, row group {row_group}: the filter passes {found} rows of a block where {expected} were counted: \
         run one release in the whole fleet, remove the counts below --state, and ask for the feed again"
    )]
    Counted { file: String, row_group: usize, expected: u64, found: u64 },
    #[error("{file}, row group {row_group}")]
    Value { file: String, row_group: usize, source: Uncast },
    #[error("rows could not be put together")]
    Gather(#[source] ArrowError),
    #[error(transparent)]
    Panicked(#[from] Panicked),
    #[error(transparent)]
    NoRoom(#[from] penstock_proto::Error),
    #[error("a lane ended before its rows did")]
    Lane,
}

impl ReadError {
    /// A page that the decoder refused; `column` where one column alone is to blame.
    fn decode(file: String, row_group: usize, column: Option<String>, source: ParquetError) -> Self {
        let column =
            column.map_or_else(|| "its columns together".to_owned(), |name| format!("column {name:?}"));
        match source {
            ParquetError::NYI(_) => Self::Unsupported { file, row_group, column, source },
            _ => Self::Damaged { file, row_group, column, source },
        }
    }

    /// What was computed of a file's rows and is not to be had.
    pub(crate) fn computed(file: &File, row_group: usize, error: ArrowError) -> Self {
        match Uncast::of(&error) {
            Some(source) => Self::Value { file: file.to_string(), row_group, source: source.clone() },
            None => Self::Gather(error),
        }
    }

    /// The code under which it travels.
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::Store { source, .. } => source.code(),
            Self::Changed { .. } => Code::SnapshotGone,
            Self::Beyond { .. } | Self::Damaged { .. } | Self::Rows { .. } => Code::BadFile,
            Self::Unsupported { .. } => Code::Unsupported,
            Self::Value { .. } => Code::InvalidFeed,
            Self::NoRoom(error) => error.code,
            Self::Counted { .. } | Self::Gather(_) | Self::Panicked(_) | Self::Lane => Code::Internal,
        }
    }
}
