//! The watch over a running job: what each end of a process means, and what happens next.
//!
//! In: events, in the order in which they happened. Out: the next step for whoever holds the processes,
//! and at the end a verdict. The promise: pure, without a clock; the first failure by time is blamed, and
//! never one that came after the job's end was decided. It knows no processes.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::agent::{Exit, signal_name};
use crate::report::human_duration;
use crate::topology::{Role, Scope, TaskId, Topology};

mod chances;

use chances::Chances;

/// As `timeout(1)` has it.
const TIMED_OUT: i32 = 124;

/// Something that happened to the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    TaskEnded(TaskId, Exit),
    /// A gateway or a sidecar ended; none should while tasks run.
    DaemonEnded(String, Exit),
    /// The user asked for the end, by this signal.
    Interrupted(i32),
    /// The time that the last step gave is over.
    TimeUp,
    /// These members of the cluster listen on no port after so long, while others do.
    NotReady(Vec<TaskId>, Duration),
    /// The job has taken all the time that it may.
    TimedOut(Duration),
}

/// What is to be done now. A step other than `Continue` replaces the time limit of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing new.
    Continue,
    /// Start this task again, after its pause: the job survives its death if it comes back.
    Restart(TaskId),
    /// This task's death ends the others too: SIGTERM to all members of the cluster that run.
    StopGang(TaskId),
    /// SIGKILL to those that did not end in time.
    KillGang,
    /// None of them runs any more: start them all again, after the gang's pause. The task is the one whose death it was.
    RestartGang(TaskId),
    /// The training is done: SIGTERM to those that serve it; the evaluator may finish, within its grace.
    AwaitEvaluator,
    /// SIGTERM to all that run; time is up after the grace.
    Terminate,
    /// SIGKILL to all that run.
    Kill,
    /// No task runs any more.
    Over,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Succeeded,
    TaskFailed(TaskId, Exit),
    DaemonFailed(String, Exit),
    Interrupted(i32),
    /// Some never began to serve the others, which waited for them.
    NotReady(Vec<TaskId>, Duration),
    TimedOut(Duration),
    /// It never ran: something that it needs did not come up.
    NotStarted(String),
}

/// How a task stands at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    Running,
    /// Ended, and to be started again.
    Waiting,
    Succeeded,
    Failed,
    /// Ended because the job did; not blamed, whatever its code.
    Stopped,
}

/// The state of the job so far.
#[derive(Debug)]
pub struct Watch {
    topology: Topology,
    tasks: BTreeMap<TaskId, TaskState>,
    restarts: BTreeMap<TaskId, u32>,
    chances: Chances,
    /// All members of the cluster end because one has, and come back once they have.
    /// Whose death it was.
    gang_stops: Option<TaskId>,
    verdict: Option<Verdict>,
}

impl Watch {
    /// Each task that may, and the gang, is started again `max_restarts` times at most.
    pub fn new(topology: &Topology, max_restarts: u32) -> Self {
        Self {
            topology: topology.clone(),
            tasks: topology.tasks.iter().map(|task| (task.id, TaskState::Running)).collect(),
            restarts: BTreeMap::new(),
            chances: Chances::new(max_restarts),
            gang_stops: None,
            verdict: None,
        }
    }

    /// Takes in an event.
    pub fn on(&mut self, event: Event) -> Step {
        match event {
            Event::TaskEnded(task, exit) => self.task_ended(task, exit),
            // A daemon that ends while the job does is no cause of it.
            Event::DaemonEnded(..) if self.verdict.is_some() => Step::Continue,
            Event::DaemonEnded(name, exit) => self.decide(Verdict::DaemonFailed(name, exit)),
            Event::Interrupted(signal) if self.verdict.is_none() => self.decide(Verdict::Interrupted(signal)),
            // Asked twice: the user does not want to wait.
            Event::Interrupted(_) => Step::Kill,
            Event::TimeUp if self.verdict.is_some() => Step::Kill,
            Event::TimeUp if self.gang_stops.is_some() => Step::KillGang,
            Event::TimeUp => self.decide(Verdict::Succeeded),
            Event::NotReady(..) | Event::TimedOut(_) if self.verdict.is_some() => Step::Continue,
            Event::NotReady(tasks, after) => self.decide(Verdict::NotReady(tasks, after)),
            Event::TimedOut(after) => self.decide(Verdict::TimedOut(after)),
        }
    }

    /// A task that waited runs again.
    pub fn started(&mut self, task: TaskId) {
        self.tasks.insert(task, TaskState::Running);
        *self.restarts.entry(task).or_default() += 1;
    }

    /// Before the next start of this task, or of its gang.
    pub fn pause(&self, task: TaskId) -> Duration {
        self.chances.pause(self.whom(task))
    }

    /// Starts of this task, or of its gang, that have used the budget.
    pub fn budget_used(&self, task: TaskId) -> u32 {
        self.chances.granted(self.whom(task))
    }

