//! The topology: which tasks a job consists of, and what each is to the others.
//!
//! In: a job. Out: its tasks, in the order in which they are started and shown. The promise: pure. It
//! knows no addresses, no processes and no machine.

use std::collections::BTreeMap;
use std::fmt;

use crate::job::{Job, SuccessPolicy};

mod role;
mod strategy;

pub use role::{Role, RoleName};
pub use strategy::{RestartPolicy, Rule, Scope, Strategy};

/// One task of a job, `worker:0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    pub role: Role,
    pub index: u32,
}

/// Which share of every global batch a task is fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataRank {
    pub rank: u32,
    pub world_size: u32,
    /// Which of the processes it is that share the rank, and get the same batches.
    pub replica: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    pub id: TaskId,
    /// Absent: the task is not fed.
    pub data: Option<DataRank>,
}

/// All tasks of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    pub tasks: Vec<Task>,
    pub strategy: Strategy,
    /// Roles for which the job says otherwise than the strategy.
    policies: BTreeMap<Role, RestartPolicy>,
    success_policy: SuccessPolicy,
}

impl Topology {
    /// The workers share the data by rank, with the chief in front unless there are parameter servers:
    /// then it coordinates, and like the evaluator it is a world of one, which may look at any data.
    /// Neighbours that hold parts of one model share a rank.
    pub fn new(job: &Job) -> Self {
        let task = |role, index, data| Task { id: TaskId { role, index }, data };
        let alone = Some(DataRank { rank: 0, world_size: 1, replica: 0 });
        let first = u32::from(job.has_fed_chief());
        let world_size = job.fed() / job.replicas;
        let share =
            |place: u32| DataRank { rank: place / job.replicas, world_size, replica: place % job.replicas };
        let mut tasks = Vec::new();
        if job.chief {
            let data = if first == 1 { Some(share(0)) } else { alone };
            tasks.push(task(Role::Chief, 0, data));
        }
        tasks.extend((0..job.num_workers).map(|index| task(Role::Worker, index, Some(share(first + index)))));
        tasks.extend((0..job.num_ps).map(|index| task(Role::Ps, index, None)));
        if job.evaluator {
            tasks.push(task(Role::Evaluator, 0, alone));
        }
        for (name, spec) in &job.roles {
            if let Role::Other(_) = name {
                tasks.extend((0..spec.replicas).map(|index| task(*name, index, None)));
            }
        }
        if job.tensorboard {
            tasks.push(task(Role::TensorBoard, 0, None));
        }
        let strategy = Strategy::new(job.fed(), job.num_ps > 0, job.chief);
        let policies =
            job.roles.iter().filter_map(|(role, spec)| Some((*role, spec.restart_policy?))).collect();
        Self { tasks, strategy, policies, success_policy: job.success_policy }
    }

    /// The members of the cluster spec: those that talk to each other.
    pub fn cluster(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.tasks.iter().map(|task| task.id).filter(|id| id.role.in_cluster())
    }

    /// Those that others can reach: the cluster's members first, and the tasks of the job's own roles.
    pub fn addressed(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.tasks.iter().map(|task| task.id).filter(|id| id.role.has_address())
    }

    pub fn has_ps(&self) -> bool {
        self.has(Role::Ps)
    }

    /// Whether tasks of this role serve others for ever, so that their end is for us to bring about:
    /// parameter servers, roles of the job's own, the workers of a coordinator, and where the chief's success is the job's
    /// all other workers.
    pub fn serves(&self, task: TaskId) -> bool {
        match task.role {
            Role::Ps | Role::Other(_) => true,
            Role::Worker if self.strategy == Strategy::ParameterServer => true,
            Role::Worker if self.success_policy == SuccessPolicy::Chief => task != self.leader(),
            _ => false,
        }
    }

    /// Whether the job has succeeded only when this task has.
    pub fn decides_success(&self, task: TaskId) -> bool {
        matches!(task.role, Role::Chief | Role::Worker) && !self.serves(task)
    }

