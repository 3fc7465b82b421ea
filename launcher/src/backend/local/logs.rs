//! Files that output is written to: one a process, and the journal of all of them.
//!
//! In: bytes and lines. Out: files that only grow, up to a limit: then a file becomes `NAME.1`, in place of the one
//! before, and begins anew. The promise: a task that writes without end fills no disk, and its last bytes are there.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use crate::report::moment::rfc3339;

/// Of one file; with the one before it there may be twice as much.
const FILE_BYTES: u64 = 256 << 20;

/// A log that begins anew when it is full.
pub(super) struct Log {
    path: PathBuf,
    file: File,
    written: u64,
    limit: u64,
}

impl Log {
    /// What is there already is kept: a task that is started again goes on in its log.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::with_limit(path, FILE_BYTES)
    }

    fn with_limit(path: &Path, limit: u64) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        let written = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, written, limit })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.written > 0 && self.written + bytes.len() as u64 > self.limit {
            let mut before = self.path.clone().into_os_string();
            before.push(".1");
            std::fs::rename(&self.path, before)?;
            *self = Self::with_limit(&self.path, self.limit)?;
        }
        self.file.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

/// The lines of all processes and of the launcher itself, by time. Clones are the same journal.
#[derive(Clone)]
pub(super) struct Journal(Arc<Mutex<Log>>);

impl Journal {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(Mutex::new(Log::open(path)?))))
    }

    /// `2026-01-31T12:00:00.250Z worker:0 | line`
    pub(super) fn line(&self, name: &str, line: &[u8]) {
        let mut whole = format!("{} {name} | ", rfc3339(SystemTime::now())).into_bytes();
        whole.extend_from_slice(line);
        whole.push(b'\n');
        // A full disk must not end the training.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).write(&whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_begins_anew_and_the_one_before_is_kept() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("worker-0.log");
        for line in ["one\n", "two\n", "three\n", "a line longer than the limit\n", "end\n"] {
            // Opened each time: what a start before it wrote counts.
            Log::with_limit(&path, 10).unwrap().write(line.as_bytes()).unwrap();
        }
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
        assert_eq!(read(path.clone()), "end\n");
        assert_eq!(read(path.with_extension("log.1")), "a line longer than the limit\n");
    }

    #[test]
    fn the_journal_says_when_and_who() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("job.log");
        let journal = Journal::open(&path).unwrap();
        journal.line("worker:0", b"step 1");
        journal.clone().line("penstock", b"done");
        let text = std::fs::read_to_string(path).unwrap();
        let told: Vec<_> =
            text.lines().filter_map(|line| line.split_once(' ')).map(|(_, told)| told).collect();
        assert_eq!(told, ["worker:0 | step 1", "penstock | done"]);
    }
}
