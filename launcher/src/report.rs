//! The report of a job: `summary.json` for programs, a few lines for people.
//!
//! In: the verdict and what is known of each process. Out: text. The promise: the same facts in both,
//! and who failed first with its last lines. It knows no processes and no terminal.

mod feeds;
pub mod metrics;
pub mod moment;
mod summary;
mod text;

pub use feeds::FeedRecord;
pub use summary::{DaemonRecord, Summary, TaskRecord};
pub use text::{human_bytes, human_duration, human_wait};
