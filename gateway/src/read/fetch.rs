//! Byte ranges of one version of one file.
//!
//! In: a store, a file as the snapshot saw it, ranges. Out: their bytes. The promise: the bytes are of
//! the very version that the snapshot listed, or the fetch fails; neighbouring ranges cost one request.
//! It knows no Parquet.

use std::fs::File as Disk;
use std::io;
use std::ops::Range;

use bytes::Bytes;
use object_store::{Error, GetOptions, GetResult, GetResultPayload, coalesce_ranges};
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, pread};
use tokio::task::spawn_blocking;

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
        async move { whole(file.store.get_opts(&meta.location, options).await?).await }
    };
    let fetched = coalesce_ranges(ranges, get, COALESCE_BYTES).await.map_err(|source| match source {
        Error::Precondition { .. } | Error::NotFound { .. } => {
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

/// All bytes of an answer. Those of a file on this machine are read here: object_store would write zeros first to where it
/// reads them.
async fn whole(answer: GetResult) -> Result<Bytes, Error> {
    let (file, path) = match answer.payload {
        GetResultPayload::File(file, path) => (file, path),
        payload @ GetResultPayload::Stream(_) => return GetResult { payload, ..answer }.bytes().await,
    };
    let read = spawn_blocking(move || read(&file, answer.range)).await?;
    read.map_err(|source| Error::Generic {
        store: "the local disk",
        source: format!("{}: {source}", path.display()).into(),
    })
}

/// As many bytes of a range as there are.
fn read(file: &Disk, range: Range<u64>) -> io::Result<Bytes> {
    let wanted = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(wanted);
    while bytes.len() < wanted {
        let offset = range.start + bytes.len() as u64;
        match pread(file, spare_capacity(&mut bytes), offset) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    bytes.truncate(wanted);
    Ok(bytes.into())
}
