//! How the bodies of a stream's messages are compressed.

use std::fmt;

use crate::feed::Choice;

/// A codec of Arrow's IPC format. Each buffer of a batch is compressed by itself, so that every Arrow client reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// LZ4 frames: cheap, for columns that repeat themselves.
    Lz4,
    /// Zstandard: smaller, for links that are slow.
    Zstd,
}

impl Choice for Compression {
    const NAME: &'static str = "compression";
    const ALL: &'static [Self] = &[Self::Lz4, Self::Zstd];
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        })
    }
}
