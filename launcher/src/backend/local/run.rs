//! One run: lives through what happens to its processes, and takes them down.
//!
//! In: news of processes, interrupts, alarms. Out: a verdict. What an event means is the watch's to say; here it is
//! carried out, and how processes come up is in `starts`. The promise: after `see_through` no process of the job runs.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Setup;
use super::alarms::{Alarm, Alarms};
use super::logs::Journal;
use super::ports::Ports;
use super::process::{News, Process, What};
use super::ready::Said;
use super::rundir::RunDir;
use crate::agent::{Exit, Order};
use crate::environment::Wiring;
use crate::job::Job;
use crate::report::metrics::Metrics;
use crate::runs::Recorder;
use crate::scrape::scrape;
use crate::topology::{Role, TaskId, Topology};
use crate::watch::{Event, Step, Verdict, Watch};

/// A job's processes and everything that is known of them.
pub(super) struct Run<'a> {
    pub(super) job: &'a Job,
    pub(super) topology: &'a Topology,
    pub(super) setup: &'a Setup,
    pub(super) directory: &'a RunDir,
    pub(super) journal: Journal,
    pub(super) began: SystemTime,
    recorder: Recorder,
    interrupts: mpsc::Receiver<i32>,
    news: mpsc::UnboundedReceiver<News>,
    pub(super) tell: mpsc::UnboundedSender<News>,
    /// In the order of their start; a place in it names a process.
    pub(super) members: Vec<Member>,
    /// Held until the run is dropped, for the life of every task and of those that follow it.
    pub(super) ports: Ports,
    pub(super) wiring: Wiring,
    /// When a daemon that is awaited last said how far it is.
    pub(super) heard: Instant,
    /// When a member of the cluster was started last.
    pub(super) started: Instant,
    pub(super) alarms: Alarms,
    /// Since when the chief's program has ended, and how, while its process goes on.
    pub(super) lingers: Option<(Instant, Exit)>,
    /// What happened while daemons came up or went down, and is still to be taken in.
    pub(super) deferred: VecDeque<Happening>,
    pub(super) watch: Watch,
}

/// A process and what it is to the job.
pub(super) struct Member {
    pub(super) kind: Kind,
    pub(super) process: Process,
    pub(super) listening: Option<String>,
    pub(super) admin: Option<String>,
    /// Asked for just before the end.
    pub(super) metrics: Option<Metrics>,
}

