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

/// Says that a test is skipped; panics where the system is required.
#[allow(clippy::print_stderr, reason = "a skip that nobody reads is a test that passes by itself")]
pub fn absent(system: &str, remedy: &str) {
    assert!(std::env::var_os("CI").is_none(), "{system} is required here: {remedy}");
    eprintln!("SKIPPED: {system} is absent: {remedy}");
}
