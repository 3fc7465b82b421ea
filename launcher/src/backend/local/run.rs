//! One run: brings the processes up in order, lives through what happens to them, takes them down.
//!
//! In: the job's specs, news of its processes, interrupts. Out: a verdict. What an event means is the
//! watch's to say; here it is carried out. The promise: after `see_through` no process of the job runs.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::Setup;
use super::ports::HeldPort;
use super::process::{News, Process, Spec, What};
use super::ready::Said;
use super::rundir::RunDir;
use super::specs;
use crate::agent::Order;
use crate::environment::Wiring;
use crate::job::Job;
use crate::report::human_duration;
use crate::report::metrics::Metrics;
use crate::scrape::scrape;
use crate::top::{DaemonKind, Entry, Roster};
use crate::topology::{Role, Task, TaskId, Topology};
use crate::watch::{Event, Step, Verdict, Watch};

/// A job's processes and everything that is known of them.
pub(super) struct Run<'a> {
    pub(super) job: &'a Job,
    pub(super) topology: &'a Topology,
    pub(super) setup: &'a Setup,
    pub(super) directory: &'a RunDir,
    interrupts: mpsc::Receiver<i32>,
    news: mpsc::UnboundedReceiver<News>,
    tell: mpsc::UnboundedSender<News>,
    /// In the order of their start; a place in it names a process.
    pub(super) members: Vec<Member>,
    /// Held until the run is dropped, for the life of every task and of those that follow it.
    ports: Vec<HeldPort>,
    wiring: Wiring,
    /// When a daemon that is awaited last said how far it is.
    heard: Instant,
    pub(super) watch: Watch,
}

/// A process and what it is to the job.
pub(super) struct Member {
    pub(super) kind: Kind,
    pub(super) process: Process,
    listening: Option<String>,
    admin: Option<String>,
    /// Asked for just before the end.
    pub(super) metrics: Option<Metrics>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Gateway,
    /// Beside this task.
    Sidecar(TaskId),
    Task(TaskId),
}

impl<'a> Run<'a> {
    pub(super) fn new(
        job: &'a Job,
        topology: &'a Topology,
        setup: &'a Setup,
        directory: &'a RunDir,
        interrupts: mpsc::Receiver<i32>,
    ) -> Self {
        let (tell, news) = mpsc::unbounded_channel();
        let watch = Watch::new(topology, job.max_restarts);
        let (members, ports, wiring) = (Vec::new(), Vec::new(), Wiring::default());
        let heard = Instant::now();
        Self { job, topology, setup, directory, interrupts, news, tell, members, ports, wiring, heard, watch }
    }

    /// The whole life of the job.
    pub(super) async fn see_through(&mut self) -> Verdict {
        let verdict = match self.bring_up().await {
            Ok(()) => self.live().await,
            Err(verdict) => verdict,
        };
        // Tasks use the sidecars, which use the gateway.
        self.take_down(Kind::is_task).await;
        self.ask_for_metrics().await;
        self.take_down(|kind| matches!(kind, Kind::Sidecar(_))).await;
        self.take_down(|kind| kind == Kind::Gateway).await;
        verdict
    }