    /// Known once the end is decided, before all has ended.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    pub fn state(&self, task: TaskId) -> TaskState {
        self.tasks.get(&task).copied().unwrap_or(TaskState::Stopped)
    }

    /// How often a task was started again.
    pub fn restarts(&self, task: TaskId) -> u32 {
        self.restarts.get(&task).copied().unwrap_or(0)
    }

    fn task_ended(&mut self, task: TaskId, exit: Exit) -> Step {
        if self.verdict.is_some() {
            self.tasks.insert(task, TaskState::Stopped);
            return if self.any_running() { Step::Continue } else { Step::Over };
        }
        if let Some(first) = self.gang_stops.filter(|_| task.role.in_cluster()) {
            return self.gang_member_ended(task, first);
        }
        let state = match exit.is_success() {
            // One that serves for ever is ended by us once there is nobody left to serve.
            _ if self.topology.serves(task) && self.training_is_done() => TaskState::Stopped,
            // A parameter server that leaves takes the model with it, whatever its code says.
            true if task.role != Role::Ps => TaskState::Succeeded,
            _ => TaskState::Failed,
        };
        let rule = self.topology.rule(task.role);
        if state == TaskState::Failed && self.chances.grant(self.whom(task), rule.policy, &exit) {
            return match rule.scope {
                Scope::Alone => {
                    self.tasks.insert(task, TaskState::Waiting);
                    Step::Restart(task)
                }
                Scope::Gang => self.stop_gang(task),
            };
        }
        self.tasks.insert(task, state);
        if state == TaskState::Failed && task.role.is_tracked() {
            return self.decide(Verdict::TaskFailed(task, exit));
        }
        if !self.training_is_done() {
            return Step::Continue;
        }
        let goes_on = |task: TaskId| task.role.is_tracked() && !self.topology.serves(task);
        if !self.unfinished().any(goes_on) {
            return self.decide(Verdict::Succeeded);
        }
        // Said once, when the last of those ended; not again when TensorBoard or a server does.
        if self.topology.decides_success(task) { Step::AwaitEvaluator } else { Step::Continue }
    }

    /// All members come back, those that were done among them: no collective goes without one.
    fn stop_gang(&mut self, first: TaskId) -> Step {
        for (task, state) in &mut self.tasks {
            if task.role.in_cluster() && (*task == first || *state != TaskState::Running) {
                *state = TaskState::Waiting;
            }
        }
        if !self.gang_runs() {
            return Step::RestartGang(first);
        }
        self.gang_stops = Some(first);
        Step::StopGang(first)
    }

    fn gang_member_ended(&mut self, task: TaskId, first: TaskId) -> Step {
        self.tasks.insert(task, TaskState::Waiting);
        if self.gang_runs() {
            return Step::Continue;
        }
        self.gang_stops = None;
        Step::RestartGang(first)
    }

    /// Whose budget a task's starts are counted in: its own, or the gang's.
    fn whom(&self, task: TaskId) -> Option<TaskId> {
        match self.topology.rule(task.role).scope {
            Scope::Alone => Some(task),
            Scope::Gang => None,
        }
    }

    fn decide(&mut self, verdict: Verdict) -> Step {
        self.verdict = Some(verdict);
        for state in self.tasks.values_mut().filter(|state| **state == TaskState::Waiting) {
            *state = TaskState::Stopped;
        }
        if self.any_running() { Step::Terminate } else { Step::Over }
    }

    fn training_is_done(&self) -> bool {
        !self.unfinished().any(|task| self.topology.decides_success(task))
    }

    fn gang_runs(&self) -> bool {
        self.in_state(TaskState::Running).any(|task| task.role.in_cluster())
    }

    fn any_running(&self) -> bool {
        self.in_state(TaskState::Running).next().is_some()
    }

    /// Running, or about to.
    fn unfinished(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.in_state(TaskState::Running).chain(self.in_state(TaskState::Waiting))
    }

    fn in_state(&self, wanted: TaskState) -> impl Iterator<Item = TaskId> + '_ {
        self.tasks.iter().filter(move |(_, state)| **state == wanted).map(|(task, _)| *task)
    }
}

impl Verdict {
    /// The launcher's own exit code: the first failure's.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Succeeded => 0,
            // One that left without being asked has failed, whatever its code says.
            Self::TaskFailed(_, exit) | Self::DaemonFailed(_, exit) => exit.code().max(1),
            Self::Interrupted(signal) => 128 + signal,
            Self::NotStarted(_) | Self::NotReady(..) => 1,
            Self::TimedOut(_) => TIMED_OUT,
        }
    }

    /// One word, as the summary has it.
    pub fn state(&self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Interrupted(_) => "interrupted",
            Self::TaskFailed(..)
            | Self::DaemonFailed(..)
            | Self::NotReady(..)
            | Self::TimedOut(_)
            | Self::NotStarted(_) => "failed",
        }
    }

    /// Who is to blame, if anybody.
    pub fn culprit(&self) -> Option<String> {
        match self {
            Self::TaskFailed(task, _) => Some(task.to_string()),
            Self::DaemonFailed(name, _) => Some(name.clone()),
            Self::NotReady(tasks, _) => tasks.first().map(TaskId::to_string),
            _ => None,
        }
    }
}

/// Completes `job NAME …`.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Succeeded => f.write_str("succeeded"),
            Self::TaskFailed(task, exit) => {
                write!(f, "failed: {task} {exit}")?;
                if exit.is_success() { f.write_str(" while the job needed it") } else { Ok(()) }
            }
            Self::DaemonFailed(name, exit) => write!(f, "failed: {name} {exit} while the job ran"),
            Self::Interrupted(signal) => write!(f, "was interrupted by {}", signal_name(*signal)),
            Self::NotReady(tasks, after) => {
                let names: Vec<_> = tasks.iter().map(TaskId::to_string).collect();
                let names = names.join(", ");
                let after = human_duration(after.as_secs_f64());
                write!(
                    f,
                    "failed: {names} did not begin to serve within {after}, and the others wait (--start-timeout)"
                )
            }
            Self::TimedOut(after) => {
                write!(f, "failed: it was not done after {} (--timeout)", human_duration(after.as_secs_f64()))
            }
            Self::NotStarted(reason) => write!(f, "did not start: {reason}"),
        }
    }
}

impl TaskState {
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

#[cfg(test)]
mod tests;