    /// The chief, or whoever acts as one.
    fn leader(&self) -> TaskId {
        TaskId { role: if self.has(Role::Chief) { Role::Chief } else { Role::Worker }, index: 0 }
    }

    /// What follows the death of a task of this role.
    pub fn rule(&self, role: Role) -> Rule {
        let rule = self.strategy.rule(role);
        Rule { policy: self.policies.get(&role).copied().unwrap_or(rule.policy), ..rule }
    }

    fn has(&self, role: Role) -> bool {
        self.tasks.iter().any(|task| task.id.role == role)
    }
}

impl TaskId {
    /// For file names: `worker-0`.
    pub fn file_stem(self) -> String {
        format!("{}-{}", self.role.name(), self.index)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.role.name(), self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Draft, Program};

    fn check(draft: Draft, expected: &[&str]) {
        let job = Job::resolve(Draft { program: Some(Program::Script("a.py".into())), ..draft }).unwrap();
        let shown: Vec<_> = Topology::new(&job)
            .tasks
            .iter()
            .map(|task| match task.data {
                Some(data) => format!("{} rank {} of {}", task.id, data.rank, data.world_size),
                None => format!("{} unfed", task.id),
            })
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn one_worker_is_the_default() {
        check(Draft::default(), &["worker:0 rank 0 of 1"]);
    }

    #[test]
    fn a_chief_shares_the_data_unless_there_are_parameter_servers() {
        let with_chief = Draft { chief: Some(true), num_workers: Some(2), ..Draft::default() };
        check(with_chief.clone(), &["chief:0 rank 0 of 3", "worker:0 rank 1 of 3", "worker:1 rank 2 of 3"]);
        check(
            Draft { num_ps: Some(2), ..with_chief },
            &[
                "chief:0 rank 0 of 1",
                "worker:0 rank 0 of 2",
                "worker:1 rank 1 of 2",
                "ps:0 unfed",
                "ps:1 unfed",
            ],
        );
    }

    #[test]
    fn neighbours_that_hold_parts_of_one_model_share_a_rank() {
        let replicas = |of: Draft| {
            let job = Job::resolve(Draft {
                program: Some(Program::Script("a.py".into())),
                replicas: Some(2),
                ..of
            })
            .unwrap();
            let data = Topology::new(&job).tasks.into_iter().filter_map(|task| task.data);
            data.map(|data| (data.rank, data.replica, data.world_size)).collect::<Vec<_>>()
        };
        let four = [(0, 0, 2), (0, 1, 2), (1, 0, 2), (1, 1, 2)];
        assert_eq!(replicas(Draft { num_workers: Some(4), ..Draft::default() }), four);
        assert_eq!(
            replicas(Draft { num_workers: Some(3), chief: Some(true), ..Draft::default() }),
            four,
            "the chief is the first of them"
        );
        let evaluated = Draft { num_workers: Some(2), evaluator: Some(true), ..Draft::default() };
        assert_eq!(replicas(evaluated), [(0, 0, 1), (0, 1, 1), (0, 0, 1)]);
    }

    #[test]
    fn the_evaluator_is_a_world_of_one_and_outside_the_cluster() {
        let draft = Draft {
            num_workers: Some(2),
            evaluator: Some(true),
            tensorboard: Some(true),
            ..Draft::default()
        };
        check(
            draft.clone(),
            &[
                "worker:0 rank 0 of 2",
                "worker:1 rank 1 of 2",
                "evaluator:0 rank 0 of 1",
                "tensorboard:0 unfed",
            ],
        );
        let job = Job::resolve(Draft { program: Some(Program::Script("a.py".into())), ..draft }).unwrap();
        let cluster: Vec<_> = Topology::new(&job).cluster().map(|id| id.to_string()).collect();
        assert_eq!(cluster, ["worker:0", "worker:1"]);
    }
}
