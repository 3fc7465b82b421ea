//! The environment of each task: what a script learns about the job it is part of.
//!
//! In: the topology and where everything is. Out: variables. The promise: pure; the evaluator is in
//! nobody's cluster spec; peers are reached past any proxy. It knows no processes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;

use crate::job::Job;
use crate::topology::{Role, Task, TaskId, Topology};

mod arguments;
mod cluster;
mod dialects;
mod python_path;

pub use arguments::arguments;
pub(crate) use arguments::unknown_input;
pub(crate) use dialects::{chief, first_trainer};

/// Hosts that must not be reached through a proxy.
const LOCAL_HOSTS: [&str; 2] = ["127.0.0.1", "localhost"];
const PYTHON_PATH: &str = "PYTHONPATH";

/// Variables that only the job sets: a launcher's own are never inherited.
const OWN: [&str; 10] = [
    "PENSTOCK_RUN_DIR",
    "PENSTOCK_LOGDIR",
    "PENSTOCK_RANK",
    "PENSTOCK_WORLD_SIZE",
    "PENSTOCK_REPLICA",
    "PENSTOCK_SIDECAR",
    "PENSTOCK_GATEWAYS",
    "PENSTOCK_DATASETS",
    "TF_CONFIG",
    "TF_GRPC_REUSE_PORT",
];

/// What no process of a job inherits.
pub(crate) fn never_inherited() -> impl Iterator<Item = &'static str> {
    OWN.into_iter().chain(dialects::NAMES)
}

/// Where everything is.
#[derive(Debug, Clone, Default)]
pub struct Wiring {
    /// `HOST:PORT` of each member of the cluster.
    pub addresses: BTreeMap<TaskId, String>,
    /// `grpc://HOST:PORT`; empty without inputs.
    pub gateways: Vec<String>,
    /// The socket of each fed task's sidecar.
    pub sidecars: BTreeMap<TaskId, PathBuf>,
    /// Names of the inputs.
    pub datasets: Vec<String>,
    pub run_dir: PathBuf,
    pub logdir: PathBuf,
    /// The launcher's own `no_proxy`, which is extended.
    pub no_proxy: Option<String>,
    /// The same in the variable that gRPC alone looks at, and first.
    pub no_grpc_proxy: Option<String>,
    /// `HOST:PORT` at which the trainers of a torch job meet.
    pub master: Option<String>,
    /// A port of the chief's alone, for a TensorBoard that its script starts.
    pub board_port: Option<u16>,
    /// How often each task was started before.
    pub attempts: BTreeMap<TaskId, u32>,
    /// The launcher's own `PYTHONPATH`.
    pub python_path: Option<String>,
    /// Directories of modules of ours, found before all others.
    pub shims: Vec<PathBuf>,
}

/// The variables of `task`, on top of those that it inherits.
pub fn variables(job: &Job, task: &Task, topology: &Topology, wiring: &Wiring) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::from([
        ("PENSTOCK_RUN_DIR", wiring.run_dir.display().to_string()),
        ("PENSTOCK_LOGDIR", wiring.logdir.display().to_string()),
        // Without it a script's output arrives when the script ends.
        ("PYTHONUNBUFFERED", "1".to_owned()),
        ("no_proxy", past_proxies(wiring.no_proxy.as_deref(), wiring)),
        ("NO_PROXY", past_proxies(wiring.no_proxy.as_deref(), wiring)),
    ]);
    if let Some(own) = &wiring.no_grpc_proxy {
        variables.insert("no_grpc_proxy", past_proxies(Some(own), wiring));
    }
    if task.id.role != Role::TensorBoard {
        variables.extend(dialects::tony(task.id, topology, wiring));
        variables.extend(dialects::torch(task, topology, wiring));
    }
    if task.id.role.is_tensorflows() {
        variables.extend(dialects::xlearning(task.id, topology, wiring));
        variables.insert("TF_CONFIG", tf_config(task.id, topology, wiring));
        // The launcher holds each port for the task's life; TensorFlow binds beside it.
        variables.insert("TF_GRPC_REUSE_PORT", "true".to_owned());
        if topology.has_ps() {
            // A coordinator must hear of a worker's death at once, not when gRPC has given up waiting.
            variables.insert("GRPC_FAIL_FAST", "use_caller".to_owned());
        }
    }
    if let Some(data) = task.data {
        variables.insert("PENSTOCK_RANK", data.rank.to_string());
        variables.insert("PENSTOCK_WORLD_SIZE", data.world_size.to_string());
        variables.insert("PENSTOCK_REPLICA", data.replica.to_string());
        if let Some(socket) = wiring.sidecars.get(&task.id) {
            variables.insert("PENSTOCK_SIDECAR", socket.display().to_string());
            variables.insert("PENSTOCK_GATEWAYS", wiring.gateways.join(","));
            variables.insert("PENSTOCK_DATASETS", wiring.datasets.join(","));
        }
    }
    let mut all: BTreeMap<_, _> =
        variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    // Whoever names a variable means it.
    all.extend(job.env.clone());
    all.extend(job.roles.get(&task.id.role).map(|spec| spec.env.clone()).unwrap_or_default());
    if let Some(path) = python_path(job, wiring, all.get(PYTHON_PATH)) {
        all.insert(PYTHON_PATH.to_owned(), path);
    }
    all
}

/// What a task inherits from nobody: an interpreter of its own finds its library itself.
pub fn not_inherited(job: &Job) -> &'static [&'static str] {
    if python_path::is_chosen(&job.python) { &["PYTHONHOME", PYTHON_PATH] } else { &[] }
}

/// `named` is what the job says of it. Absent: whatever is inherited.
fn python_path(job: &Job, wiring: &Wiring, named: Option<&String>) -> Option<String> {
    let inherited = wiring.python_path.as_deref().unwrap_or_default();
    let others = match named {
        Some(named) => std::env::split_paths(named).collect(),
        None => python_path::cleaned(inherited, &job.python),
    };
    let path: Vec<_> = wiring.shims.iter().cloned().chain(others).collect();
    if path.is_empty() {
        return None;
    }
    // A shim with a colon in its path cannot be said, and is then not there.
    std::env::join_paths(path).ok().and_then(|path| path.into_string().ok())
}

/// `{"cluster": {"worker": ["HOST:PORT", …]}, "task": {"type": …, "index": …}}`
fn tf_config(task: TaskId, topology: &Topology, wiring: &Wiring) -> String {
    let cluster = cluster::spec(topology.cluster(), wiring);
    json!({"cluster": cluster, "task": {"type": task.role.name(), "index": task.index}}).to_string()
}

/// The hosts that `own` names, and all peers.
fn past_proxies(own: Option<&str>, wiring: &Wiring) -> String {
    let own = own.unwrap_or_default().split(',').map(str::trim);
    let peers = wiring.addresses.values().map(|address| cluster::split(address).0);
    let mut hosts: Vec<&str> = Vec::new();
    for host in own.chain(LOCAL_HOSTS).chain(peers).filter(|host| !host.is_empty()) {
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    hosts.join(",")
}

#[cfg(test)]
mod tests;
