//! Penstock's daemons as child processes, for tests that kill them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;

/// The `penstock` binary: in the directory that `PENSTOCK_NATIVE` names, as under `make`, or of the profile
/// that the test was built in, built if it is out of date.
pub fn penstock_bin() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("PENSTOCK_NATIVE") {
        Some(directory) => PathBuf::from(directory).join("penstock"),
        None => build(),
    })
}

/// `target/PROFILE`, of which this program is.
pub fn profile_dir() -> PathBuf {
    // target/PROFILE/deps/it-HASH for a test, target/PROFILE/penstock-benches for a bench.
    let program = std::env::current_exe().unwrap();
    program.ancestors().skip(1).find(|path| !path.ends_with("deps")).unwrap().to_owned()
}

fn build() -> PathBuf {
    let profile = profile_dir();
    let target = profile.parent().unwrap();
    let name = match profile.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        other => other,
    };
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--quiet", "--package", "penstock", "--package", "penstock-tf-op", "--profile", name])
        .env("CARGO_TARGET_DIR", target)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    // What cargo tells this test of its own package would have others built anew, and anew by the next cargo.
    let told = ["CARGO_PKG_", "CARGO_MANIFEST_"];
    for (name, _) in std::env::vars_os() {
        if told.iter().any(|told| name.to_string_lossy().starts_with(told)) {
            cargo.env_remove(name);
        }
    }
    let status = cargo.status().unwrap();
    assert!(status.success(), "the penstock binary does not build");
    profile.join("penstock")
}

/// A daemon that said it is ready. Killed when dropped.
pub struct Daemon {
    child: Child,
    /// What stood after `listening on `.
    pub address: String,
    /// What stood after `admin on `, if it was said.
    pub admin: Option<String>,
}

impl Daemon {
    /// A gateway on a free port of the loopback.
    pub fn gateway(arguments: &[&str]) -> Self {
        Self::start(&[&["gateway", "--listen", "127.0.0.1:0"], arguments].concat())
    }

    /// Starts `penstock ARGUMENTS…` and waits for its ready line.
    pub fn start(arguments: &[&str]) -> Self {
        Self::spawn(Command::new(penstock_bin()).args(arguments))
    }

    /// Starts a daemon by a command that becomes one.
    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut admin = None;
        loop {
            let Some(Ok(line)) = lines.next() else {
                let status = child.wait().unwrap();
                panic!("{command:?} ended before it was ready: {status}");
            };
            if let Some(address) = line.strip_prefix("listening on ") {
                return Self { child, address: address.to_owned(), admin };
            }
            admin = admin.or_else(|| line.strip_prefix("admin on ").map(str::to_owned));
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The value of a metric, with labels or without; `None` before it is counted for the first time.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let answer = self.metrics();
        let line = answer.lines().find(|line| line.split([' ', '{']).next() == Some(name))?;
        line.rsplit_once(' ')?.1.parse().ok()
    }

    /// All metrics, as the admin port answers.
    pub fn metrics(&self) -> String {
        let address = self.admin.as_ref().unwrap().strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// `kill -TERM`: asks for a drain.
    pub fn terminate(&self) {
        self.signal("-TERM");
    }

    /// `kill NAME`, with its dash.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(name).arg(self.pid().to_string()).status().unwrap();
        assert!(status.success());
    }

    /// Waits for the end.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Ended already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
