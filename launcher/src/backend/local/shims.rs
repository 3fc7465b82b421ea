//! Modules of ours that a task's Python finds before all others, in the run directory.
//!
//! In: what a job asks for. Out: directories for `PYTHONPATH`. The promise: they say on top what they are, and hand on to
//! what they hide.

use std::fs;
use std::path::{Path, PathBuf};

use crate::job::Job;
use crate::topology::{Strategy, Topology};

const TF1: [(&str, &str); 2] = [
    ("sitecustomize.py", include_str!("tf1/sitecustomize.py")),
    ("penstock_tf1_mnist.py", include_str!("tf1/penstock_tf1_mnist.py")),
];

const ENDS: [(&str, &str); 1] = [("sitecustomize.py", include_str!("ends/sitecustomize.py"))];

/// A module that cannot be put where tasks find it.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub(super) struct ShimError {
    path: PathBuf,
    source: std::io::Error,
}

/// Writes what the job's tasks need. Each hands on to what comes behind it.
pub(super) fn write(job: &Job, topology: &Topology, run_dir: &Path) -> Result<Vec<PathBuf>, ShimError> {
    let mut directories = Vec::new();
    if job.wiring.tf1_compat {
        directories.push(write_one(&run_dir.join("shims").join("tf1"), &TF1)?);
    }
    if topology.strategy == Strategy::ParameterServer {
        directories.push(write_one(&run_dir.join("shims").join("ends"), &ENDS)?);
    }
    Ok(directories)
}

fn write_one(directory: &Path, files: &[(&str, &str)]) -> Result<PathBuf, ShimError> {
    fs::create_dir_all(directory).map_err(|source| ShimError { path: directory.to_owned(), source })?;
    for (name, text) in files {
        let path = directory.join(name);
        fs::write(&path, text).map_err(|source| ShimError { path, source })?;
    }
    Ok(directory.to_owned())
}
