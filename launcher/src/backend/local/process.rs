//! One process of the job, seen from the launcher: its agent, its output, its end.
//!
//! In: what to run. Out: news, with exactly one end for every process that was started. The promise: when
//! this value is dropped its agent ends the process, as it does when the launcher dies.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc::UnboundedSender;

use super::logs::{Journal, Log};
use super::output::{Listener, Sinks, Tail, pump};
use super::ready::{Said, Wanted};
use super::strays;
use crate::agent::{Exit, Order, Report};
use crate::environment;
use crate::terminal::{Prefix, Terminal};

/// What to run and where its output goes.
pub(super) struct Spec {
    pub(super) name: String,
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) not_inherited: &'static [&'static str],
    pub(super) log: PathBuf,
    /// Absent: the output is in the log only.
    pub(super) shown: Option<(Terminal, Prefix)>,
    /// Lines that are news beside the start and the end.
    pub(super) wanted: Option<Wanted>,
    /// From SIGTERM to SIGKILL if the launcher dies.
    pub(super) grace: Duration,
}

/// A running or ended process.
pub(super) struct Process {
    pub(super) name: String,
    pub(super) log: PathBuf,
    pub(super) tail: Tail,
    pub(super) started: SystemTime,
    pub(super) pid: Option<i32>,
    pub(super) ended: Option<(Exit, SystemTime)>,
    orders: UnixStream,
}

/// A process that could not be started at all.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProcessError {
    #[error("cannot write the log {}: {source}", path.display())]
    Log { path: PathBuf, source: std::io::Error },
    #[error("cannot start the agent {} of {name}: {source}", agent.display())]
    Agent { name: String, agent: PathBuf, source: std::io::Error },
}

/// News of the process with this place in the job.
#[derive(Debug)]
pub(super) struct News {
    pub(super) place: usize,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Started {
        pid: i32,
    },
    Said(Said),
    /// Comes last, and after all output was taken in.
    Ended(Exit),
}

impl Process {
    /// Starts `penstock agent`, which starts the process. News carry `place`; they are few (a start, an
    /// end, a ready line or two), so their queue needs no bound.
    pub(super) fn start(
        spec: Spec,
        penstock: &Path,
        place: usize,
        news: UnboundedSender<News>,
        journal: &Journal,
    ) -> Result<Self, ProcessError> {
        let log_error = |source| ProcessError::Log { path: spec.log.clone(), source };
        let agent_error =
            |source| ProcessError::Agent { name: spec.name.clone(), agent: penstock.to_owned(), source };
        // A task that is started again goes on in its log.
        let log = Log::open(&spec.log).map_err(log_error)?;
        let (orders, agents_end) = UnixStream::pair().map_err(agent_error)?;
        let (pipe, output) = std::io::pipe().map_err(agent_error)?;
        let errors = output.try_clone().map_err(agent_error)?;
        let answers = orders.try_clone().map_err(agent_error)?;

        let mut command = Command::new(penstock);
        command.arg("agent").arg(format!("--grace={}ms", spec.grace.as_millis()));
        command.arg("--").arg(&spec.program).args(&spec.args);
        // The launcher may itself run in a task of another job.
        for name in environment::never_inherited().chain(spec.not_inherited.iter().copied()) {
            command.env_remove(name);
        }
        // Logs differ, across runs too.
        let mark = spec.log.display().to_string();
        command.envs(&spec.env).env(strays::VARIABLE, &mark);
        command.stdin(Stdio::from(OwnedFd::from(agents_end))).stdout(output).stderr(errors);
        // Ctrl-C reaches the launcher alone, which then ends the job in order.
        command.process_group(0);
        let agent = command.spawn().map_err(agent_error)?;
        // The command holds the pipe's writing end; output would never end.
        drop(command);

        let tail = Tail::default();
        // A launcher that has gone on without this process needs no news.
        let tell = move |what| drop(news.send(News { place, what }));
        let say = tell.clone();
        let listener = spec.wanted.map(|wanted| -> Listener {
            Box::new(move |line| {
                if let Some(said) = wanted(line) {
                    say(What::Said(said));
                }
            })
        });
        let (journal, name) = (journal.clone(), spec.name.clone());
        let sinks = Sinks { log, journal, name, tail: tail.clone(), shown: spec.shown, listener };
        let pump = std::thread::spawn(move || pump(pipe, sinks));
        std::thread::spawn(move || attend(agent, answers, pump, &mark, tell));
        Ok(Self {
            name: spec.name,
            log: spec.log,
            tail,
            started: SystemTime::now(),
            pid: None,
            ended: None,
            orders,
        })
    }

    pub(super) fn is_running(&self) -> bool {
        self.ended.is_none()
    }

    pub(super) fn order(&self, order: Order) {
        // An agent that is gone has ended its process, or `attend` has.
        let _ = (&self.orders).write_all(order.to_line().as_bytes());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // `attend` holds a clone, so closing this one alone would not reach the agent.
        let _ = self.orders.shutdown(std::net::Shutdown::Both);
    }
}

/// Passes on what the agent says until it is gone.
fn attend(mut agent: Child, answers: UnixStream, pump: JoinHandle<()>, mark: &str, tell: impl Fn(What)) {
    let mut exit = None;
    for line in BufReader::new(answers).lines() {
        match line.ok().as_deref().and_then(Report::from_line) {
            Some(Report::Started { pid }) => tell(What::Started { pid }),
            Some(Report::Exited(how)) => exit = Some(how),
            None => break,
        }
    }
    // An agent that cannot be waited for is gone already.
    let _ = agent.wait();
    // An agent that was killed before its process leaves that to us.
    let is_over = exit.is_some() || strays::end_all(mark);
    // The pipe ends with its last holder, so there is more to take in only if all have ended.
    if is_over {
        let _ = pump.join();
    }
    tell(What::Ended(exit.unwrap_or(Exit::Lost)));
}
