//! The run directory: logs, key, sockets, summary.
//!
//! In: a job and the moment. Out: directories that exist. The promise: a run never writes over another's;
//! the ticket key is readable by its owner alone.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::TempDir;

use crate::job::Job;
use crate::report::moment;
use crate::runs;
use crate::topology::{TaskId, Topology};

/// Beside those of sidecars, none of which is called so.
const GATEWAY_SOCKET: &str = "gateway.sock";
/// A Unix socket's path has 107 bytes; a margin for what a daemon appends to it while it binds.
const SOCKET_PATH_BYTES: usize = 90;

/// The directories of a run.
#[derive(Debug)]
pub(super) struct RunDir {
    /// Absolute.
    pub(super) path: PathBuf,
    sockets: PathBuf,
    /// Holds the sockets where the run directory's own path is too long; removed at the end.
    _short: Option<TempDir>,
}

/// A run directory that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    #[error("the run directory {} holds a run already: name another with --run-dir", .0.display())]
    Used(PathBuf),
    #[error("cannot make {}", path.display())]
    Make { path: PathBuf, source: io::Error },
}

impl RunDir {
    pub(super) fn create(job: &Job, topology: &Topology, now: SystemTime) -> Result<Self, RunDirError> {
        let path = place_run(job, now)?;
        make(&path.join("logs"), 0o755)?;
        let own = path.join("sockets");
        let names = topology.tasks.iter().map(|task| socket_name(task.id).len());
        let name_bytes = names.max().unwrap_or(0).max(GATEWAY_SOCKET.len());
        let (sockets, short) = if own.as_os_str().len() + 1 + name_bytes <= SOCKET_PATH_BYTES {
            (own, None)
        } else {
            let fail = |source| RunDirError::Make { path: std::env::temp_dir(), source };
            let short = tempfile::Builder::new().prefix("penstock-").tempdir().map_err(fail)?;
            (short.path().join("sockets"), Some(short))
        };
        make(&sockets, 0o700)?;
        Ok(Self { path, sockets, _short: short })
    }

    pub(super) fn log(&self, file_stem: &str) -> PathBuf {
        self.path.join("logs").join(format!("{file_stem}.log"))
    }

    pub(super) fn socket(&self, task: TaskId) -> PathBuf {
        self.sockets.join(socket_name(task))
    }

    pub(super) fn gateway_socket(&self) -> PathBuf {
        self.sockets.join(GATEWAY_SOCKET)
    }

    /// A new key for the job's gateways, 32 random bytes in hexadecimal.
    pub(super) fn ticket_key(&self) -> Result<PathBuf, RunDirError> {
        let path = self.path.join("ticket.key");
        let fail = |source| RunDirError::Make { path: path.clone(), source };
        let mut secret = [0; 32];
        std::fs::File::open("/dev/urandom")
            .and_then(|mut source| source.read_exact(&mut secret))
            .map_err(fail)?;
        let text: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(fail)?;
        Ok(path)
    }
}

fn socket_name(task: TaskId) -> String {
    format!("{}.sock", task.file_stem())
}

/// The directory of a run that begins now; absolute, and there.
pub(crate) fn place_run(job: &Job, now: SystemTime) -> Result<PathBuf, RunDirError> {
    match &job.run_dir {
        Some(path) => chosen(path),
        None => fresh(&job.name, now),
    }
}

/// A directory of the user's choice: may exist, must not hold a run.
fn chosen(path: &Path) -> Result<PathBuf, RunDirError> {
    let fail = |source| RunDirError::Make { path: path.to_owned(), source };
    let absolute = std::path::absolute(path).map_err(fail)?;
    if absolute.join("logs").exists() || absolute.join("summary.json").exists() {
        return Err(RunDirError::Used(absolute));
    }
    make(&absolute, 0o755)?;
    Ok(absolute)
}

/// `penstock-runs/NAME-TIME`, numbered where two runs begin in the same second.
fn fresh(name: &str, now: SystemTime) -> Result<PathBuf, RunDirError> {
    let fail = |source| RunDirError::Make { path: PathBuf::from(runs::DIRECTORY), source };
    let all = std::path::absolute(runs::DIRECTORY).map_err(fail)?;
    make(&all, 0o755)?;
    let time = moment::compact(now);
    let mut path = all.join(format!("{name}-{time}"));
    for number in 2.. {
        match std::fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                path = all.join(format!("{name}-{time}-{number}"));
            }
            Err(source) => return Err(RunDirError::Make { path, source }),
            Ok(()) => break,
        }
    }
    Ok(path)
}

fn make(path: &Path, mode: u32) -> Result<(), RunDirError> {
    let made = DirBuilder::new().recursive(true).mode(mode).create(path);
    made.map_err(|source| RunDirError::Make { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::job::{Draft, Program};
    use crate::topology::Role;

    const TASK: TaskId = TaskId { role: Role::Worker, index: 0 };

    fn create(path: &Path) -> Result<RunDir, RunDirError> {
        let draft = Draft {
            program: Some(Program::Script("a.py".into())),
            run_dir: Some(path.to_owned()),
            ..Draft::default()
        };
        let job = Job::resolve(draft).unwrap();
        RunDir::create(&job, &Topology::new(&job), SystemTime::now())
    }

    #[test]
    fn a_run_never_writes_over_another() {
        let place = tempfile::tempdir().unwrap();
        create(&place.path().join("run")).unwrap();
        let refused = create(&place.path().join("run")).unwrap_err().to_string();
        assert!(refused.contains("holds a run already"), "{refused}");
    }

    #[test]
    fn sockets_of_a_deep_run_lie_elsewhere_and_go_with_it() {
        let place = tempfile::tempdir().unwrap();
        let run = create(&place.path().join("deep".repeat(30))).unwrap();
        let socket = run.socket(TASK);
        assert!(socket.as_os_str().len() <= SOCKET_PATH_BYTES, "{}", socket.display());
        let directory = socket.parent().unwrap().to_owned();
        assert_eq!(directory.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        drop(run);
        assert!(!directory.exists());
    }

    #[test]
    fn the_key_is_its_owners_alone() {
        let place = tempfile::tempdir().unwrap();
        let run = create(&place.path().join("run")).unwrap();
        let key = run.ticket_key().unwrap();
        assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read(&key).unwrap().len(), 64);
    }
}
