//! A peer's server as a child process, ready when it says where it listens.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::client;

/// A server in Python. Killed when dropped.
pub(crate) struct Peer {
    child: Child,
    pub(crate) address: String,
}

impl Peer {
    /// Starts a script in `benches/`.
    pub(crate) fn start(script: &str, arguments: &[&str]) -> Result<Self> {
        let mut child = Command::new(client::python())
            .arg(client::script(script))
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {script}"))?;
        let stdout = child.stdout.take().with_context(|| format!("{script} has no output"))?;
        for line in BufReader::new(stdout).lines() {
            if let Some(address) = line?.strip_prefix("listening on ") {
                return Ok(Self { child, address: address.to_owned() });
            }
        }
        bail!("{script} ended before it was ready")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Ended already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
