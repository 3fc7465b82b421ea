//! What a sidecar wants its trainer's user to know while there is nothing to train on.
//!
//! *In:* a line. *Out:* the same on standard error, where the trainer's own words are, whichever framework waits in whichever
//! thread. *Promise:* nobody fails for it.

use std::io::Write as _;

/// Writes the line at once, so that lines of several feeds do not mix.
pub(super) fn show(text: &str) {
    let line = format!("penstock: {text}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
