//! Modules of ours that a task's Python finds before all others, in the run directory.
//!
//! In: what a job asks for. Out: directories for `PYTHONPATH`. The promise: they say on top what they are, and hand on to
//! what they hide.

use std::fs;
use std::path::{Path, PathBuf};

use crate::job::Job;

const TF1: [(&str, &str); 2] = [
    ("sitecustomize.py", include_str!("tf1/sitecustomize.py")),
    ("penstock_tf1_mnist.py", include_str!("tf1/penstock_tf1_mnist.py")),
];

/// A module that cannot be put where tasks find it.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub(super) struct ShimError {
    path: PathBuf,
    source: std::io::Error,
}

/// Writes what the job's tasks need.
pub(super) fn write(job: &Job, run_dir: &Path) -> Result<Vec<PathBuf>, ShimError> {
    if !job.wiring.tf1_compat {
        return Ok(Vec::new());
    }
    let directory = run_dir.join("shims").join("tf1");
    fs::create_dir_all(&directory).map_err(|source| ShimError { path: directory.clone(), source })?;
    for (name, text) in TF1 {
        let path = directory.join(name);
        fs::write(&path, text).map_err(|source| ShimError { path, source })?;
    }
    Ok(vec![directory])
}
