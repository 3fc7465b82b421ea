//! What was said about a job so far; everything may be missing.
//!
//! In: flags or a job file. Out: one draft. The promise: of two drafts the upper wins, value by value.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{JobError, Program, RoleDraft, WiringDraft, file};
use crate::topology::{RestartPolicy, Role};

/// A job with gaps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draft {
    pub name: Option<String>,
    pub program: Option<Program>,
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
    /// Zero: for ever.
    pub start_timeout: Option<Duration>,
    pub exit_timeout: Option<Duration>,
    /// Zero: for ever.
    pub timeout: Option<Duration>,
    pub wiring: WiringDraft,
    /// For all tasks.
    pub env: BTreeMap<String, String>,
    pub roles: BTreeMap<Role, RoleDraft>,
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

    /// This draft, its gaps filled from the one below. Inputs are joined by name. Another program
    /// does not take over the arguments of the one below.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        let args_below = if self.program.is_none() { below.args } else { None };
        let mut inputs = below.inputs;
        inputs.extend(self.inputs);
        let mut env = below.env;
        env.extend(self.env);
        let mut roles = below.roles;
        for (role, upper) in self.roles {
            let lower = roles.remove(&role).unwrap_or_default();
            roles.insert(role, upper.over(lower));
        }
        Self {
            name: self.name.or(below.name),
            program: self.program.or(below.program),
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
            start_timeout: self.start_timeout.or(below.start_timeout),
            exit_timeout: self.exit_timeout.or(below.exit_timeout),
            timeout: self.timeout.or(below.timeout),
            wiring: self.wiring.over(below.wiring),
            env,
            roles,
        }
    }

    /// Adds a policy written `ROLE=POLICY`.
    pub fn add_restart_policy(&mut self, text: &str) -> Result<(), JobError> {
        let (role, policy) = text.split_once('=').unwrap_or((text, ""));
        let role = Role::from_name(role.trim()).ok_or_else(|| JobError::PolicyRole(role.to_owned()))?;
        let policy =
            RestartPolicy::from_name(policy.trim()).ok_or_else(|| JobError::Policy(policy.to_owned()))?;
        self.roles.entry(role).or_default().restart_policy = Some(policy);
        Ok(())
    }

    /// Adds a variable written `NAME=VALUE`.
    pub fn add_env(&mut self, text: &str) -> Result<(), JobError> {
        let (name, value) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| JobError::Env(text.to_owned()))?;
        self.env.insert(name.to_owned(), value.to_owned());
        Ok(())
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