/// What a run waits for.
pub(super) enum Happening {
    Event(Event),
    Due(Alarm),
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
        journal: Journal,
        began: SystemTime,
        interrupts: mpsc::Receiver<i32>,
    ) -> Self {
        let (tell, news) = mpsc::unbounded_channel();
        let watch = Watch::new(topology, job.max_restarts);
        Self {
            job,
            topology,
            setup,
            directory,
            journal,
            began,
            recorder: Recorder::default(),
            interrupts,
            news,
            tell,
            members: Vec::new(),
            ports: Ports::default(),
            wiring: Wiring::default(),
            heard: Instant::now(),
            started: Instant::now(),
            alarms: Alarms::default(),
            lingers: None,
            deferred: VecDeque::new(),
            watch,
        }
    }

    /// The whole life of the job.
    pub(super) async fn see_through(&mut self) -> Verdict {
        self.record();
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

    /// From the start of the tasks to the end of the last.
    async fn live(&mut self) -> Verdict {
        loop {
            self.record();
            let event = match self.deferred.pop_front() {
                Some(deferred) => Some(deferred),
                None => self.next().await,
            };
            let step = match event {
                None => continue,
                Some(Happening::Event(event)) => self.step(event),
                Some(Happening::Due(Alarm::TimeUp)) => self.step(Event::TimeUp),
                Some(Happening::Due(Alarm::JobTimeout)) => {
                    self.step(Event::TimedOut(self.job.timeout.unwrap_or_default()))
                }
                Some(Happening::Due(Alarm::ChiefsEnd)) => {
                    self.look_for_the_chiefs_end();
                    continue;
                }
                Some(Happening::Due(Alarm::Look)) => match self.look() {
                    Some(event) => self.step(event),
                    None => continue,
                },
                Some(Happening::Due(Alarm::Start(task))) => {
                    if let Err(verdict) = self.restart_task(task) {
                        return verdict;
                    }
                    continue;
                }
                Some(Happening::Due(Alarm::StartGang)) => {
                    if let Err(verdict) = self.restart_gang().await {
                        return verdict;
                    }
                    continue;
                }
            };
            if let Some(verdict) = self.carry_out(step) {
                return verdict;
            }
        }
    }

    /// For whoever looks at the run from outside.
    fn record(&mut self) {
        let state = self.state();
        // A full disk must not end the training.
        let _ = self.recorder.record(&self.directory.path, state);
    }

    fn step(&mut self, event: Event) -> Step {
        let board_ended = matches!(&event, Event::TaskEnded(task, _) if task.role == Role::TensorBoard);
        let step = self.watch.on(event);
        if board_ended {
            self.warn_of_tensorboard();
        }
        self.narrate(step);
        step
    }

    /// Does what the watch says; the verdict once all is over.
    fn carry_out(&mut self, step: Step) -> Option<Verdict> {
        let is_member = |kind| matches!(kind, Kind::Task(task) if task.role.in_cluster());
        let now = Instant::now();
        match step {
            Step::Continue => {}
            Step::Restart(task) => self.alarms.set(Alarm::Start(task), now + self.watch.pause(task)),
            Step::StopGang(_) => {
                self.order(Order::Terminate, is_member);
                self.alarms.clear(|alarm| {
                    alarm == Alarm::Look || matches!(alarm, Alarm::Start(task) if task.role.in_cluster())
                });
                self.alarms.set(Alarm::TimeUp, now + self.job.grace.after_failure);
            }
            Step::KillGang => self.order(Order::Kill, is_member),
            Step::RestartGang(task) => {
                self.alarms.clear(|alarm| alarm == Alarm::TimeUp);
                self.alarms.set(Alarm::StartGang, now + self.watch.pause(task));
            }
            Step::AwaitEvaluator => {
                let topology = self.topology;
                let serves = |kind| matches!(kind, Kind::Task(task) if topology.serves(task));
                self.order(Order::Terminate, serves);
                self.alarms.set(Alarm::TimeUp, now + self.job.grace.evaluator);
            }
            Step::Terminate => {
                self.alarms = Alarms::default();
                self.order(Order::Terminate, Kind::is_task);
                self.alarms.set(Alarm::TimeUp, now + self.grace());
            }
            Step::Kill => {
                self.order(Order::Kill, Kind::is_task);
                self.alarms.clear(|alarm| alarm == Alarm::TimeUp);
            }
            Step::Over => return self.watch.verdict().cloned(),
        }
        None
    }

    /// How long the tasks may take to end, as things stand.
    pub(super) fn grace(&self) -> Duration {
        match self.watch.verdict() {
            Some(Verdict::TaskFailed(..) | Verdict::DaemonFailed(..) | Verdict::NotReady(..)) => {
                self.job.grace.after_failure
            }
            _ => self.job.grace.stop,
        }
    }

    /// What happens next, or nothing if it changes no more than what is known of a process.
    /// Cancel-safe: it waits on channels and a clock only.
    pub(super) async fn next(&mut self) -> Option<Happening> {
        tokio::select! {
            // What has happened counts before the clock does.
            biased;
            Some(news) = self.news.recv() => self.take_in(news).map(Happening::Event),
            Some(signal) = self.interrupts.recv() => Some(Happening::Event(Event::Interrupted(signal))),
            alarm = self.alarms.next() => Some(Happening::Due(alarm)),
        }
    }

    fn take_in(&mut self, News { place, what }: News) -> Option<Event> {
        let member = self.members.get_mut(place)?;
        match what {
            What::Started { pid } => member.process.pid = Some(pid),
            What::Said(Said::Listening(address)) => member.listening = Some(address),
            What::Said(Said::Reading(how_far)) => {
                self.heard = Instant::now();
                let text = format!("{}: {how_far}", member.process.name);
                self.say(&text);
            }
            What::Said(Said::Admin(url)) => member.admin = Some(url),
            What::Said(Said::Board(url)) => self.say(&format!("TensorBoard at {url}")),
            What::Ended(exit) => {
                let (kind, name) = (member.kind, member.process.name.clone());
                let exit = match kind {
                    Kind::Task(task) => self.earned(task, exit),
                    Kind::Gateway | Kind::Sidecar(_) => exit,
                };
                self.members[place].process.ended = Some((exit.clone(), SystemTime::now()));
                return Some(match kind {
                    Kind::Task(task) => Event::TaskEnded(task, exit),
                    Kind::Gateway | Kind::Sidecar(_) => Event::DaemonEnded(name, exit),
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
    pub(super) async fn take_down(&mut self, whom: impl Fn(Kind) -> bool) {
        self.order(Order::Terminate, &whom);
        self.alarms.set(Alarm::TimeUp, Instant::now() + self.job.grace.stop);
        while self.members.iter().any(|member| whom(member.kind) && member.process.is_running()) {
            match self.next().await {
                Some(Happening::Due(Alarm::TimeUp)) => self.order(Order::Kill, &whom),
                // Those that were told to go are missed by nobody.
                Some(Happening::Event(Event::DaemonEnded(name, _)))
                    if self.members.iter().any(|member| whom(member.kind) && member.process.name == name) => {
                }
                Some(Happening::Event(event)) => {
                    if matches!(event, Event::Interrupted(_)) {
                        self.order(Order::Kill, &whom);
                    }
                    self.deferred.push_back(Happening::Event(event));
                }
                Some(due) => self.deferred.push_back(due),
                None => {}
            }
        }
        self.alarms.clear(|alarm| alarm == Alarm::TimeUp);
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
    pub(super) fn is_task(self) -> bool {
        matches!(self, Self::Task(_))
    }
}
