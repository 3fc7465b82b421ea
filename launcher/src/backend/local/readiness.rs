//! Whether all members of the cluster serve each other.
//!
//! In: a run whose tasks have been started. Out: who does not serve though others do. The promise: a job whose
//! members never serve, since its script trains without a cluster, is left alone.

use std::time::Duration;

use tokio::time::Instant;

use super::alarms::Alarm;
use super::listening;
use super::run::Run;
use crate::topology::{Strategy, TaskId};
use crate::watch::{Event, TaskState};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);

impl Run<'_> {
    /// Begins to look. One process alone has nobody to serve.
    pub(super) fn await_readiness(&mut self) {
        self.started = Instant::now();
        if self.job.start_timeout.is_some() && self.topology.strategy != Strategy::Single {
            self.alarms.set(Alarm::Look, self.started + EVERY);
        }
    }

    /// Looks once, and again in a while if that settles nothing.
    pub(super) fn look(&mut self) -> Option<Event> {
        let silent = self.silent_members();
        if silent.is_empty() {
            return None;
        }
        let allowed = self.job.start_timeout?;
        if self.started.elapsed() < allowed {
            self.alarms.set(Alarm::Look, Instant::now() + EVERY.min(allowed));
            return None;
        }
        (silent.len() < self.running_members().count()).then_some(Event::NotReady(silent, allowed))
    }

    fn silent_members(&self) -> Vec<TaskId> {
        let listening = listening::ports();
        let port = |task| self.wiring.addresses.get(&task)?.rsplit(':').next()?.parse().ok();
        self.running_members()
            .filter(|&task| port(task).is_some_and(|port: u16| !listening.contains(&port)))
            .collect()
    }

    fn running_members(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.topology.cluster().filter(|&task| self.watch.state(task) == TaskState::Running)
    }
}
