//! What was said about a job so far; everything may be missing.
//!
//! In: flags or a job file. Out: one draft. The promise: of two drafts the upper wins, value by value.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{JobError, Program, Resources, RoleDraft, SuccessPolicy, Tool, WiringDraft, env_file, foreign};
use crate::topology::{RestartPolicy, Role};

/// A job with gaps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draft {
    pub name: Option<String>,
    pub program: Option<Program>,
    pub args: Option<Vec<String>>,
    pub python: Option<PathBuf>,
    pub num_workers: Option<u32>,
    /// All that train or serve variables, and the evaluator: the workers are what the others leave of it.
    pub cluster_size: Option<u32>,
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
    pub success_policy: Option<SuccessPolicy>,
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
    /// What was said and means nothing here, a sentence each.
    pub notes: Vec<String>,
}

impl Draft {
    /// The draft of a job file, in whatever format it is. Relative paths in our own start at the file's own directory,
    /// so that a job can be run from anywhere.
    pub fn from_file(path: &Path) -> Result<Self, JobError> {
        let shown = || path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| JobError::FileUnread { path: shown(), reason: error.to_string() })?;
        let base = path.parent().unwrap_or(Path::new(""));
        let (mut draft, env_files) =
            foreign::parse_file(&text, base).map_err(|reason| JobError::File { path: shown(), reason })?;
        for file in &env_files {
            draft.add_env_file(file)?;
        }
        Ok(draft)
    }

    /// The draft of another launcher's command line.
    pub fn from_tool(tool: Tool, words: &[String]) -> Result<Self, JobError> {
        tool.draft(words)
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
            // Either says how many workers there are.
            num_workers: self.num_workers.or(below.num_workers.filter(|_| self.cluster_size.is_none())),
            cluster_size: self.cluster_size.or(below.cluster_size.filter(|_| self.num_workers.is_none())),
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
            success_policy: self.success_policy.or(below.success_policy),
            max_restarts: self.max_restarts.or(below.max_restarts),
            start_timeout: self.start_timeout.or(below.start_timeout),
            exit_timeout: self.exit_timeout.or(below.exit_timeout),
            timeout: self.timeout.or(below.timeout),
            wiring: self.wiring.over(below.wiring),
            env,
            roles,
            notes: below.notes.into_iter().chain(self.notes).collect(),
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

    /// What a role's tasks run, as a text for the shell.
    pub fn set_command(&mut self, role: Role, text: &str) {
        let (program, args) = Program::shell(text);
        let own = self.roles.entry(role).or_default();
        (own.program, own.args) = (Some(program), Some(args));
    }

    /// What a role's tasks need, written `memory=8G,vcores=4,gpus=2`.
    pub fn set_resources(&mut self, role: Role, text: &str) -> Result<(), JobError> {
        let read = Resources::parse(text).map_err(|reason| JobError::Resources {
            flag: format!("{}-resources", role.name()),
            text: text.to_owned(),
            reason,
        })?;
        self.roles.entry(role).or_default().resources = read;
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

    /// Adds the variables of a file, under those that are there.
    pub fn add_env_file(&mut self, path: &Path) -> Result<(), JobError> {
        let fail = |reason| JobError::EnvFile { path: path.display().to_string(), reason };
        let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
        for (name, value) in env_file::parse(&text).map_err(fail)? {
            self.env.entry(name).or_insert(value);
        }
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
