//! An S3 for a test: `tests/objectstore/bed.py` as a child that ends with the test, however that ends.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tempfile::TempDir;

use crate::data::{self, Shape};
use crate::real;

/// A running S3. Dropping it ends it, and its data are gone.
pub struct Moto {
    child: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    /// `http://HOST:PORT`.
    pub endpoint: String,
    directory: TempDir,
}

impl Moto {
    /// `None`, said loudly, where no Python has moto; with `CI` set that is a failure.
    pub fn start() -> Option<Self> {
        let python = python()?;
        let directory = tempfile::tempdir().unwrap();
        let mut child = Command::new(python)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/objectstore/bed.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(directory.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
        let Some(Ok(endpoint)) = answers.next() else {
            let status = child.wait().unwrap();
            let log = std::fs::read_to_string(directory.path().join("log")).unwrap();
            panic!("moto ended before it was ready, {status}: {log}");
        };
        Some(Self { child, commands, answers, endpoint, directory })
    }

    /// Gives a command, waits until it is done, and returns what it says.
    pub fn command(&mut self, line: &str) -> String {
        writeln!(self.commands, "{line}").unwrap();
        let answer = self.answers.next().unwrap().unwrap();
        let said = answer.strip_prefix("ok").unwrap_or_else(|| panic!("{line}: {answer}"));
        said.trim().to_owned()
    }

    /// Puts rows of a shape below a URI.
    pub fn put(&mut self, shape: Shape, uri: &str) {
        let local = self.directory.path().join("rows");
        data::write(&local, shape);
        self.copy(&local, uri);
        std::fs::remove_dir_all(local).unwrap();
    }

    /// Copies a file, or the files of a directory.
    pub fn copy(&mut self, local: &Path, uri: &str) {
        self.command(&format!("put {} {uri}", local.display()));
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        // It has nothing to save.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn python() -> Option<PathBuf> {
    let remedy = "run `make test`, or set PENSTOCK_PYTHON to a Python that has it";
    let python = std::env::var_os("PENSTOCK_PYTHON").map(PathBuf::from);
    let has_moto = |python: &PathBuf| {
        let asked =
            Command::new(python).args(["-c", "import moto, boto3, flask"]).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    };
    let found = python.filter(has_moto);
    if found.is_none() {
        real::absent("moto", remedy);
    }
    found
}
