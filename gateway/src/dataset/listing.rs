//! Which files a location stands for.
//!
//! In: a location. Out: files sorted by name, each with what tells its versions apart. The promise:
//! the same tree gives the same list wherever it is mounted; names that begin with `_` or `.` (what
//! writers leave beside their data) are passed over unless the location itself names them, except `_x=…`,
//! which is a Hive partition.

#[cfg(any(feature = "hdfs", feature = "cloud", test))]
pub(super) mod remote;

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use glob::{MatchOptions, Pattern};
use object_store::ObjectMeta;

use super::DatasetError;
use crate::store::legible::legible;
use crate::store::local;

const PARQUET_ENDINGS: [&str; 3] = [".parquet", ".parq", ".pq"];
const MATCHING: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// One file of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The path below the dataset's root, with `/` between its parts.
    pub(super) name: String,
    pub(super) meta: ObjectMeta,
    /// Changes when the file does, and is the same for a copy that keeps its time.
    pub(super) version: String,
}

/// Lists a path or pattern of this machine, sorted by name. Blocks on the file system.
pub(super) fn list(path: &str) -> Result<Vec<Found>, DatasetError> {
    let text = without_stars(path);
    let path = Path::new(text);
    let mut listing = Listing::default();
    // A path that exists is meant as it stands, brackets and all.
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            listing.root = canonical(path)?;
            listing.directory(&listing.root.clone(), &mut Vec::new())?;
        }
        Ok(metadata) => {
            let file = canonical(path)?;
            listing.root = file.parent().unwrap_or(&file).to_owned();
            listing.file(&file, &metadata)?;
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => listing.pattern(text)?,
        Err(source) => return Err(DatasetError::List { path: path.to_owned(), source }),
    }
    if listing.found.is_empty() {
        return Err(DatasetError::NoFiles { location: text.to_owned() });
    }
    Ok(listing.found.into_values().collect())
}

/// Files met so far, by name: a pattern can meet one twice.
#[derive(Default)]
struct Listing {
    root: PathBuf,
    found: BTreeMap<String, Found>,
}

impl Listing {
    fn pattern(&mut self, text: &str) -> Result<(), DatasetError> {
        let (base, rest) = base_of(text).ok_or_else(|| no_such_path(text))?;
        self.root = match canonical(Path::new(base)) {
            Ok(root) => root,
            Err(DatasetError::List { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Err(no_such_path(base));
            }
            Err(e) => return Err(e),
        };
        let root = self.root.to_str().ok_or_else(|| DatasetError::Name { path: self.root.clone() })?;
        let pattern = format!("{}/{rest}", Pattern::escape(root.trim_end_matches('/')));
        let paths = glob::glob_with(&pattern, MATCHING)
            .map_err(|source| DatasetError::Pattern { uri: text.to_owned(), source })?;
        for path in paths {
            let path =
                path.map_err(|e| DatasetError::List { path: e.path().to_owned(), source: e.into() })?;
            if self.passes_over(&path) {
                continue;
            }
            let metadata = stat(&path)?;
            if metadata.is_dir() {
                self.directory(&path, &mut Vec::new())?;
            } else {
                self.file(&path, &metadata)?;
            }
        }
        Ok(())
    }

    /// Adds every Parquet file under a directory. `above` holds the directories being walked, so that a
    /// link back to one of them does not lead round and round.
    fn directory(&mut self, path: &Path, above: &mut Vec<(u64, u64)>) -> Result<(), DatasetError> {
        let metadata = stat(path)?;
        let identity = (metadata.dev(), metadata.ino());
        if above.contains(&identity) {
            return Ok(());
        }
        above.push(identity);
        let unlisted = |source| DatasetError::List { path: path.to_owned(), source };
        for entry in fs::read_dir(path).map_err(unlisted)? {
            let path = entry.map_err(unlisted)?.path();
            if self.passes_over(&path) {
                continue;
            }
            let is_parquet = path.file_name().is_some_and(|name| has_parquet_name(&name.to_string_lossy()));
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => self.directory(&path, above)?,
                Ok(metadata) if is_parquet => self.file(&path, &metadata)?,
                Ok(_) => {}
                // What is no Parquet by name may be gone or lead nowhere.
                Err(e) if e.kind() == io::ErrorKind::NotFound && !is_parquet => {}
                Err(source) => return Err(DatasetError::List { path, source }),
            }
        }
        above.pop();
        Ok(())
    }

    fn file(&mut self, path: &Path, metadata: &Metadata) -> Result<(), DatasetError> {
        let unnamed = || DatasetError::Name { path: path.to_owned() };
        let name = path.strip_prefix(&self.root).ok().and_then(Path::to_str).ok_or_else(unnamed)?.to_owned();
        if !metadata.is_file() {
            return Err(DatasetError::NotParquet {
                file: legible(&path.to_string_lossy()).into_owned(),
                reason: "it is a device, a pipe or a socket".to_owned(),
            });
        }
        let unread = |source| DatasetError::List { path: path.to_owned(), source };
        let location = local::location(path).ok_or_else(unnamed)?;
        let meta = local::meta(location, metadata).map_err(unread)?;
        let modified = metadata.modified().map_err(unread)?;
        // Without the inode: a copy on another machine of a fleet is the same file.
        let version = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string();
        self.found.insert(name.clone(), Found { name, meta, version });
        Ok(())
    }

    fn passes_over(&self, path: &Path) -> bool {
        is_passed_over(&path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy())
    }
}

/// Whether a part of a name is such as writers give to what is no data.
fn is_passed_over(name: &str) -> bool {
    name.split('/').any(|part| part.starts_with('.') || (part.starts_with('_') && !part.contains('=')))
}

/// Splits a pattern before its first special part: the directory is the root of what it finds. `None` when
/// nothing in it is special.
fn base_of(text: &str) -> Option<(&str, &str)> {
    let special = text.find(['*', '?', '['])?;
    Some(match text[..special].rfind('/') {
        Some(slash) => text.split_at(slash + 1),
        None => ("./", text),
    })
}

/// What lies below a directory is what the directory stands for.
fn without_stars(text: &str) -> &str {
    match text.strip_suffix("**") {
        Some("") => ".",
        Some("/") => "/",
        Some(directory) => directory.strip_suffix('/').unwrap_or(text),
        None => text,
    }
}

fn has_parquet_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    PARQUET_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Told in full, so that a relative path from an unexpected directory explains itself.
fn no_such_path(text: &str) -> DatasetError {
    DatasetError::NoSuchPath { path: std::path::absolute(text).unwrap_or_else(|_| text.into()) }
}

fn stat(path: &Path) -> Result<Metadata, DatasetError> {
    fs::metadata(path).map_err(|source| DatasetError::List { path: path.to_owned(), source })
}

fn canonical(path: &Path) -> Result<PathBuf, DatasetError> {
    fs::canonicalize(path).map_err(|source| DatasetError::List { path: path.to_owned(), source })
}
