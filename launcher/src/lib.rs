//! The launcher: a job in, running and fed processes out, and at the end the truth about them.
//!
//! The walk: `job` (flags or YAML) → `topology` (pure) → `environment` (pure) → `backend::local` (the
//! only part with processes) → `watch` (pure: who failed first, what happens now) → `report`. Beside
//! every process runs an `agent`, so that nothing is left behind whatever becomes of the launcher.
//!
//! The promise: a job ends with the exit code of its first failure, named, and leaves no process. This
//! crate knows nothing of gateways and sidecars but their command lines, ready lines and metrics.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests state their expectations by unwrapping"))]

pub mod agent;
pub mod backend;
pub mod environment;
pub mod job;
pub mod report;
pub mod runs;
mod scrape;
pub mod terminal;
pub mod top;
pub mod topology;
pub mod watch;
