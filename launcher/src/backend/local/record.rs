//! What a run tells: on the terminal while it lives, in the summary at its end.

use std::time::SystemTime;

use super::run::{Kind, Member, Run};
use crate::agent::Exit;
use crate::report::moment::rfc3339;
use crate::report::{DaemonRecord, FeedRecord, Summary, TaskRecord, human_duration};
use crate::runs::{Launcher, RunState, TaskStanding};
use crate::topology::{Role, Task, TaskId};
use crate::watch::{Step, TaskState, Verdict};

impl Run<'_> {
    /// On the terminal, and in the journal.
    pub(super) fn say(&self, text: &str) {
        self.setup.terminal.say(text);
        text.lines().for_each(|line| self.journal.line("penstock", line.as_bytes()));
    }

    /// How it stands now.
    pub(super) fn state(&self) -> RunState {
        let task = |task: &Task| {
            let member = self.member(task.id);
            TaskStanding {
                role: task.id.role.name().to_owned(),
                index: task.id.index,
                state: member.map_or("not_started", |_| self.watch.state(task.id).name()).to_owned(),
                pid: member
                    .filter(|member| member.process.is_running())
                    .and_then(|member| member.process.pid),
                restarts: self.watch.restarts(task.id),
                address: self.wiring.addresses.get(&task.id).cloned(),
                rank: task.data.map(|data| data.rank),
                log: self.directory.log(&task.id.file_stem()),
            }
        };
        RunState {
            version: 1,
            job: self.job.name.clone(),
            program: self.job.program.to_string(),
            launcher: Launcher::this(),
            started: rfc3339(self.began),
            tasks: self.topology.tasks.iter().map(task).collect(),
        }
    }

    /// The first lines of a run.
    pub(super) fn announce(&self) {
        let mut tasks = vec![count(self.job.num_workers as usize, "worker")];
        if self.job.chief {
            tasks.insert(0, "a chief".to_owned());
        }
        if self.job.num_ps > 0 {
            tasks.push(format!("{} ps", self.job.num_ps));
        }
        if self.job.evaluator {
            tasks.push("an evaluator".to_owned());
        }
        let last = tasks.pop().unwrap_or_default();
        let tasks = if tasks.is_empty() { last } else { format!("{} and {last}", tasks.join(", ")) };
        let inputs = match self.job.inputs.len() {
            0 => String::new(),
            inputs => format!(", fed from {}", count(inputs, "input")),
        };
        let directory = self.directory.path.display();
        self.say(&format!("job {}: {tasks}{inputs}; everything is kept in {directory}", self.job.name));
    }

    /// Says what a step means to whoever watches.
    pub(super) fn narrate(&self, step: Step) {
        let length = |length: std::time::Duration| human_duration(length.as_secs_f64());
        match step {
            Step::Continue | Step::Over => {}
            Step::Restart(task) => {
                self.say(&format!(
                    "{task} {}; starting it again on its address{}",
                    self.end_of(task),
                    self.chance(task)
                ));
            }
            Step::StopGang(task) => self.say(&format!(
                "{task} {}; ending {} within {}, which cannot go on without it, to start all again",
                self.end_of(task),
                self.running_of(|id| id.role.in_cluster()),
                length(self.job.grace.after_failure)
            )),
            Step::KillGang => {
                let left = self.running_of(|id| id.role.in_cluster());
                self.say(&format!("killing {left}"));
            }
            Step::RestartGang(task) => {
                self.say(&format!("starting all again on their addresses{}", self.chance(task)));
            }
            Step::AwaitEvaluator => self.say(&format!(
                "the training is done; the evaluator has {} more (--evaluator-grace)",
                length(self.job.grace.evaluator)
            )),
            Step::Terminate => {
                let verdict = self.watch.verdict().map(Verdict::to_string).unwrap_or_default();
                self.say(&format!(
                    "job {} {verdict}; ending {} within {}",
                    self.job.name,
                    self.running(),
                    length(self.grace())
                ));
            }
            Step::Kill => self.say(&format!("killing {}", self.running())),
        }
    }

    /// ` in 2 s, 3 of 3 times`
    fn chance(&self, task: TaskId) -> String {
        let pause = self.watch.pause(task);
        let when = if pause.is_zero() {
            String::new()
        } else {
            format!(" in {}", human_duration(pause.as_secs_f64()))
        };
        format!(
            "{when}, {} of {} times (--max-restarts)",
            self.watch.budget_used(task),
            self.job.max_restarts
        )
    }

    /// TensorBoard that ends before the job is missed but not mourned.
    pub(super) fn warn_of_tensorboard(&self) {
        let board = TaskId { role: Role::TensorBoard, index: 0 };
        if self.watch.verdict().is_some() || self.watch.state(board) != TaskState::Failed {
            return;
        }
        let Some(member) = self.member(board) else { return };
        let is_absent = member.process.tail.lines().iter().any(|line| line.contains("No module named"));
        self.say(&if is_absent {
            format!("warning: no TensorBoard in {}: pip install tensorboard", self.job.python.display())
        } else {
            format!("warning: TensorBoard has ended, see {}", member.process.log.display())
        });
    }

    fn running(&self) -> String {
        self.running_of(|_| true)
    }

    fn running_of(&self, whom: impl Fn(TaskId) -> bool) -> String {
        let running = |member: &&Member| {
            matches!(member.kind, Kind::Task(task) if whom(task)) && member.process.is_running()
        };
        let names: Vec<_> =
            self.members.iter().filter(running).map(|member| member.process.name.as_str()).collect();
        names.join(", ")
    }

    fn end_of(&self, task: TaskId) -> String {
        let ended = self.member(task).and_then(|member| member.process.ended.as_ref());
        ended.map(|(exit, _)| exit.to_string()).unwrap_or_default()
    }

    fn member(&self, task: TaskId) -> Option<&Member> {
        self.members.iter().find(|member| member.kind == Kind::Task(task))
    }

    /// Why a daemon's early end keeps the job from starting, with the daemon's own last word.
    pub(super) fn daemon_not_started(&self, name: &str, exit: &Exit) -> Verdict {
        let mut reason = format!("{name} {exit}");
        if let Some(member) = self.members.iter().find(|member| member.process.name == name) {
            let lines = member.process.tail.lines();
            if let Some(last) = lines.iter().rev().find(|line| !line.trim().is_empty()) {
                reason.push_str(": ");
                reason.push_str(last.trim().trim_start_matches("error: "));
            }
            reason.push_str(&format!(" (log: {})", member.process.log.display()));
        }
        Verdict::NotStarted(reason)
    }

    /// All that is known, once everything has ended.
    pub(super) fn summary(&self, verdict: &Verdict, started: SystemTime, ended: SystemTime) -> Summary {
        let culprit = verdict.culprit();
        let guilty = self.members.iter().find(|member| Some(&member.process.name) == culprit.as_ref());
        Summary {
            version: 1,
            job: self.job.name.clone(),
            script: self.job.program.to_string().into(),
            args: self.job.args.clone(),
            state: verdict.state(),
            outcome: verdict.to_string(),
            exit_code: verdict.exit_code(),
            started: rfc3339(started),
            ended: rfc3339(ended),
            seconds: seconds(started, ended),
            inputs: self.job.inputs.clone(),
            run_dir: self.directory.path.clone(),
            tasks: self
                .topology
                .tasks
                .iter()
                .map(|task| self.task_record(task, culprit.as_deref()))
                .collect(),
            daemons: self
                .members
                .iter()
                .filter_map(|member| daemon_record(member, culprit.as_deref()))
                .collect(),
            last_lines: guilty.map(|member| member.process.tail.lines()).unwrap_or_default(),
            last_lines_log: guilty.map(|member| member.process.log.clone()),
            first_failure: culprit,
        }
    }

    fn task_record(&self, task: &Task, culprit: Option<&str>) -> TaskRecord {
        let process = self.member(task.id).map(|member| &member.process);
        let end = process.and_then(|process| process.ended.as_ref());
        let exit = end.map(|(exit, _)| exit);
        TaskRecord {
            role: task.id.role.name().to_owned(),
            index: task.id.index,
            pid: process.and_then(|process| process.pid),
            exit_code: exit.map(Exit::code),
            signal: exit.and_then(Exit::signal),
            state: match process {
                // Those that were started are ended when the others cannot be.
                Some(_) if matches!(self.watch.state(task.id), TaskState::Running | TaskState::Waiting) => {
                    TaskState::Stopped.name()
                }
                Some(_) => self.watch.state(task.id).name(),
                None => "not_started",
            },
            first_failure: culprit == Some(&task.id.to_string()),
            restarts: self.watch.restarts(task.id),
            started: process.map(|process| rfc3339(process.started)),
            seconds: process.zip(end).map(|(process, (_, ended))| seconds(process.started, *ended)),
            log: self.directory.log(&task.id.file_stem()),
        }
    }
}

