//! A coordinator whose program has ended and whose process goes on.
//!
//! In: the file that a shim in its Python writes when the program's main thread is done. Out: an end, with the code that
//! the program earned. The promise: a process that exits by itself in time is left alone. TensorFlow's waits for ever
//! where a worker was gone when the last step was done.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use super::alarms::Alarm;
use super::run::{Kind, Run};
use crate::agent::{Exit, Order};
use crate::report::human_duration;
use crate::topology::{Role, Strategy, TaskId};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);
pub(super) const CHIEF: TaskId = TaskId { role: Role::Chief, index: 0 };

/// Where a task's shim tells of the end of its program; nothing for tasks that are not asked.
pub(super) fn end_file(run_dir: &Path, strategy: Strategy, task: TaskId) -> Option<PathBuf> {
    (strategy == Strategy::ParameterServer && task == CHIEF).then(|| run_dir.join("shims").join("ended"))
}

impl Run<'_> {
    /// Begins to look for the end of the chief's program, which is not told yet.
    pub(super) fn await_the_chiefs_end(&mut self) {
        if let Some(path) = end_file(&self.directory.path, self.topology.strategy, CHIEF) {
            // One that was started before may have told of its own.
            let _ = std::fs::remove_file(path);
            self.lingers = None;
            self.alarms.set(Alarm::ChiefsEnd, Instant::now() + EVERY);
        }
    }

    /// Looks once, and again in a while; ends a process that lingers.
    pub(super) fn look_for_the_chiefs_end(&mut self) {
        let Some(member) = self.members.iter().find(|member| member.kind == Kind::Task(CHIEF)) else {
            return;
        };
        if !member.process.is_running() {
            return;
        }
        let now = Instant::now();
        if let Some((since, exit)) = &self.lingers {
            let allowed = self.job.exit_timeout;
            if now.duration_since(*since) >= allowed {
                let text = format!(
                    "{CHIEF}'s program ended {} ago ({exit}) and its process does not, as TensorFlow waits for a worker that was gone; ending it (--exit-timeout)",
                    human_duration(allowed.as_secs_f64())
                );
                member.process.order(Order::Kill);
                self.say(&text);
                return;
            }
        } else if let Some(code) = self.told_code() {
            self.lingers = Some((now, Exit::Code(code)));
        }
        self.alarms.set(Alarm::ChiefsEnd, now + EVERY);
    }

    fn told_code(&self) -> Option<i32> {
        let path = end_file(&self.directory.path, self.topology.strategy, CHIEF)?;
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    }

    /// How a task ended: what its program earned, where its process had to be ended for lingering.
    pub(super) fn earned(&mut self, task: TaskId, exit: Exit) -> Exit {
        if task != CHIEF {
            return exit;
        }
        match self.lingers.take() {
            Some((since, earned)) if exit == Exit::Signal(9) && since.elapsed() >= self.job.exit_timeout => {
                earned
            }
            _ => exit,
        }
    }
}
