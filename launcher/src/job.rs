//! A job: everything a user can say about a run, checked once.
//!
//! In: a [`Draft`] from flags, one from a job file, or both. Out: a [`Job`] in which nothing is missing.
//! The promise: pure; a value that cannot work is refused here in one line that says what to do. It does
//! not look at the disk: whether the script exists is the backend's question.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::topology::Role;

mod arg_style;
mod draft;
mod duration;
mod env_file;
mod fields;
mod file;
mod foreign;
pub mod keys;
mod nearest;
mod node;
mod program;
mod resources;
mod role_spec;
mod schema;
mod success;
mod wiring;

pub use arg_style::ArgStyle;
pub use draft::Draft;
pub use duration::{BadDuration, parse_duration};
pub use foreign::Tool;
pub use program::Program;
pub use resources::Resources;
pub use role_spec::{RoleDraft, RoleSpec};
pub use schema::{TEMPLATE, schema};
pub use success::SuccessPolicy;
pub use wiring::{WiringDraft, WiringSpec};

/// After SIGTERM, when nothing else was said.
const GRACE: Duration = Duration::from_secs(10);
/// The same for the peers of a task that failed: they have nothing left to finish together, and TensorFlow
/// catches SIGTERM while it waits for a peer that never comes.
const GRACE_AFTER_FAILURE: Duration = Duration::from_secs(3);
/// Time for the evaluator's last evaluation once the training is done.
const EVALUATOR_GRACE: Duration = Duration::from_secs(300);
/// More tasks than this on one machine is a slip of the finger.
const MAX_WORKERS: u32 = 1024;
/// For the members of a cluster to serve each other, once some do.
const START_TIMEOUT: Duration = Duration::from_secs(600);
/// For the process of a coordinator whose program has ended; it was seen to need 20 s where a worker had just come back.
const EXIT_TIMEOUT: Duration = Duration::from_secs(60);
/// What dies more often than this has a reason that another start will not mend.
const MAX_RESTARTS: u32 = 3;

/// A script, how many run it, and what they are fed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Names the run directory: letters, digits, `.`, `_`, `-`.
    pub name: String,
    pub program: Program,
    pub args: Vec<String>,
    /// The interpreter; without a `/` it is looked up in `PATH`.
    pub python: PathBuf,
    pub num_workers: u32,
    /// So many neighbouring tasks hold parts of one model: they share a rank and get the same batches.
    pub replicas: u32,
    /// Parameter servers; with them the chief, if there is one, feeds on nothing itself.
    pub num_ps: u32,
    /// A task of type `chief` beside the workers.
    pub chief: bool,
    pub evaluator: bool,
    /// Dataset name → URI; a gateway and sidecars run where there is any.
    pub inputs: BTreeMap<String, String>,
    pub tensorboard: bool,
    /// Where the scripts write events and TensorBoard reads them; the run directory's own by default.
    pub logdir: Option<PathBuf>,
    pub run_dir: Option<PathBuf>,
    pub grace: Grace,
    pub success_policy: SuccessPolicy,
    /// How often each task that may come back alone, and the gang where none may, is started again.
    pub max_restarts: u32,
    /// How long members of the cluster may take to serve each other; absent: for ever.
    pub start_timeout: Option<Duration>,
    /// How long a coordinator's process may go on behind the end of its program.
    pub exit_timeout: Duration,
    /// How long the job may run; absent: for ever.
    pub timeout: Option<Duration>,
    pub wiring: WiringSpec,
    /// For all tasks, over what the launcher itself sets.
    pub env: BTreeMap<String, String>,
    /// Where roles differ from the rest, and those that TensorFlow does not know.
    pub roles: BTreeMap<Role, RoleSpec>,
}

/// How long who may take to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grace {
    /// From SIGTERM to SIGKILL.
    pub stop: Duration,
    /// The same after another task has failed.
    pub after_failure: Duration,
    /// From the end of the training to the evaluator's SIGTERM.
    pub evaluator: Duration,
}

impl Default for Grace {
    fn default() -> Self {
        Self { stop: GRACE, after_failure: GRACE_AFTER_FAILURE, evaluator: EVALUATOR_GRACE }
    }
}

