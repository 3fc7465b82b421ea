//! The directory of a run that somebody else will see through.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::RunState;
use crate::backend::local::RunDirError;
use crate::backend::local::place_run;
use crate::job::Job;

/// Makes the directory in which a job that is started now would be kept.
pub fn prepare(job: &Job) -> Result<PathBuf, RunDirError> {
    place_run(job, SystemTime::now())
}

/// Whether its launcher lives, or has.
pub fn has_begun(run: &Path) -> bool {
    RunState::read(run).is_ok_and(|state| state.is_some())
}
