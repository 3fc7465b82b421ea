//! Files that are being read, each through one reader.
//!
//! In: a path and the version that was listed. Out: a reader of that version, with the places of its blocks:
//! ours where the file lies in the clear, the crate's for all else.
//! The promise: a file is opened once as long as it is read, and a file that was replaced is an error rather
//! than other bytes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hdfs_native::client::FileStatus;
use hdfs_native::file::FileReader;
use tokio::time::Instant;

use super::blocks::Blocks;
use super::namenodes::Line;
use super::{Hdfs, HdfsError};

/// Open files that are remembered. A reader keeps the places of its file's blocks, of a large file some hundred
/// KiB.
const REMEMBERED: usize = 512;
/// Places older than this are asked for again: DataNodes that failed once may be back, and tokens of blocks
/// expire.
const FRESH: Duration = Duration::from_mins(10);

/// What tells versions of a file apart. Two writes of one length within the same millisecond are one to HDFS's
/// own clock too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version {
    /// Milliseconds since 1970.
    pub(super) modified: u64,
    /// Bytes.
    pub(super) length: u64,
}

#[derive(Default)]
pub(super) struct Files(Mutex<Table>);

#[derive(Default)]
struct Table {
    files: BTreeMap<(String, Version), (Arc<File>, u64)>,
    /// Counts uses, to tell which file was used last.
    uses: u64,
}

/// One version of a file.
pub(super) struct File {
    pub(super) path: String,
    pub(super) version: Version,
    /// Held while opening, so that many who read at once cause one call.
    current: tokio::sync::Mutex<Option<Arc<Opened>>>,
}

/// A file with the places of its blocks, as they were at a time.
pub(super) struct Opened {
    pub(super) reader: Reader,
    at: Instant,
}

/// What reads a file's bytes.
pub(super) enum Reader {
    Ours(Blocks),
    Crate(Box<FileReader>),
}

impl Version {
    pub(super) fn of(status: &FileStatus) -> Self {
        Self { modified: status.modification_time, length: status.length as u64 }
    }

    pub(super) fn tag(&self) -> String {
        format!("\"{:x}-{:x}\"", self.modified, self.length)
    }

    /// Reads what [`tag`](Self::tag) wrote.
    pub(super) fn from_tag(tag: &str) -> Option<Self> {
        let (modified, length) = tag.strip_prefix('"')?.strip_suffix('"')?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(Self { modified: number(modified)?, length: number(length)? })
    }

    fn in_words(&self) -> String {
        format!("{} bytes, written at {} ms", self.length, self.modified)
    }
}

impl Files {
    pub(super) fn get(&self, path: &str, version: Version) -> Arc<File> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.uses += 1;
        let now = table.uses;
        let (file, used) = table.files.entry((path.to_owned(), version)).or_insert_with(|| {
            let file = File { path: path.to_owned(), version, current: tokio::sync::Mutex::default() };
            (Arc::new(file), now)
        });
        *used = now;
        let file = Arc::clone(file);
        if table.files.len() > REMEMBERED {
            let oldest = table.files.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone());
            oldest.and_then(|key| table.files.remove(&key));
        }
        file
    }
}

impl File {
    /// The reader, opened if there is none.
    pub(super) async fn opened(&self, hdfs: &Hdfs) -> Result<Arc<Opened>, HdfsError> {
        let mut current = self.current.lock().await;
        let old = match &*current {
            Some(opened) if opened.at.elapsed() < FRESH => return Ok(Arc::clone(opened)),
            old => old.clone(),
        };
        let opened = match (self.open(hdfs).await, old) {
            (Ok(opened), _) => opened,
            // Old places are better than none while no NameNode answers.
            (Err(HdfsError::NoNameNode { .. }), Some(old)) => return Ok(old),
            (Err(error), _) => return Err(error),
        };
        Ok(Arc::clone(current.insert(opened)))
    }

    /// A reader that is not `worn`: the one that somebody else has opened since, or a new one.
    pub(super) async fn reopened(&self, hdfs: &Hdfs, worn: &Arc<Opened>) -> Result<Arc<Opened>, HdfsError> {
        let mut current = self.current.lock().await;
        match &*current {
            Some(opened) if !Arc::ptr_eq(opened, worn) => Ok(Arc::clone(opened)),
            _ => {
                let opened = self.open(hdfs).await?;
                Ok(Arc::clone(current.insert(opened)))
            }
        }
    }

    /// A reader of its own beside the current one.
    pub(super) async fn opened_beside(&self, hdfs: &Hdfs) -> Result<Arc<Opened>, HdfsError> {
        self.open(hdfs).await
    }

    /// Makes a reader the current one.
    pub(super) async fn prefer(&self, opened: Arc<Opened>) {
        *self.current.lock().await = Some(opened);
    }

    async fn open(&self, hdfs: &Hdfs) -> Result<Arc<Opened>, HdfsError> {
        let (path, expected, by_name) = (self.path.clone(), self.version.length, hdfs.0.uses_hostnames);
        let open = move |line: Line| {
            let path = path.clone();
            async move {
                let located = match &line.rpc {
                    Some(rpc) => rpc.locate(&path, expected).await?,
                    None => None,
                };
                let ours =
                    located.and_then(|located| Some((located.file_length, Blocks::of(located, by_name)?)));
                let client = line.client;
                let (length, reader) = match ours {
                    Some((length, blocks)) => (length, Reader::Ours(blocks)),
                    None => {
                        let reader = client.read(&path).await?;
                        (reader.file_length() as u64, Reader::Crate(Box::new(reader)))
                    }
                };
                // Asked afterwards: what is still the version that was listed was so when it was opened.
                let status = client.get_file_info(&path).await?;
                Ok((reader, length, status))
            }
        };
        let namenodes = &hdfs.0.namenodes;
        let (reader, length, status) = namenodes.ask(&self.path, hdfs.0.patience.answer, open).await?;
        // A file that is still written may have more blocks than its status knows of.
        let found = Version { length, ..Version::of(&status) };
        if found != self.version {
            return Err(HdfsError::Changed {
                path: format!("{}{}", namenodes.url(), self.path),
                found: found.in_words(),
                expected: self.version.in_words(),
            });
        }
        Ok(Arc::new(Opened { reader, at: Instant::now() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_says_the_version() {
        let version = Version { modified: 1_700_000_000_123, length: 77 };
        assert_eq!(Version::from_tag(&version.tag()), Some(version));
        for other in ["", "\"\"", "1-2", "\"1-2-3\"", "\"x-y\""] {
            assert_eq!(Version::from_tag(other), None);
        }
    }

    #[test]
    fn the_file_used_last_is_remembered() {
        let files = Files::default();
        let version = |length| Version { modified: 1, length };
        let first = files.get("/x", version(0));
        for length in 1..=REMEMBERED as u64 {
            files.get("/x", version(length));
            assert!(Arc::ptr_eq(&first, &files.get("/x", version(0))));
        }
        assert_eq!(files.0.lock().unwrap().files.len(), REMEMBERED);
    }
}
