//! A real HDFS for a test: `tests/hdfs/bed` as a child that ends with the test, however that ends.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::process::profile_dir;
use crate::real;

/// Lines of its log that a failed test shows.
const LAST_LINES: usize = 40;

/// A running HDFS. Dropping it ends it, and its data are gone.
pub struct Bed {
    child: Child,
    commands: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
    ready: Value,
    directory: TempDir,
}

impl Bed {
    /// Starts an HDFS with the arguments of `tests/hdfs/bed/start`. Takes 5 to 20 seconds, and minutes when
    /// Maven's cache is empty.
    ///
    /// `None`, said loudly, where there is no Java or Maven; with `CI` set that is a failure.
    pub fn start(arguments: &[&str]) -> Option<Self> {
        if let Some(missing) = real::missing(&["java", "javac", "mvn"]) {
            real::absent(missing, "install Java 17 and Maven, for a real HDFS");
            return None;
        }
        let directory = room();
        let log = File::create(directory.path().join("log")).unwrap();
        let mut child = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/hdfs/bed/start"))
            .args(arguments)
            .arg(directory.path().join("hdfs"))
            .env("PENSTOCK_HDFS_BED", built())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let commands = child.stdin.take();
        let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
        let Some(Ok(ready)) = answers.next() else {
            let status = child.wait().unwrap();
            let log = std::fs::read_to_string(directory.path().join("log")).unwrap();
            panic!("the HDFS ended before it was ready, {status}: {log}");
        };
        let ready = serde_json::from_str(&ready).unwrap();
        Some(Self { child, commands, answers, ready, directory })
    }

    /// What stands in the ready line under a name, a text.
    pub fn says(&self, name: &str) -> &str {
        self.ready[name].as_str().unwrap_or_else(|| panic!("the HDFS has no {name}"))
    }

    /// `hdfs://…` without a path.
    pub fn uri(&self) -> &str {
        self.says("uri")
    }

    /// The directory with `core-site.xml` for clients.
    pub fn conf(&self) -> &Path {
        Path::new(self.says("conf"))
    }

    /// `HOST:PORT` of every NameNode; the first is active at first.
    pub fn namenodes(&self) -> Vec<&str> {
        self.ready["namenodes"].as_array().unwrap().iter().map(|address| address.as_str().unwrap()).collect()
    }

    /// What a Java program needs to talk to it, but for [`conf`](Self::conf).
    pub fn class_path(&self) -> &str {
        self.says("classpath")
    }

    /// What makes a client take the files that DataNodes lend, those of a bed that was started with
    /// `--short-circuit`.
    pub fn short_circuit(&self) -> [(&'static str, &str); 2] {
        [("dfs.client.read.shortcircuit", "true"), ("dfs.domain.socket.path", self.says("sockets"))]
    }

    /// A place on disk that is gone with the HDFS.
    pub fn scratch(&self) -> &Path {
        self.directory.path()
    }

    /// Gives a command, waits until it is done, and returns what it says.
    pub fn command(&mut self, line: &str) -> String {
        writeln!(self.commands.as_mut().unwrap(), "{line}").unwrap();
        let answer = self.answers.next().unwrap().unwrap();
        let said = answer.strip_prefix("ok").unwrap_or_else(|| panic!("{line}: {answer}"));
        said.trim().to_owned()
    }

    /// Copies a file, or the files of a directory, into HDFS.
    pub fn put(&mut self, local: &Path, remote: &str) {
        self.command(&format!("put {} {remote}", local.display()));
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            #[expect(clippy::print_stderr, reason = "whoever looks for the reason of a failure needs it")]
            {
                eprintln!("the HDFS said last: {:#?}", &lines[lines.len().saturating_sub(LAST_LINES)..]);
            }
        }
        // It has nothing to save.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In memory where there is room: a disk takes minutes to forget tens of thousands of small files.
fn room() -> TempDir {
    const NEEDED_BYTES: u64 = 2 << 30;
    let memory = Path::new("/dev/shm");
    let free = rustix::fs::statvfs(memory).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
    if free >= NEEDED_BYTES { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// Beside the test's own profile, so that every target directory has one.
fn built() -> PathBuf {
    profile_dir().parent().unwrap().join("hdfs-bed")
}
