//! Brings the processes of a run up: once, and again after a death.
//!
//! In: a run. Out: members that run. The promise: the gateway listens before a sidecar is started, and every
//! sidecar before the task that it feeds; what comes back has the place and the address that it had.

use tokio::time::Instant;

use super::alarms::Alarm;
use super::lingering::CHIEF;
use super::ports::Ports;
use super::process::{Process, Spec};
use super::run::{Happening, Kind, Member, Run};
use super::{shims, specs};
use crate::environment::Wiring;
use crate::report::human_duration;
use crate::top::{DaemonKind, Entry, Roster};
use crate::topology::{Task, TaskId};
use crate::watch::{Event, Verdict};

impl Run<'_> {
    /// Gateway, then sidecars together, then tasks.
    pub(super) async fn bring_up(&mut self) -> Result<(), Verdict> {
        self.wiring = Wiring {
            run_dir: self.directory.path.clone(),
            logdir: self.job.logdir.clone().unwrap_or_else(|| self.directory.path.join("tensorboard")),
            datasets: self.job.inputs.keys().cloned().collect(),
            no_proxy: std::env::var("no_proxy").or_else(|_| std::env::var("NO_PROXY")).ok(),
            no_grpc_proxy: std::env::var("no_grpc_proxy").ok(),
            python_path: std::env::var("PYTHONPATH").ok(),
            shims: shims::write(self.job, self.topology, &self.directory.path).map_err(not_started)?,
            ..Wiring::default()
        };
        self.announce();
        self.ports = Ports::hold(self.job, self.topology).map_err(not_started)?;
        let local = |port| format!("127.0.0.1:{port}");
        self.wiring.addresses = self.ports.numbers().map(|(task, port)| (task, local(port))).collect();
        self.wiring.master = self.ports.master().map(local);
        self.wiring.board_port = self.ports.board();
        if !self.job.inputs.is_empty() {
            self.bring_up_feed().await?;
        }
        for task in &self.topology.tasks {
            self.ports.starts(task.id, self.topology);
            self.start(Kind::Task(task.id), self.task_spec(task))?;
        }
        if let Some(allowed) = self.job.timeout {
            self.alarms.set(Alarm::JobTimeout, Instant::now() + allowed);
        }
        self.await_readiness();
        self.await_the_chiefs_end();
        Ok(())
    }

    fn task_spec(&self, task: &Task) -> Spec {
        specs::task(self.job, self.setup, self.directory, task, self.topology, &self.wiring)
    }

    async fn bring_up_feed(&mut self) -> Result<(), Verdict> {
        let key = self.directory.ticket_key().map_err(not_started)?;
        self.start(Kind::Gateway, specs::gateway(self.job, self.setup, self.directory, &key))?;
        self.until_all_listen().await?;
        self.wiring.gateways.extend(self.members.iter().filter_map(|member| member.listening.clone()));
        for task in self.topology.tasks.iter().filter(|task| task.data.is_some()).map(|task| task.id) {
            let spec = specs::sidecar(self.job, self.setup, self.directory, task, &self.wiring);
            self.start(Kind::Sidecar(task), spec)?;
            self.wiring.sidecars.insert(task, self.directory.socket(task));
        }
        self.until_all_listen().await?;
        self.roster().write(&self.directory.path).map_err(not_started)
    }

    /// Where each daemon tells how it is doing.
    fn roster(&self) -> Roster {
        let entry = |member: &Member| {
            let (kind, name) = match member.kind {
                Kind::Gateway => (DaemonKind::Gateway, member.process.name.clone()),
                Kind::Sidecar(task) => (DaemonKind::Sidecar, task.to_string()),
                Kind::Task(_) => return None,
            };
            Some(Entry { kind, name, admin: member.admin.clone()? })
        };
        Roster { daemons: self.members.iter().filter_map(entry).collect() }
    }

    fn start(&mut self, kind: Kind, spec: Spec) -> Result<(), Verdict> {
        let process = self.process(spec, self.members.len())?;
        self.members.push(Member { kind, process, listening: None, admin: None, metrics: None });
        Ok(())
    }

    /// Starts what has ended once more, in the place that it had.
    fn restart(&mut self, kind: Kind, spec: Spec) -> Result<(), Verdict> {
        if let Some(place) = self.members.iter().position(|member| member.kind == kind) {
            let process = self.process(spec, place)?;
            self.members[place] = Member { kind, process, listening: None, admin: None, metrics: None };
        }
        Ok(())
    }

    pub(super) fn restart_task(&mut self, id: TaskId) -> Result<(), Verdict> {
        let Some(task) = self.topology.tasks.iter().find(|task| task.id == id) else { return Ok(()) };
        *self.wiring.attempts.entry(id).or_default() += 1;
        self.restart(Kind::Task(id), self.task_spec(task))?;
        self.watch.started(id);
        self.await_readiness();
        if id == CHIEF {
            self.await_the_chiefs_end();
        }
        Ok(())
    }

    /// All members of the cluster, with new sidecars: what each of the old ones handed out last says nothing of where
    /// the others were, and ranks that go on at different steps wait for each other at the end.
    pub(super) async fn restart_gang(&mut self) -> Result<(), Verdict> {
        let topology = self.topology;
        let beside_member = |kind| matches!(kind, Kind::Sidecar(task) if task.role.in_cluster());
        self.take_down(beside_member).await;
        // Whatever may end the job is looked at first: members that wait are none to be ended.
        let ends = |happening: &Happening| {
            matches!(happening, Happening::Event(Event::Interrupted(_) | Event::DaemonEnded(..)))
        };
        if self.deferred.iter().any(ends) {
            return Ok(());
        }
        let fed: Vec<_> =
            self.members.iter().map(|member| member.kind).filter(|kind| beside_member(*kind)).collect();
        for kind in &fed {
            if let Kind::Sidecar(task) = *kind {
                self.restart(
                    *kind,
                    specs::sidecar(self.job, self.setup, self.directory, task, &self.wiring),
                )?;
            }
        }
        self.until_all_listen().await?;
        if !fed.is_empty() {
            self.roster().write(&self.directory.path).map_err(not_started)?;
        }
        topology.cluster().try_for_each(|task| self.restart_task(task))
    }

    fn process(&self, spec: Spec, place: usize) -> Result<Process, Verdict> {
        Process::start(spec, &self.setup.penstock, place, self.tell.clone(), &self.journal)
            .map_err(not_started)
    }

    /// Waits until every daemon that was started has said where it listens; whoever says how far it is has time.
    async fn until_all_listen(&mut self) -> Result<(), Verdict> {
        let allowed = self.setup.start_deadline;
        self.heard = Instant::now();
        let is_awaited = |member: &Member| !member.kind.is_task() && member.listening.is_none();
        while let Some(waiting) = self.members.iter().position(is_awaited) {
            self.alarms.set(Alarm::TimeUp, self.heard + allowed);
            match self.next().await {
                Some(Happening::Event(Event::DaemonEnded(name, exit))) => {
                    return Err(self.daemon_not_started(&name, &exit));
                }
                Some(Happening::Event(Event::Interrupted(signal))) => {
                    return Err(Verdict::Interrupted(signal));
                }
                Some(Happening::Due(Alarm::TimeUp)) => {
                    let process = &self.members[waiting].process;
                    let allowed = human_duration(allowed.as_secs_f64());
                    return Err(Verdict::NotStarted(format!(
                        "{} was not ready after {allowed}, see {}",
                        process.name,
                        process.log.display()
                    )));
                }
                Some(other) => self.deferred.push_back(other),
                None => {}
            }
        }
        self.alarms.clear(|alarm| alarm == Alarm::TimeUp);
        Ok(())
    }
}

fn not_started(error: impl std::fmt::Display) -> Verdict {
    Verdict::NotStarted(error.to_string())
}
