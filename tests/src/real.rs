//! Real systems that a suite needs. Absent ones are skipped aloud, and are a failure where `CI` is set.

use std::path::PathBuf;

/// The Python that has TensorFlow, which `make test` names in `PENSTOCK_PYTHON`.
pub fn python_with_tensorflow() -> Option<PathBuf> {
    let python = std::env::var_os("PENSTOCK_PYTHON").map(PathBuf::from);
    if python.is_none() {
        absent("TensorFlow", "run `make test`, or set PENSTOCK_PYTHON to a Python that has it");
    }
    python
}

/// A `go`: the one on the `PATH`, or the one that `make test` installs beside its Python.
pub fn go() -> Option<PathBuf> {
    let beside = std::env::var_os("PENSTOCK_PYTHON").map(|python| PathBuf::from(python).with_file_name("go"));
    tool("go").or(beside.filter(|go| go.is_file()))
}

/// The first of some tools that is not on the `PATH`.
pub fn missing<'a>(tools: &[&'a str]) -> Option<&'a str> {
    tools.iter().copied().find(|name| tool(name).is_none())
}

fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|place| place.is_file())
}

/// Says that a test is skipped; panics where the system is required.
#[allow(clippy::print_stderr, reason = "a skip that nobody reads is a test that passes by itself")]
pub fn absent(system: &str, remedy: &str) {
    assert!(std::env::var_os("CI").is_none(), "{system} is required here: {remedy}");
    eprintln!("SKIPPED: {system} is absent: {remedy}");
}

/// Says that a test is skipped because the machine does not let it do what it needs, which is nobody's to install.
#[allow(clippy::print_stderr, reason = "a skip that nobody reads is a test that passes by itself")]
pub fn forbidden(what: &str) {
    eprintln!("SKIPPED: {what} is not to be had here");
}
