//! The environment of each task: what a script learns about the job it is part of.
//!
//! In: the topology and where everything is. Out: variables. The promise: pure; the evaluator is in
//! nobody's cluster spec; peers are reached past any proxy. It knows no processes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::job::Job;
use crate::topology::{Task, TaskId, Topology};

/// Hosts that must not be reached through a proxy.
const LOCAL_HOSTS: &str = "127.0.0.1,localhost";

/// Variables that only the job sets: a launcher's own are never inherited.
pub(crate) const OWN: [&str; 10] = [
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
}

/// The variables of `task`, on top of those that it inherits.
pub fn variables(job: &Job, task: &Task, topology: &Topology, wiring: &Wiring) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::from([
        ("PENSTOCK_RUN_DIR", wiring.run_dir.display().to_string()),
        ("PENSTOCK_LOGDIR", wiring.logdir.display().to_string()),
        // Without it a script's output arrives when the script ends.
        ("PYTHONUNBUFFERED", "1".to_owned()),
        ("no_proxy", no_proxy(wiring)),
        ("NO_PROXY", no_proxy(wiring)),
    ]);
    if task.id.role.is_tensorflows() {
        variables.insert("TF_CONFIG", tf_config(task.id, topology, wiring));
        // The launcher holds each port with SO_REUSEPORT for the task's life; TensorFlow binds beside it.
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
    all
}

/// `{"cluster": {"worker": ["HOST:PORT", …]}, "task": {"type": …, "index": …}}`
fn tf_config(task: TaskId, topology: &Topology, wiring: &Wiring) -> String {
    let mut cluster = Map::new();
    for member in topology.cluster() {
        let address = wiring.addresses.get(&member).cloned().unwrap_or_default();
        let members = cluster.entry(member.role.name()).or_insert_with(|| json!([]));
        if let Value::Array(members) = members {
            members.push(address.into());
        }
    }
    json!({"cluster": cluster, "task": {"type": task.role.name(), "index": task.index}}).to_string()
}

fn no_proxy(wiring: &Wiring) -> String {
    match wiring.no_proxy.as_deref() {
        None | Some("") => LOCAL_HOSTS.to_owned(),
        Some(own) => format!("{own},{LOCAL_HOSTS}"),
    }
}

#[cfg(test)]
mod tests;