/// What is wrong with a job.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum JobError {
    #[error(
        "no script was given: name one after the flags (penstock run [FLAGS] train.py ARGS…) or as `script:` in a job file"
    )]
    NoScript,
    #[error("{0} workers cannot be started: give --num-workers a number from 1 to {MAX_WORKERS}")]
    Workers(u32),
    #[error(
        "--replicas {replicas} does not divide the {fed} tasks that are fed: every data rank needs as many processes, change one of the two"
    )]
    Replicas { replicas: u32, fed: u32 },
    #[error(
        "--replicas {0} stands beside --num-ps, and the workers of parameter servers each hold the whole model: leave one of the two out"
    )]
    ReplicasOfServed(u32),
    #[error(
        "{0} parameter servers would have nobody to serve: give --num-workers a number from 1, or leave --num-ps out"
    )]
    PsAlone(u32),
    #[error(
        "a cluster of {size} leaves no worker beside {others} other tasks: give --cluster-size a larger number, or --num-workers in its place"
    )]
    ClusterSize { size: u32, others: u32 },
    #[error(
        "--cluster-size stands beside --num-workers, and either says how many workers there are: leave one out"
    )]
    ClusterSizeTwice,
    #[error("the {tool} command line cannot be used: {reason}")]
    Foreign { tool: &'static str, reason: String },
    #[error("the file of variables {path} cannot be used: {reason}")]
    EnvFile { path: String, reason: String },
    #[error(
        "TF_CONFIG of {whose} has an evaluator in its cluster, where the others would wait for it for ever: leave TF_CONFIG out, it is made here"
    )]
    EvaluatorInCluster { whose: String },
    #[error("{role} is no role of TensorFlow's and has no command of its own: did you mean {meant}?")]
    RoleMisspelt { role: String, meant: String },
    #[error("{0:?} is no success policy: write all-workers or chief")]
    Success(String),
    #[error("--{flag} {text:?}: {reason}")]
    Resources { flag: String, text: String, reason: String },
    #[error("{0} parameter servers cannot be started: give --num-ps a number from 0 to {MAX_WORKERS}")]
    Ps(u32),
    #[error("{0:?} is not a job name: use letters, digits, '.', '_' and '-'")]
    Name(String),
    #[error("{0:?} is not an input: write NAME=URI, e.g. --input train=data/train")]
    Input(String),
    #[error("{0:?} is not a dataset name: use letters, digits, '.', '_', '-' and '/'")]
    InputName(String),
    #[error("the input {0:?} was given twice: each dataset needs a name of its own")]
    InputTwice(String),
    #[error("{many} tasks of role {role} cannot be started: there is one at most, or none")]
    TooMany { role: String, many: u32 },
    #[error("{0:?} is no variable: write NAME=VALUE, e.g. --env LEARNING_RATE=0.1")]
    Env(String),
    #[error("{0:?} is no role: a restart policy is of chief, worker, ps or evaluator, e.g. worker=OnFailure")]
    PolicyRole(String),
    #[error("{0:?} is no restart policy: write Never, OnFailure, ExitCode or Always, e.g. worker=OnFailure")]
    Policy(String),
    #[error("{0:?} is no style of arguments: write tf1, tf1-dashes, ps-host or none")]
    ArgStyle(String),
    #[error(
        "--ports names {ports} ports and {tasks} tasks have one: name one each, those of parameter servers first, then chief, workers and others"
    )]
    Ports { ports: usize, tasks: usize },
    #[error("--ports names {0} twice, and no two tasks can listen on one port")]
    PortTwice(u16),
    #[error(
        "--arg-style ps-host tells one parameter server's port, and workers count on from it: give --num-ps 1 and --ports, e.g. --ports 2222,2223 for one worker"
    )]
    PsHost,
    #[error(
        "--arg-style tells of parameter servers and workers only: leave --chief out, worker 0 is the chief"
    )]
    ArgStyleChief,
    #[error(
        "--map-fun {0} needs a script that has this function: penstock run --map-fun {0} SCRIPT.py ARGS…"
    )]
    MapFun(String),
    #[error(
        "an argument says {{input:{0}}}, and there is no such input: add --input {0}=URI, or write {{{{input:{0}}}}} if it is no placeholder"
    )]
    NoSuchInput(String),
    #[error(transparent)]
    Duration(#[from] BadDuration),
    #[error("cannot read the job file {path}: {reason}")]
    FileUnread { path: String, reason: String },
    #[error("the job file {path} cannot be used: {reason}")]
    File { path: String, reason: String },
}

