//! What a job file may say: one table for the parser, the schema and the command line.
//!
//! In: nothing. Out: keys in `camelCase`, each with the shape of its value and the flag that says the same. The
//! promise: a key that is not in here is refused; one that is, is read (tests hold parser, schema and flags to it).

use crate::topology::RestartPolicy;

/// A key and its value.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    /// One sentence for an editor.
    pub says: &'static str,
    /// The flag of `penstock run` that says the same, without dashes; none where it is a positional argument.
    pub flag: Option<&'static str>,
}

/// The shape of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Count,
    Flag,
    /// `10s`, `5m`.
    Length,
    /// `8G`.
    Memory,
    Choice(&'static [&'static str]),
    /// A list of port numbers.
    Ports,
    /// A list of texts.
    Texts,
    /// One text or more.
    TextOrTexts,
    /// Name → text.
    Map,
    /// Role → restart policy.
    Policies,
    /// Role → what [`ROLE_KEYS`] says.
    Roles,
    /// What [`RESOURCE_KEYS`] says.
    Resources,
}

pub(crate) const ARG_STYLES: [&str; 4] = ["none", "tf1", "tf1-dashes", "ps-host"];
pub(crate) const SUCCESS_POLICIES: [&str; 2] = ["all-workers", "chief"];

const fn key(name: &'static str, kind: Kind, flag: &'static str, says: &'static str) -> Key {
    Key { name, kind, says, flag: Some(flag) }
}

const fn in_file(name: &'static str, kind: Kind, says: &'static str) -> Key {
    Key { name, kind, says, flag: None }
}

/// The file's own keys.
pub const KEYS: &[Key] = &[
    key("name", Kind::Text, "name", "The job's name, for its run directory [the script's]."),
    in_file(
        "script",
        Kind::Text,
        "The Python file that every task runs; a relative path starts at this file.",
    ),
    key("module", Kind::Text, "module", "In place of a script: what `python -m` runs."),
    key(
        "command",
        Kind::TextOrTexts,
        "no-python",
        "In place of a script: a program and its arguments, or one text for `sh -c`.",
    ),
    in_file("args", Kind::Texts, "Arguments of the script."),
    key("python", Kind::Text, "python", "The Python that runs the script [python3]."),
    key("numWorkers", Kind::Count, "num-workers", "Workers to start; worker 0 acts as chief [1]."),
    key("numPs", Kind::Count, "num-ps", "Parameter servers to start beside the workers [0]."),
    key("chief", Kind::Flag, "chief", "Whether a task of type \"chief\" is started too [false]."),
    key("evaluator", Kind::Flag, "evaluator", "Whether an evaluator is started too [false]."),
    key(
        "replicas",
        Kind::Count,
        "replicas",
        "How many neighbouring workers hold parts of one model, and get the same batches [1].",
    ),
    in_file("roles", Kind::Roles, "Where a role differs from the rest, and roles of the job's own."),
    key(
        "inputs",
        Kind::Map,
        "input",
        "Datasets that feed the job: name → file, directory or glob of Parquet.",
    ),
    key("env", Kind::Map, "env", "Variables for all tasks."),
    key("envFile", Kind::TextOrTexts, "env-file", "Files of variables, one NAME=VALUE a line; `env` wins."),
    key("tensorboard", Kind::Flag, "tensorboard", "Whether TensorBoard runs beside the job [false]."),
    key("logdir", Kind::Text, "logdir", "Where scripts write events and TensorBoard reads them."),
    key("runDir", Kind::Text, "run-dir", "Where logs and summary.json go [penstock-runs/NAME-TIME]."),
    key("grace", Kind::Length, "grace", "How long a task may take to end after SIGTERM [10s]."),
    key(
        "evaluatorGrace",
        Kind::Length,
        "evaluator-grace",
        "How long the evaluator may go on once the training is done [5m].",
    ),
    key(
        "startTimeout",
        Kind::Length,
        "start-timeout",
        "How long members of the cluster may take until they serve each other, once some do; 0: for ever [10m].",
    ),
    key(
        "exitTimeout",
        Kind::Length,
        "exit-timeout",
        "How long the process of a coordinator may go on behind the end of its program [1m].",
    ),
    key(
        "timeout",
        Kind::Length,
        "timeout",
        "How long the job may run; it fails with code 124 then [for ever].",
    ),
    key(
        "successPolicy",
        Kind::Choice(&SUCCESS_POLICIES),
        "success-policy",
        "When the job has succeeded: when all workers have, or when the chief (or worker 0) has [all-workers].",
    ),
    key(
        "argStyle",
        Kind::Choice(&ARG_STYLES),
        "arg-style",
        "Which flags that tell who a task is are put behind its arguments [none].",
    ),
    key(
        "ports",
        Kind::Ports,
        "ports",
        "The ports of the cluster's members, parameter servers first, for scripts that have them written down.",
    ),
    key(
        "releasePorts",
        Kind::Flag,
        "release-ports",
        "Whether ports are free once their task is started [false].",
    ),
    key("tf1Compat", Kind::Flag, "tf1-compat", "Whether `import tensorflow` is TensorFlow 1's API [false]."),
    key(
        "mapFun",
        Kind::Text,
        "map-fun",
        "The function of the script that is called, as TensorFlowOnSpark does.",
    ),
    key("maxRestarts", Kind::Count, "max-restarts", "How often what has died is started again [3]."),
    key(
        "restartPolicies",
        Kind::Policies,
        "restart-policy",
        "Role → which ends of its tasks another start may mend.",
    ),
];

/// What is said of one role.
pub const ROLE_KEYS: &[Key] = &[
    in_file("replicas", Kind::Count, "How many tasks of this role."),
    in_file("script", Kind::Text, "The Python file that its tasks run."),
    in_file("module", Kind::Text, "In place of a script: what `python -m` runs."),
    in_file(
        "command",
        Kind::TextOrTexts,
        "In place of a script: a program and its arguments, or one text for `sh -c`.",
    ),
    in_file("args", Kind::Texts, "Arguments, in place of the job's."),
    in_file("env", Kind::Map, "Variables, over the job's."),
    in_file("resources", Kind::Resources, "What each of its tasks needs of a machine."),
    in_file(
        "restartPolicy",
        Kind::Choice(&RestartPolicy::NAMES),
        "Which ends of its tasks another start may mend.",
    ),
];

/// What a task needs.
pub const RESOURCE_KEYS: &[Key] = &[
    in_file("memory", Kind::Memory, "Memory, such as 8G or 512M."),
    in_file("vcores", Kind::Count, "Cores."),
    in_file("gpus", Kind::Count, "GPUs."),
];

/// The names of a table.
pub(super) fn names(keys: &'static [Key]) -> Vec<&'static str> {
    keys.iter().map(|key| key.name).collect()
}
