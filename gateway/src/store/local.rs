//! Files of this machine as an object store that is read from.
//!
//! In: paths of any UTF-8 letters. Out: locations, and the files behind them. The promise: a location is the path, letter by
//! letter, but that control characters and backslashes are escaped as in Rust's texts: what people read of it is one line, and no
//! two files have the same. It lists nothing.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::legible::{legible, meant};

const STORE: &str = "the local disk";

/// All files of this machine.
#[derive(Debug)]
pub(crate) struct LocalFiles;

impl std::fmt::Display for LocalFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(STORE)
    }
}

/// The location of an absolute path; `None` where that is not UTF-8.
pub(crate) fn location(path: &std::path::Path) -> Option<Path> {
    let text = path.to_str()?;
    if text.contains(|letter: char| letter.is_control() || letter == '\\') {
        return Path::parse(legible(text).as_ref()).ok();
    }
    Path::from_absolute_path(path).ok()
}

/// What is known of a file. Its tag changes when the file does.
pub(crate) fn meta(location: Path, metadata: &Metadata) -> io::Result<ObjectMeta> {
    let modified = metadata.modified()?;
    let since_1970 = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    let (inode, size) = (metadata.ino(), metadata.len());
    let e_tag = Some(format!("\"{inode:x}-{since_1970:x}-{size:x}\""));
    Ok(ObjectMeta { location, last_modified: modified.into(), size, e_tag, version: None })
}

#[async_trait]
impl ObjectStore for LocalFiles {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let location = location.clone();
        tokio::task::spawn_blocking(move || open(&location, &options)).await?
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::iter([Err(not_here())]).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(not_here())
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(not_here())
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(not_here())
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        stream::iter([Err(not_here())]).boxed()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(not_here())
    }
}

fn open(location: &Path, options: &GetOptions) -> Result<GetResult> {
    let path = std::path::PathBuf::from(format!("/{}", meant(location.as_ref())));
    let failed = |source: io::Error| {
        let path = location.to_string();
        match source.kind() {
            io::ErrorKind::NotFound => Error::NotFound { path, source: source.into() },
            io::ErrorKind::PermissionDenied => Error::PermissionDenied { path, source: source.into() },
            _ => Error::Generic { store: STORE, source: source.into() },
        }
    };
    let file = File::open(&path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(Error::NotFound { path: location.to_string(), source: "it is no file".into() });
    }
    let meta = meta(location.clone(), &metadata).map_err(failed)?;
    options.check_preconditions(&meta)?;
    let range = match &options.range {
        Some(range) => {
            range.as_range(meta.size).map_err(|e| Error::Generic { store: STORE, source: e.into() })?
        }
        None => 0..meta.size,
    };
    let payload = GetResultPayload::File(file, path);
    Ok(GetResult { payload, meta, range, attributes: Attributes::default(), extensions: Default::default() })
}

fn not_here() -> Error {
    Error::NotSupported { source: "files of this machine are read here, never listed or written".into() }
}
