//! HDFS as an object store that is read from.
//!
//! A location is a path without its first slash, letter by letter. An entity tag says time and length, so that
//! demanding it costs no question: the reader is opened for that version.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::future;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::Hdfs;
use super::files::Version;

/// A longer range is read as several of this size, side by side.
const PART_BYTES: u64 = 8 << 20;
/// Parts of one range that are read at once.
const PARTS_AT_ONCE: usize = 4;

#[async_trait]
impl ObjectStore for Hdfs {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let path = absolute(location);
        let known = options.if_match.as_deref().and_then(Version::from_tag);
        let (meta, version) = match known {
            Some(version) => (meta(location.clone(), version), version),
            None => {
                let status = self.stat(&path).await.map_err(|e| e.into_object_store(&path))?;
                if status.isdir {
                    return Err(Error::NotFound { source: "it is a directory".into(), path });
                }
                let version = Version::of(&status);
                (meta(location.clone(), version), version)
            }
        };
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            Some(range) => {
                range.as_range(meta.size).map_err(|e| Error::Generic { store: "HDFS", source: e.into() })?
            }
            None => 0..meta.size,
        };
        let parts = if options.head { Vec::new() } else { parts(range.clone()) };
        // Who names a range wants it in one piece.
        let mut whole = match &options.range {
            Some(_) => BytesMut::with_capacity((range.end - range.start) as usize),
            None => BytesMut::new(),
        };
        let (hdfs, file) = (self.clone(), self.0.files.get(&path, version));
        let reads = parts.into_iter().map(move |part| {
            let (hdfs, file, path) = (hdfs.clone(), Arc::clone(&file), path.clone());
            let length = (part.end - part.start) as usize;
            let place = if whole.capacity() >= length {
                let rest = whole.split_off(length);
                std::mem::replace(&mut whole, rest)
            } else {
                BytesMut::with_capacity(length)
            };
            async move { hdfs.range(file, part, place).await.map_err(|e| e.into_object_store(&path)) }
        });
        let reads = stream::iter(reads).buffered(PARTS_AT_ONCE);
        let bytes = match &options.range {
            Some(_) => stream::once(join(reads)).boxed(),
            None => reads.map_ok(BytesMut::freeze).boxed(),
        };
        let payload = GetResultPayload::Stream(bytes);
        Ok(GetResult {
            payload,
            meta,
            range,
            attributes: Attributes::default(),
            extensions: Default::default(),
        })
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let first = prefix.cloned().unwrap_or_default();
        let walk = (self.clone(), VecDeque::from([first]));
        let levels = stream::unfold(walk, |(hdfs, mut directories)| async move {
            let directory = directories.pop_front()?;
            let level = match hdfs.list_with_delimiter(Some(&directory)).await {
                Ok(level) => {
                    directories.extend(level.common_prefixes);
                    level.objects.into_iter().map(Ok).collect()
                }
                Err(error) => vec![Err(error)],
            };
            Some((stream::iter(level), (hdfs, directories)))
        });
        levels.flatten().boxed()
    }

    /// Unlike a store without directories this tells an empty one from one that is not there.
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let path = prefix.map_or_else(|| "/".to_owned(), absolute);
        let children = self.children(&path).await.map_err(|e| e.into_object_store(&path))?;
        let mut level =
            ListResult { common_prefixes: Vec::new(), objects: Vec::new(), extensions: Default::default() };
        for child in children {
            // A file lists itself, and is not below itself.
            if child.path == path {
                continue;
            }
            let location = Path::parse(&child.path)?;
            if child.isdir {
                level.common_prefixes.push(location);
            } else {
                level.objects.push(meta(location, Version::of(&child)));
            }
        }
        Ok(level)
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(read_only())
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(read_only())
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        stream::iter([Err(read_only())]).boxed()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(read_only())
    }
}

fn absolute(location: &Path) -> String {
    format!("/{location}")
}

fn meta(location: Path, version: Version) -> ObjectMeta {
    ObjectMeta {
        location,
        last_modified: (UNIX_EPOCH + Duration::from_millis(version.modified)).into(),
        size: version.length,
        e_tag: Some(version.tag()),
        version: None,
    }
}

/// Puts neighbours back together: without a copy, unless one could not stay in its place.
async fn join(parts: impl Stream<Item = Result<BytesMut>>) -> Result<Bytes> {
    let whole = parts.try_fold(BytesMut::new(), |mut whole, part| {
        whole.unsplit(part);
        future::ready(Ok(whole))
    });
    Ok(whole.await?.freeze())
}

fn parts(range: Range<u64>) -> Vec<Range<u64>> {
    let end = range.end;
    range.step_by(PART_BYTES as usize).map(|start| start..end.min(start + PART_BYTES)).collect()
}

fn read_only() -> Error {
    Error::NotSupported { source: "datasets on HDFS are read, never written".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_range() {
        assert_eq!(parts(5..5), []);
        assert_eq!(parts(5..9), vec![5..9; 1]);
        let long = parts(3..3 + 2 * PART_BYTES + 1);
        assert_eq!(long.len(), 3);
        assert!(long.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!((long[0].start, long[2].end), (3, 4 + 2 * PART_BYTES));
    }
}
