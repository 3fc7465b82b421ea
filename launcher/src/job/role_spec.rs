//! What a job says of one role alone.

use std::collections::BTreeMap;

use super::{Program, Resources};
use crate::topology::RestartPolicy;

/// Where it differs from the job's other tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleSpec {
    /// How many tasks, of a role of the job's own; TensorFlow's are counted by the job itself.
    pub replicas: u32,
    /// In place of the job's program; its arguments come with it.
    pub program: Option<Program>,
    /// In place of the job's arguments.
    pub args: Option<Vec<String>>,
    /// Over the job's variables.
    pub env: BTreeMap<String, String>,
    pub restart_policy: Option<RestartPolicy>,
    /// What its machine must have for each of its tasks.
    pub resources: Resources,
}

/// The same with gaps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleDraft {
    pub replicas: Option<u32>,
    pub program: Option<Program>,
    pub args: Option<Vec<String>>,
    pub env: BTreeMap<String, String>,
    pub restart_policy: Option<RestartPolicy>,
    pub resources: Resources,
}

impl RoleDraft {
    /// This draft, its gaps filled from the one below.
    pub(super) fn over(self, below: Self) -> Self {
        let args_below = if self.program.is_none() { below.args } else { None };
        let mut env = below.env;
        env.extend(self.env);
        Self {
            replicas: self.replicas.or(below.replicas),
            program: self.program.or(below.program),
            args: self.args.or(args_below),
            env,
            restart_policy: self.restart_policy.or(below.restart_policy),
            resources: self.resources.or(below.resources),
        }
    }

    pub(super) fn resolve(self) -> RoleSpec {
        RoleSpec {
            replicas: self.replicas.unwrap_or(1),
            program: self.program,
            args: self.args,
            env: self.env,
            restart_policy: self.restart_policy,
            resources: self.resources,
        }
    }
}