impl Job {
    /// The job that a draft stands for.
    pub fn resolve(draft: Draft) -> Result<Self, JobError> {
        check_roles(&draft)?;
        let (program, args) = program_of(&draft).ok_or(JobError::NoScript)?;
        let name = match draft.name {
            Some(name) if is_name(&name) => name,
            Some(name) => return Err(JobError::Name(name)),
            None => name_of(&program, &args),
        };
        let replicas_of = |role| draft.roles.get(&role).and_then(|draft| draft.replicas);
        let chief = one_or_none(Role::Chief, draft.chief, replicas_of(Role::Chief))?;
        let evaluator = one_or_none(Role::Evaluator, draft.evaluator, replicas_of(Role::Evaluator))?;
        let tensorboard = one_or_none(Role::TensorBoard, draft.tensorboard, replicas_of(Role::TensorBoard))?;
        let num_ps = draft.num_ps.or(replicas_of(Role::Ps)).unwrap_or(0);
        if num_ps > MAX_WORKERS {
            return Err(JobError::Ps(num_ps));
        }
        let others = num_ps + u32::from(chief) + u32::from(evaluator);
        let num_workers = match (draft.num_workers, draft.cluster_size) {
            (Some(_), Some(_)) => return Err(JobError::ClusterSizeTwice),
            (None, Some(size)) if size <= others => return Err(JobError::ClusterSize { size, others }),
            (None, Some(size)) => size - others,
            (said, None) => said.or(replicas_of(Role::Worker)).unwrap_or(1),
        };
        if num_workers == 0 && num_ps > 0 {
            return Err(JobError::PsAlone(num_ps));
        }
        // A chief without parameter servers trains, alone too.
        let fewest = u32::from(!chief || num_ps > 0);
        if !(fewest..=MAX_WORKERS).contains(&num_workers) {
            return Err(JobError::Workers(num_workers));
        }
        let replicas = draft.replicas.unwrap_or(1);
        let fed = num_workers + u32::from(chief);
        if replicas != 1 && num_ps > 0 {
            return Err(JobError::ReplicasOfServed(replicas));
        }
        if replicas == 0 || num_ps == 0 && !fed.is_multiple_of(replicas) {
            return Err(JobError::Replicas { replicas, fed });
        }
        if let Some(bad) = draft.inputs.keys().find(|name| !is_dataset_name(name)) {
            return Err(JobError::InputName(bad.clone()));
        }
        let default = Grace::default();
        let job = Self {
            name,
            program,
            args,
            python: draft.python.unwrap_or_else(|| PathBuf::from("python3")),
            num_workers,
            replicas,
            num_ps,
            chief,
            evaluator,
            inputs: draft.inputs,
            tensorboard,
            logdir: draft.logdir,
            run_dir: draft.run_dir,
            grace: Grace {
                stop: draft.grace.unwrap_or(default.stop),
                // A grace that was asked for is kept in every case.
                after_failure: draft.grace.unwrap_or(default.after_failure),
                evaluator: draft.evaluator_grace.unwrap_or(default.evaluator),
            },
            success_policy: draft.success_policy.unwrap_or_default(),
            max_restarts: draft.max_restarts.unwrap_or(MAX_RESTARTS),
            start_timeout: Some(draft.start_timeout.unwrap_or(START_TIMEOUT))
                .filter(|length| !length.is_zero()),
            exit_timeout: draft.exit_timeout.unwrap_or(EXIT_TIMEOUT),
            timeout: draft.timeout.filter(|length| !length.is_zero()),
            wiring: draft.wiring.resolve(),
            env: draft.env,
            roles: draft.roles.into_iter().map(|(role, draft)| (role, draft.resolve())).collect(),
        };
        wiring::check(&job)?;
        Ok(job)
    }
}