fn daemon_record(member: &Member, culprit: Option<&str>) -> Option<DaemonRecord> {
    let kind = match member.kind {
        Kind::Gateway => "gateway",
        Kind::Sidecar(_) => "sidecar",
        Kind::Task(_) => return None,
    };
    let process = &member.process;
    let exit = process.ended.as_ref().map(|(exit, _)| exit);
    let metrics = member.metrics.clone().unwrap_or_default();
    Some(DaemonRecord {
        name: process.name.clone(),
        kind,
        pid: process.pid,
        exit_code: exit.map(Exit::code),
        signal: exit.and_then(Exit::signal),
        first_failure: culprit == Some(&process.name),
        log: process.log.clone(),
        peak_memory_bytes: metrics.peak_memory_bytes(),
        cpu_seconds: metrics.cpu_seconds(),
        rows: metrics.count(&format!("penstock_{kind}_rows_total")),
        bytes: metrics.count(&format!("penstock_{kind}_bytes_total")),
        feeds: FeedRecord::all(&metrics),
        metrics: metrics.0,
    })
}

fn seconds(from: SystemTime, to: SystemTime) -> f64 {
    // A clock that was set back meanwhile makes it zero.
    let seconds = to.duration_since(from).unwrap_or_default().as_secs_f64();
    (seconds * 1000.0).round() / 1000.0
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
