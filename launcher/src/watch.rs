//! The watch over a running job: what each end of a process means, and what happens next.
//!
//! In: events, in the order in which they happened. Out: the next step for whoever holds the processes,
//! and at the end a verdict. The promise: pure, without a clock; the first failure by time is blamed, and
//! never one that came after the job's end was decided. It knows no processes.

use std::collections::BTreeMap;
use std::fmt;

use crate::agent::{Exit, signal_name};
use crate::topology::{TaskId, Topology};

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
}

/// What is to be done now. A step other than `Continue` replaces the time limit of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing new.
    Continue,
    /// The workers are done: the evaluator may finish, within its grace.
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
    /// It never ran: something that it needs did not come up.
    NotStarted(String),
}

/// How a task stands at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    Running,
    Succeeded,
    Failed,
    /// Ended because the job did; not blamed, whatever its code.
    Stopped,
}

/// The state of the job so far.
#[derive(Debug)]
pub struct Watch {
    tasks: BTreeMap<TaskId, TaskState>,
    verdict: Option<Verdict>,
}

impl Watch {
    pub fn new(topology: &Topology) -> Self {
        let tasks = topology.tasks.iter().map(|task| (task.id, TaskState::Running)).collect();
        Self { tasks, verdict: None }
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
            Event::TimeUp if self.verdict.is_none() => self.decide(Verdict::Succeeded),
            Event::TimeUp => Step::Kill,
        }
    }

    /// Known once the end is decided, before all has ended.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    pub fn state(&self, task: TaskId) -> TaskState {
        self.tasks.get(&task).copied().unwrap_or(TaskState::Stopped)
    }

    fn task_ended(&mut self, task: TaskId, exit: Exit) -> Step {
        let state = match &self.verdict {
            Some(_) => TaskState::Stopped,
            None if exit.is_success() => TaskState::Succeeded,
            None => TaskState::Failed,
        };
        self.tasks.insert(task, state);
        if self.verdict.is_some() {
            return if self.any_running() { Step::Continue } else { Step::Over };
        }
        if state == TaskState::Failed && task.role.is_tracked() {
            return self.decide(Verdict::TaskFailed(task, exit));
        }
        if !self.workers_are_done() {
            return Step::Continue;
        }
        if !self.running().any(|task| task.role.is_tracked()) {
            return self.decide(Verdict::Succeeded);
        }
        // Said once, when the last worker ended; not again when TensorBoard does.
        if task.role.decides_success() { Step::AwaitEvaluator } else { Step::Continue }
    }

    fn decide(&mut self, verdict: Verdict) -> Step {
        self.verdict = Some(verdict);
        if self.any_running() { Step::Terminate } else { Step::Over }
    }

    fn workers_are_done(&self) -> bool {
        !self.running().any(|task| task.role.decides_success())
    }

    fn any_running(&self) -> bool {
        self.running().next().is_some()
    }

    fn running(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.tasks.iter().filter(|(_, state)| **state == TaskState::Running).map(|(task, _)| *task)
    }
}

impl Verdict {
    /// The launcher's own exit code: the first failure's.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Succeeded => 0,
            // A daemon that left without being asked has failed, whatever its code says.
            Self::TaskFailed(_, exit) | Self::DaemonFailed(_, exit) => exit.code().max(1),
            Self::Interrupted(signal) => 128 + signal,
            Self::NotStarted(_) => 1,
        }
    }

    /// One word, as the summary has it.
    pub fn state(&self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Interrupted(_) => "interrupted",
            Self::TaskFailed(..) | Self::DaemonFailed(..) | Self::NotStarted(_) => "failed",
        }
    }

    /// Who is to blame, if anybody.
    pub fn culprit(&self) -> Option<String> {
        match self {
            Self::TaskFailed(task, _) => Some(task.to_string()),
            Self::DaemonFailed(name, _) => Some(name.clone()),
            _ => None,
        }
    }
}

/// Completes `job NAME …`.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Succeeded => f.write_str("succeeded"),
            Self::TaskFailed(task, exit) => write!(f, "failed: {task} {exit}"),
            Self::DaemonFailed(name, exit) => write!(f, "failed: {name} {exit} while the job ran"),
            Self::Interrupted(signal) => write!(f, "was interrupted by {}", signal_name(*signal)),
            Self::NotStarted(reason) => write!(f, "did not start: {reason}"),
        }
    }
}

impl TaskState {
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

#[cfg(test)]
mod tests;