    /// Gateway, then sidecars together, then tasks.
    async fn bring_up(&mut self) -> Result<(), Verdict> {
        self.wiring = Wiring {
            run_dir: self.directory.path.clone(),
            logdir: self.job.logdir.clone().unwrap_or_else(|| self.directory.path.join("tensorboard")),
            datasets: self.job.inputs.keys().cloned().collect(),
            no_proxy: std::env::var("no_proxy").or_else(|_| std::env::var("NO_PROXY")).ok(),
            ..Wiring::default()
        };
        self.announce();
        if !self.job.inputs.is_empty() {
            self.bring_up_feed().await?;
        }
        for member in self.topology.cluster() {
            let port = HeldPort::any().map_err(not_started)?;
            self.wiring.addresses.insert(member, format!("127.0.0.1:{}", port.number));
            self.ports.push(port);
        }
        for task in &self.topology.tasks {
            self.start(Kind::Task(task.id), self.task_spec(task))?;
        }
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

    /// Starts a task that has ended once more, in the place that it had.
    fn restart(&mut self, id: TaskId) -> Result<(), Verdict> {
        let task = self.topology.tasks.iter().find(|task| task.id == id);
        let place = self.members.iter().position(|member| member.kind == Kind::Task(id));
        if let Some((task, place)) = task.zip(place) {
            self.members[place].process = self.process(self.task_spec(task), place)?;
        }
        Ok(())
    }

    fn process(&self, spec: Spec, place: usize) -> Result<Process, Verdict> {
        Process::start(spec, &self.setup.penstock, place, self.tell.clone()).map_err(not_started)
    }

    /// Waits until every daemon that was started has said where it listens; whoever says how far it is has time.
    async fn until_all_listen(&mut self) -> Result<(), Verdict> {
        let allowed = self.setup.start_deadline;
        self.heard = Instant::now();
        while let Some(waiting) = self.members.iter().position(|member| member.listening.is_none()) {
            match self.next(Some(self.heard + allowed)).await {
                Some(Event::DaemonEnded(name, exit)) => return Err(self.daemon_not_started(&name, &exit)),
                Some(Event::Interrupted(signal)) => return Err(Verdict::Interrupted(signal)),
                Some(Event::TimeUp) => {
                    let process = &self.members[waiting].process;
                    let allowed = human_duration(allowed.as_secs_f64());
                    return Err(Verdict::NotStarted(format!(
                        "{} was not ready after {allowed}, see {}",
                        process.name,
                        process.log.display()
                    )));
                }
                Some(Event::TaskEnded(..)) | None => {}
            }
        }
        Ok(())
    }

    /// From the start of the tasks to the end of the last.
    async fn live(&mut self) -> Verdict {
        let mut limit = None;
        loop {
            let Some(event) = self.next(limit).await else { continue };
            let board_ended = matches!(&event, Event::TaskEnded(task, _) if task.role == Role::TensorBoard);
            let step = self.watch.on(event);
            if board_ended {
                self.warn_of_tensorboard();
            }
            self.narrate(step);
            match step {
                Step::Continue => {}
                Step::Restart(task) => {
                    if let Err(verdict) = self.restart(task) {
                        return verdict;
                    }
                }
                Step::AwaitEvaluator => {
                    let topology = self.topology;
                    let serves = |kind| matches!(kind, Kind::Task(task) if topology.serves(task.role));
                    self.order(Order::Terminate, serves);
                    limit = Some(Instant::now() + self.job.grace.evaluator);
                }
                Step::Terminate => {
                    self.order(Order::Terminate, Kind::is_task);
                    limit = Some(Instant::now() + self.grace());
                }
                Step::Kill => {
                    self.order(Order::Kill, Kind::is_task);
                    limit = None;
                }
                Step::Over => {
                    if let Some(verdict) = self.watch.verdict() {
                        return verdict.clone();
                    }
                }
            }
        }
    }

    /// How long the tasks may take to end, as things stand.
    pub(super) fn grace(&self) -> Duration {
        match self.watch.verdict() {
            Some(Verdict::TaskFailed(..) | Verdict::DaemonFailed(..)) => self.job.grace.after_failure,
            _ => self.job.grace.stop,
        }
    }

    /// The next event, or nothing if what happened changes no more than what is known of a process.
    /// Cancel-safe: it waits on channels and a clock only.
    async fn next(&mut self, limit: Option<Instant>) -> Option<Event> {
        let time_up = async {
            match limit {
                Some(limit) => sleep_until(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // What has happened counts before the clock does.
            biased;
            Some(news) = self.news.recv() => self.take_in(news),
            Some(signal) = self.interrupts.recv() => Some(Event::Interrupted(signal)),
            () = time_up => Some(Event::TimeUp),
        }
    }

    fn take_in(&mut self, News { place, what }: News) -> Option<Event> {
        let member = self.members.get_mut(place)?;
        match what {
            What::Started { pid } => member.process.pid = Some(pid),
            What::Said(Said::Listening(address)) => member.listening = Some(address),
            What::Said(Said::Reading(how_far)) => {
                self.heard = Instant::now();
                self.setup.terminal.say(&format!("{}: {how_far}", member.process.name));
            }
            What::Said(Said::Admin(url)) => member.admin = Some(url),
            What::Said(Said::Board(url)) => self.setup.terminal.say(&format!("TensorBoard at {url}")),
            What::Ended(exit) => {
                member.process.ended = Some((exit.clone(), std::time::SystemTime::now()));
                return Some(match member.kind {
                    Kind::Task(task) => Event::TaskEnded(task, exit),
                    Kind::Gateway | Kind::Sidecar(_) => Event::DaemonEnded(member.process.name.clone(), exit),
                });
            }
        }
        None
    }

    fn order(&self, order: Order, whom: impl Fn(Kind) -> bool) {
        for member in self.members.iter().filter(|member| whom(member.kind)) {
            if member.process.is_running() {
                member.process.order(order);
            }
        }
    }

    /// Ends those that still run: politely, and after the grace or an interrupt at once.
    async fn take_down(&mut self, whom: impl Fn(Kind) -> bool) {
        self.order(Order::Terminate, &whom);
        let mut limit = Some(Instant::now() + self.job.grace.stop);
        while self.members.iter().any(|member| whom(member.kind) && member.process.is_running()) {
            if let Some(Event::TimeUp | Event::Interrupted(_)) = self.next(limit).await {
                self.order(Order::Kill, &whom);
                limit = None;
            }
        }
    }

    async fn ask_for_metrics(&mut self) {
        for member in self.members.iter_mut().filter(|member| member.process.is_running()) {
            if let Some(url) = &member.admin {
                member.metrics = scrape(url).await;
            }
        }
    }
}

impl Kind {
    fn is_task(self) -> bool {
        matches!(self, Self::Task(_))
    }
}

fn not_started(error: impl std::fmt::Display) -> Verdict {
    Verdict::NotStarted(error.to_string())
}
