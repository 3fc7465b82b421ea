//! What was said about a job so far; everything may be missing.
//!
//! In: flags or a job file. Out: one draft. The promise: of two drafts the upper wins, value by value.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{JobError, file};

/// A job with gaps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draft {
    pub name: Option<String>,
    pub script: Option<PathBuf>,
    pub args: Option<Vec<String>>,
    pub python: Option<PathBuf>,
    pub num_workers: Option<u32>,
    pub replicas: Option<u32>,
    pub num_ps: Option<u32>,
    pub chief: Option<bool>,
    pub evaluator: Option<bool>,
    pub inputs: BTreeMap<String, String>,
    pub tensorboard: Option<bool>,
    pub logdir: Option<PathBuf>,
    pub run_dir: Option<PathBuf>,
    pub grace: Option<Duration>,
    pub evaluator_grace: Option<Duration>,
    pub max_restarts: Option<u32>,
}

impl Draft {
    /// A job file's draft. Relative paths in it start at the file's own directory, so that a job can be
    /// run from anywhere.
    pub fn from_file(path: &Path) -> Result<Self, JobError> {
        let text = std::fs::read_to_string(path).map_err(|error| JobError::FileUnread {
            path: path.display().to_string(),
            reason: error.to_string(),
        })?;
        let base = path.parent().unwrap_or(Path::new(""));
        file::parse(&text, base).map_err(|reason| JobError::File { path: path.display().to_string(), reason })
    }

    /// This draft, its gaps filled from the one below. Inputs are joined by name. Another script does
    /// not take over the arguments of the one below.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        let args_below = if self.script.is_none() { below.args } else { None };
        let mut inputs = below.inputs;
        inputs.extend(self.inputs);
        Self {
            name: self.name.or(below.name),
            script: self.script.or(below.script),
            args: self.args.or(args_below),
            python: self.python.or(below.python),
            num_workers: self.num_workers.or(below.num_workers),
            replicas: self.replicas.or(below.replicas),
            num_ps: self.num_ps.or(below.num_ps),
            chief: self.chief.or(below.chief),
            evaluator: self.evaluator.or(below.evaluator),
            inputs,
            tensorboard: self.tensorboard.or(below.tensorboard),
            logdir: self.logdir.or(below.logdir),
            run_dir: self.run_dir.or(below.run_dir),
            grace: self.grace.or(below.grace),
            evaluator_grace: self.evaluator_grace.or(below.evaluator_grace),
            max_restarts: self.max_restarts.or(below.max_restarts),
        }
    }

    /// Adds an input written `NAME=URI`.
    pub fn add_input(&mut self, text: &str) -> Result<(), JobError> {
        let (name, uri) = text
            .split_once('=')
            .filter(|(name, uri)| !name.is_empty() && !uri.is_empty())
            .ok_or_else(|| JobError::Input(text.to_owned()))?;
        match self.inputs.insert(name.to_owned(), uri.to_owned()) {
            None => Ok(()),
            Some(_) => Err(JobError::InputTwice(name.to_owned())),
        }
    }
}