impl Job {
    /// Whether the chief trains with the workers.
    pub fn has_fed_chief(&self) -> bool {
        self.chief && self.num_ps == 0
    }

    /// What tasks of this role run, and its arguments.
    pub fn command(&self, role: Role) -> (&Program, &[String]) {
        let own = self.roles.get(&role);
        match own.and_then(|spec| spec.program.as_ref().map(|program| (program, spec.args.as_deref()))) {
            Some((program, args)) => (program, args.unwrap_or_default()),
            None => (&self.program, own.and_then(|spec| spec.args.as_deref()).unwrap_or(&self.args)),
        }
    }

    /// All programs that the job runs.
    pub fn programs(&self) -> impl Iterator<Item = &Program> {
        std::iter::once(&self.program).chain(self.roles.values().filter_map(|spec| spec.program.as_ref()))
    }

    /// Tasks that are fed together, the evaluator not among them.
    pub fn fed(&self) -> u32 {
        self.num_workers + u32::from(self.has_fed_chief())
    }
}

fn is_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && !name.starts_with('.') && name.len() <= 100 && name.chars().all(good)
}

/// Names travel in a comma-separated variable and in Flight paths.
fn is_dataset_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    !name.is_empty() && name.chars().all(good)
}

/// How many of a role that is there at most once.
fn one_or_none(role: Role, said: Option<bool>, replicas: Option<u32>) -> Result<bool, JobError> {
    match said.map(u32::from).or(replicas).unwrap_or(0) {
        0 => Ok(false),
        1 => Ok(true),
        many => Err(JobError::TooMany { role: role.name().to_owned(), many }),
    }
}

/// What all run who have nothing of their own; where nothing was said, what those run who train.
fn program_of(draft: &Draft) -> Option<(Program, Vec<String>)> {
    if let Some(program) = &draft.program {
        return Some((program.clone(), draft.args.clone().unwrap_or_default()));
    }
    let of = |role| {
        let own: &RoleDraft = draft.roles.get(&role)?;
        Some((own.program.clone()?, own.args.clone().unwrap_or_default()))
    };
    of(Role::Worker).or_else(|| of(Role::Chief)).or_else(|| draft.roles.keys().copied().find_map(of))
}

/// What no wiring can make right.
fn check_roles(draft: &Draft) -> Result<(), JobError> {
    for (role, own) in &draft.roles {
        if let (Role::Other(name), None) = (role, &own.program)
            && let Some(meant) = nearest::slip_of(name.as_str(), Role::KNOWN)
        {
            return Err(JobError::RoleMisspelt { role: name.as_str().to_owned(), meant: meant.to_owned() });
        }
    }
    let of_roles = draft.roles.iter().map(|(role, own)| (format!("role {}", role.name()), &own.env));
    let all = std::iter::once(("the job".to_owned(), &draft.env)).chain(of_roles);
    for (whose, env) in all {
        let config =
            env.get("TF_CONFIG").and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
        let cluster = config.as_ref().and_then(|config| config.get("cluster")?.as_object());
        if cluster.is_some_and(|cluster| cluster.len() > 1 && cluster.contains_key("evaluator")) {
            return Err(JobError::EvaluatorInCluster { whose });
        }
    }
    Ok(())
}

/// `examples/my train.py` → `my-train`, and the same of a script that a shell's text names.
fn name_of(program: &Program, args: &[String]) -> String {
    let of_path = |path: &std::path::Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let of_text = |text: &str| {
        let script = text.split_whitespace().find(|word| word.ends_with(".py"))?;
        of_path(script.as_ref())
    };
    let stem = match program {
        Program::Script(path) => of_path(path),
        Program::Command(path) => args.iter().find_map(|arg| of_text(arg)).or_else(|| of_path(path)),
        Program::Module(name) => Some(name.clone()),
    };
    let clean: String = stem
        .unwrap_or_default()
        .chars()
        .take(100)
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '-' })
        .collect();
    if clean.is_empty() { "job".to_owned() } else { clean }
}

#[cfg(test)]
mod tests;
