//! How a job's tasks train together, and so which deaths it survives.
//!
//! In: which roles there are. Out: the strategy and, role by role, who is started again after a death. The
//! promise: pure. The table is what TensorFlow 2.21 was measured to do when members die: peers of a collective
//! fail some seconds after the dead one and cannot take it back; a coordinator waits for a worker that comes
//! back on its address; a parameter server's variables die with it.

use std::fmt;

use super::Role;

/// Told by the topology, unless the job says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// One process trains alone.
    Single,
    /// All train in step: `MultiWorkerMirroredStrategy`, or any other collective.
    MultiWorkerMirrored,
    /// A chief coordinates workers and parameter servers: `ParameterServerStrategy`.
    ParameterServer,
    /// Every worker drives itself against parameter servers: `tf.train.Server` and `tf.estimator`.
    Tf1ParameterServer,
}

/// Which ends of a task earn it another start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartPolicy {
    Never,
    /// Any end that is a failure.
    OnFailure,
    /// Ends that another start may mend: by a signal, or with a code that stands for one.
    ExitCode,
    /// Any end that the job does not succeed by.
    Always,
}

/// Who is started again when a task has died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// It alone, on its address: the others wait for it.
    Alone,
    /// All members of the cluster: the others cannot go on.
    Gang,
}

/// What follows the death of a role's tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    pub policy: RestartPolicy,
    pub scope: Scope,
}

impl Strategy {
    /// Of a job with so many tasks that train.
    pub(super) fn new(trainers: u32, has_ps: bool, has_chief: bool) -> Self {
        match (has_ps, has_chief) {
            (true, true) => Self::ParameterServer,
            (true, false) => Self::Tf1ParameterServer,
            (false, _) if trainers > 1 => Self::MultiWorkerMirrored,
            (false, _) => Self::Single,
        }
    }

    /// Without a word of the user's.
    pub fn rule(self, role: Role) -> Rule {
        use RestartPolicy::{ExitCode, Never, OnFailure};
        use Scope::{Alone, Gang};
        let (policy, scope) = match (self, role) {
            (_, Role::TensorBoard) => (Never, Alone),
            // They are nobody's peers.
            (_, Role::Evaluator | Role::Other(_)) => (OnFailure, Alone),
            (Self::Single, _) => (ExitCode, Alone),
            (Self::MultiWorkerMirrored, _) | (_, Role::Ps) => (ExitCode, Gang),
            // Its coordinator survives any death of it.
            (Self::ParameterServer, Role::Worker) => (OnFailure, Alone),
            (Self::ParameterServer, Role::Chief) => (ExitCode, Gang),
            (Self::Tf1ParameterServer, Role::Chief | Role::Worker) => (ExitCode, Alone),
        };
        Rule { policy, scope }
    }
}

impl RestartPolicy {
    pub const NAMES: [&str; 4] = ["Never", "OnFailure", "ExitCode", "Always"];

    /// As Kubernetes and TFJob spell them, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        let policies = [Self::Never, Self::OnFailure, Self::ExitCode, Self::Always];
        let bare: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        Self::NAMES
            .iter()
            .zip(policies)
            .find(|(known, _)| known.eq_ignore_ascii_case(&bare))
            .map(|found| found.1)
    }
}

impl fmt::Display for RestartPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "Never",
            Self::OnFailure => "OnFailure",
            Self::ExitCode => "ExitCode",
            Self::Always => "Always",
        })
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Single => "one process",
            Self::MultiWorkerMirrored => "all in step",
            Self::ParameterServer => "a coordinator and parameter servers",
            Self::Tf1ParameterServer => "workers and parameter servers",
        })
    }
}
