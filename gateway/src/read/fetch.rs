//! Byte ranges of one version of one file.
//!
//! In: a store, a file as the snapshot saw it, ranges. Out: their bytes. The promise: the bytes are of
//! the very version that the snapshot listed, or the fetch fails; neighbouring ranges cost one request.
//! It knows no Parquet.

use std::ops::Range;

use bytes::Bytes;
use object_store::{GetOptions, coalesce_ranges};

use super::ReadError;
use crate::dataset::File;

/// Ranges closer than this are fetched as one. Small, for what lies between them is held in memory too.
const COALESCE_BYTES: u64 = 64 << 10;

/// Fetches `ranges` of a file, in their order.
pub(crate) async fn fetch(file: &File, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, ReadError> {
    let meta = &file.meta;
    if let Some(range) = ranges.iter().find(|range| range.end > meta.size) {
        return Err(ReadError::Beyond { file: file.to_string(), end: range.end, size: meta.size });
    }
    let get = |range: Range<u64>| {
        let options = GetOptions {
            range: Some(range.into()),
            if_match: meta.e_tag.clone(),
            version: meta.version.clone(),
            ..GetOptions::default()
        };
        async move { file.store.get_opts(&meta.location, options).await?.bytes().await }
    };
    let fetched = coalesce_ranges(ranges, get, COALESCE_BYTES).await.map_err(|source| match source {
        object_store::Error::Precondition { .. } | object_store::Error::NotFound { .. } => {
            ReadError::Changed { file: file.to_string(), source: source.into() }
        }
        source => ReadError::Store { file: file.to_string(), source: source.into() },
    })?;
    // A short answer must not be taken for rows.
    match ranges.iter().zip(&fetched).find(|(range, bytes)| range.end - range.start != bytes.len() as u64) {
        Some((range, bytes)) => {
            let size = range.start + bytes.len() as u64;
            Err(ReadError::Beyond { file: file.to_string(), end: range.end, size })
        }
        None => Ok(fetched),
    }
}
