//! A bucket as an object store that is read from.

use std::ops::Range;

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{
    Attribute, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::address::Kind;
use super::version::{Demand, tagged};
use super::{Bucket, CloudError};

/// A range is read as several of at least this size and less than twice as much.
const PART_BYTES: u64 = 8 << 20;
/// Parts of one range that are read at once; the first wait in memory for those before them.
const PARTS_AT_ONCE: usize = 4;

#[async_trait]
impl ObjectStore for Bucket {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let demand = Demand::of(&options);
        let range = match &options.range {
            Some(GetRange::Bounded(range)) if !options.head && range.start < range.end => range.clone(),
            wanted => {
                let meta = self.stat(location).await?;
                if !demand.is_met_by(&meta) {
                    let place = self.asked(location).place();
                    return Err(CloudError::Changed { place }.into_object_store(location.as_ref()));
                }
                let range = match wanted {
                    Some(range) => range
                        .as_range(meta.size)
                        .map_err(|source| Error::Generic { store: "object store", source: source.into() })?,
                    None => 0..meta.size,
                };
                if options.head || range.is_empty() {
                    let payload = GetResultPayload::Stream(stream::empty().boxed());
                    return Ok(GetResult {
                        payload,
                        meta,
                        range,
                        attributes: Default::default(),
                        extensions: Default::default(),
                    });
                }
                range
            }
        };
        let (bucket, file) = (self.clone(), location.clone());
        let reads = parts(range.clone()).into_iter().map(move |part| {
            let (bucket, file, demand) = (bucket.clone(), file.clone(), demand.clone());
            async move {
                let part = bucket.part(&file, &demand, part).await;
                part.map_err(|error| error.into_object_store(file.as_ref()))
            }
        });
        let mut parts = stream::iter(reads).buffered(PARTS_AT_ONCE).boxed();
        let Some(first) = parts.try_next().await? else {
            return Err(Error::Generic { store: "object store", source: "an empty range".into() });
        };
        let meta = tagged(first.meta);
        let range = range.start..range.end.min(meta.size);
        let chunks = |chunks: Vec<_>| stream::iter(chunks.into_iter().map(Ok));
        let bytes = chunks(first.chunks).chain(parts.map_ok(move |part| chunks(part.chunks)).try_flatten());
        Ok(GetResult {
            payload: GetResultPayload::Stream(bytes.boxed()),
            meta,
            range,
            attributes: Default::default(),
            extensions: Default::default(),
        })
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (bucket, prefix) = (self.clone(), prefix.cloned());
        let place = prefix.clone().unwrap_or_default();
        let listed = self.0.client.list(prefix.as_ref());
        listed.map(move |meta| meta.map(tagged).map_err(|error| bucket.in_words(&place, &error))).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let listed = self.0.client.list_with_delimiter(prefix).await;
        let place = prefix.cloned().unwrap_or_default();
        let mut level = listed.map_err(|error| self.in_words(&place, &error))?;
        level.objects = level.objects.into_iter().map(tagged).collect();
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

impl Bucket {
    /// What the store says of a file.
    async fn stat(&self, location: &Path) -> Result<ObjectMeta> {
        let none = || CloudError::NotFound { place: self.asked(location).place() };
        if location.as_ref().is_empty() {
            return Err(none().into_object_store(location.as_ref()));
        }
        let options = GetOptions { head: true, ..GetOptions::default() };
        let mut answer = self.0.client.get_opts(location, options).await;
        if answer.as_ref().is_err_and(CloudError::is_silent) {
            // Without its words nobody knows what to do.
            let first_byte = GetOptions { range: Some((0..1).into()), ..GetOptions::default() };
            answer = self.0.client.get_opts(location, first_byte).await;
        }
        // Its body, if it has one, is of no use.
        let answer = answer.map(|answer| (is_page(&answer), tagged(answer.meta)));
        let is_there = match &answer {
            // A web server's page about a directory.
            Ok((is_page, _)) if self.0.address.kind == Kind::Http => !is_page,
            // What stands for a directory, in Azure's hierarchical namespaces and where consoles have made one.
            Ok((_, meta)) => meta.size > 0 || !self.has_below(location).await,
            // Who may read all below a directory may not ask for the directory itself.
            Err(error) => {
                !matches!(self.in_words(location, error), Error::PermissionDenied { .. })
                    || !self.has_below(location).await
            }
        };
        match answer {
            _ if !is_there => Err(none().into_object_store(location.as_ref())),
            Ok((_, meta)) => Ok(meta),
            Err(error) => Err(self.in_words(location, &error)),
        }
    }

    async fn has_below(&self, location: &Path) -> bool {
        let level = self.0.client.list_with_delimiter(Some(location)).await;
        level.is_ok_and(|level| !level.objects.is_empty() || !level.common_prefixes.is_empty())
    }

    fn in_words(&self, location: &Path, error: &Error) -> Error {
        CloudError::new(error, &self.asked(location)).into_object_store(location.as_ref())
    }
}

fn is_page(answer: &GetResult) -> bool {
    answer.attributes.get(&Attribute::ContentType).is_some_and(|kind| kind.starts_with("text/html"))
}

fn parts(range: Range<u64>) -> Vec<Range<u64>> {
    let count = ((range.end - range.start) / PART_BYTES).max(1);
    let bound = |part: u64| range.start + (range.end - range.start) * part / count;
    (0..count).map(|part| bound(part)..bound(part + 1)).collect()
}

fn read_only() -> Error {
    Error::NotSupported { source: "datasets in object stores are read, never written".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_range() {
        assert_eq!(parts(5..9), vec![5..9; 1]);
        assert_eq!(parts(0..2 * PART_BYTES - 1).len(), 1);
        let long = parts(3..3 + 5 * PART_BYTES + 1);
        assert_eq!((long.len(), long[0].start, long[4].end), (5, 3, 4 + 5 * PART_BYTES));
        assert!(long.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert!(long.iter().all(|part| (PART_BYTES..2 * PART_BYTES).contains(&(part.end - part.start))));
    }
}
