//! The clients as programs: where their tools are, how they are built, and one run of one.

use std::path::{Path, PathBuf};
use std::process::Command;

use penstock_tests::process::profile_dir;
use penstock_tests::real;

/// A client that is ready to run.
pub(crate) struct Stock {
    program: PathBuf,
    /// What stands before the gateway's address.
    arguments: Vec<PathBuf>,
}

impl Stock {
    /// Does tasks, each with its word, and returns what the client wrote.
    pub(crate) fn perform(&self, gateway: &str, tasks: &[(&str, &str)]) -> String {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg(gateway.trim_start_matches("grpc://"));
        command.args(tasks.iter().flat_map(|(task, word)| [task, word]));
        run(command)
    }
}

/// The client on `org.apache.arrow:flight-core`.
pub(crate) fn java() -> Option<Stock> {
    if let Some(missing) = real::missing(&["java", "javac", "mvn"]) {
        real::absent(missing, "install Java 17 and Maven, for a Java client");
        return None;
    }
    Some(Stock { program: source("java/run"), arguments: vec![built("java-client")] })
}

/// The client on arrow-go.
pub(crate) fn go() -> Option<Stock> {
    let Some(go) = real::go() else {
        real::absent("Go", "run `make test`, or have a `go` on the PATH, for a Go client");
        return None;
    };
    let program = built("go-client");
    let mut build = Command::new(go);
    build.current_dir(source("go")).args(["build", "-o"]).arg(&program);
    run(build);
    Some(Stock { program, arguments: Vec::new() })
}

fn run(mut command: Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {errors}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(name)
}

/// Beside the test's own profile, so that every target directory has one.
fn built(name: &str) -> PathBuf {
    profile_dir().parent().unwrap().join(name)
}
