//! Runs of this machine, as whoever did not start them sees them.
//!
//! In: run directories. Out: which jobs run or ran, how their tasks stand, what they write. The promise: what is said
//! to run does; nothing here disturbs a run but `kill`, which only asks for its end.

mod begin;
mod find;
mod follow;
mod state;
mod tables;

pub use begin::{has_begun, prepare};
pub use find::{FindError, Run, Standing, all, find};
pub use follow::{Filter, Follow};
pub(crate) use state::Recorder;
pub use state::{Launcher, RunState, TaskStanding};
pub use tables::{of_run, of_runs};

/// Below the current directory, where `penstock run` keeps runs unless told otherwise.
pub const DIRECTORY: &str = "penstock-runs";
/// In a run directory: the lines of all its processes, by time.
pub const JOURNAL: &str = "job.log";
