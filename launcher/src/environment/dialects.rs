//! The variables of other launchers, so that scripts written for them find what they look for.
//!
//! In: the topology and where everything is. Out: variables. The promise: they clash with none of TensorFlow's and
//! none of ours, so that every task gets all that say something about it.

use super::{Wiring, cluster};
use crate::topology::{Role, Task, TaskId, Topology};

/// What a launcher may inherit from another, and must not pass on.
pub(super) const NAMES: [&str; 20] = [
    "JOB_NAME",
    "TASK_INDEX",
    "TASK_NUM",
    "IS_CHIEF",
    "CLUSTER_SPEC",
    "ATTEMPT_NUMBER",
    "DISTRIBUTED_MODE",
    "TB_PORT",
    "TF_CLUSTER_DEF",
    "TF_ROLE",
    "TF_INDEX",
    "RANK",
    "WORLD_SIZE",
    "WORLD",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "INIT_METHOD",
    "GROUP_RANK",
];

type Variables = Vec<(&'static str, String)>;

/// TonY's. Every task has a name and a number there, also those that TensorFlow does not know.
pub(super) fn tony(task: TaskId, topology: &Topology, wiring: &Wiring) -> Variables {
    let of_role = topology.tasks.iter().filter(|other| other.id.role == task.role).count();
    let is_chief = is_chief(task, topology);
    let mut variables = vec![
        ("JOB_NAME", task.role.name().to_owned()),
        ("TASK_INDEX", task.index.to_string()),
        ("TASK_NUM", of_role.to_string()),
        ("IS_CHIEF", is_chief.to_string()),
        ("CLUSTER_SPEC", cluster::spec(topology.addressed(), wiring).to_string()),
        ("ATTEMPT_NUMBER", wiring.attempts.get(&task).copied().unwrap_or(0).to_string()),
        // All are there before the first starts.
        ("DISTRIBUTED_MODE", "GANG".to_owned()),
    ];
    if let (true, Some(port)) = (is_chief, wiring.board_port) {
        variables.push(("TB_PORT", port.to_string()));
    }
    variables
}

/// XLearning's, of the tasks that TensorFlow knows.
pub(super) fn xlearning(task: TaskId, topology: &Topology, wiring: &Wiring) -> Variables {
    vec![
        ("TF_CLUSTER_DEF", cluster::spec(topology.cluster(), wiring).to_string()),
        ("TF_ROLE", task.role.name().to_owned()),
        ("TF_INDEX", task.index.to_string()),
    ]
}

/// PyTorch's, of the tasks that train together; TonY's names for the same among them.
pub(super) fn torch(task: &Task, topology: &Topology, wiring: &Wiring) -> Variables {
    let trainers = || topology.tasks.iter().filter(|other| trains(other, topology));
    let (Some(rank), Some(master)) =
        (trainers().position(|other| other.id == task.id), wiring.master.as_deref())
    else {
        return Vec::new();
    };
    let world = trainers().count().to_string();
    let (host, port) = cluster::split(master);
    vec![
        ("RANK", rank.to_string()),
        ("WORLD_SIZE", world.clone()),
        ("WORLD", world.clone()),
        // All are on this machine.
        ("LOCAL_RANK", rank.to_string()),
        ("LOCAL_WORLD_SIZE", world),
        ("GROUP_RANK", "0".to_owned()),
        ("MASTER_ADDR", host.to_owned()),
        ("MASTER_PORT", port.to_owned()),
        ("INIT_METHOD", format!("tcp://{master}")),
    ]
}

/// The task that the others of a torch job meet at.
pub(crate) fn first_trainer(topology: &Topology) -> Option<TaskId> {
    topology.tasks.iter().find(|task| trains(task, topology)).map(|task| task.id)
}

/// A coordinator sees data and trains nothing.
fn trains(task: &Task, topology: &Topology) -> bool {
    task.data.is_some()
        && match task.id.role {
            Role::Worker => true,
            Role::Chief => !topology.has_ps(),
            _ => false,
        }
}

/// The task that speaks for the job: the chief, or worker 0.
pub(crate) fn chief(topology: &Topology) -> Option<TaskId> {
    topology.tasks.iter().map(|task| task.id).find(|&task| is_chief(task, topology))
}

fn is_chief(task: TaskId, topology: &Topology) -> bool {
    let has_chief = topology.tasks.iter().any(|other| other.id.role == Role::Chief);
    match task.role {
        Role::Chief => true,
        Role::Worker => !has_chief && task.index == 0,
        _ => false,
    }
}
