//! The journal of a run, from its start and as it grows.
//!
//! In: a run directory and whose lines are wanted. Out: lines. The promise: no line comes twice and none is left out,
//! unless two files were filled between two looks.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::JOURNAL;

/// Whose lines are wanted.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// `worker`, `worker:1`, `gateway`; empty: everybody's.
    pub names: Vec<String>,
}

/// Reads on where it stopped.
pub struct Follow {
    path: PathBuf,
    reader: Option<BufReader<File>>,
    /// The begin of a line whose end is not written yet.
    pending: Vec<u8>,
}

impl Filter {
    /// Of a line as the journal has it.
    pub fn wants(&self, line: &str) -> bool {
        let name =
            line.split_once(' ').and_then(|(_, rest)| rest.split_once(" | ")).map_or("", |(name, _)| name);
        // The sidecar of a task is not the task.
        let is = |wanted: &String| {
            name == wanted || name.strip_prefix(wanted.as_str()).is_some_and(|rest| rest.starts_with(':'))
        };
        self.names.is_empty() || self.names.iter().any(is)
    }
}

impl Follow {
    pub fn new(run: &Path) -> Self {
        Self { path: run.join(JOURNAL), reader: None, pending: Vec::new() }
    }

    /// All lines that are there and have not been given out; the file before a new one is read to its end first.
    pub fn lines(&mut self, mut each: impl FnMut(&str) -> io::Result<()>) -> io::Result<()> {
        loop {
            if self.reader.is_none() {
                match File::open(&self.path) {
                    Ok(file) => self.reader = Some(BufReader::new(file)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            let Some(reader) = &mut self.reader else { return Ok(()) };
            // Asked before the end is reached: what is written to the old file comes before the new one is there.
            let is_current = is_same(reader.get_ref(), &self.path);
            while reader.read_until(b'\n', &mut self.pending)? > 0 {
                if self.pending.last() == Some(&b'\n') {
                    let line = std::mem::take(&mut self.pending);
                    each(String::from_utf8_lossy(&line).trim_end_matches('\n'))?;
                }
            }
            if is_current {
                return Ok(());
            }
            self.reader = None;
        }
    }
}

fn is_same(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.metadata()) {
        (Ok(open), Ok(named)) => open.ino() == named.ino() && open.dev() == named.dev(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn seen(follow: &mut Follow) -> Vec<String> {
        let mut lines = Vec::new();
        follow
            .lines(|line| {
                lines.push(line.to_owned());
                Ok(())
            })
            .unwrap();
        lines
    }

    #[test]
    fn lines_come_once_and_whole_through_a_new_file() {
        let run = tempfile::tempdir().unwrap();
        let path = run.path().join(JOURNAL);
        let mut follow = Follow::new(run.path());
        assert!(seen(&mut follow).is_empty());
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(seen(&mut follow), ["one"]);
        file.write_all(b"o\n").unwrap();
        std::fs::rename(&path, run.path().join("job.log.1")).unwrap();
        std::fs::write(&path, "three\n").unwrap();
        assert_eq!(seen(&mut follow), ["two", "three"]);
        assert!(seen(&mut follow).is_empty());
    }

    #[test]
    fn roles_and_tasks_are_told_apart() {
        let wants = |names: &[&str], line| {
            Filter { names: names.iter().map(|&name| name.into()).collect() }.wants(line)
        };
        let line = "2026-01-31T12:00:00.250Z worker:1 | of worker:0 | x";
        assert!(wants(&[], line) && wants(&["worker"], line) && wants(&["ps", "worker:1"], line));
        assert!(!wants(&["worker:0"], line) && !wants(&["work"], line) && !wants(&["worker:11"], line));
        assert!(!wants(&["worker:1"], "2026-01-31T12:00:00.250Z sidecar of worker:1 | x"));
    }
}
