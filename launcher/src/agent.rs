//! The agent beside every process of a job: its parent, its witness and its undertaker.
//!
//! In: a command line, and a socket on standard input over which the launcher says `Terminate` or
//! `Kill`. Out: `Started`, then `Exited`, over the same socket. The promise: when the process has ended,
//! or the launcher has (the socket closes, however it died), nothing that the process started is alive.
//!
//! Why a process and not `PR_SET_PDEATHSIG`: that signal is sent when the *thread* that forked ends, it
//! reaches one process and none of its children, and setting it in a child before `exec` is unsafe
//! code. A closed socket has none of these troubles: it is there from before the fork, so no moment is
//! without cover. Children that leave the process group (daemons, `setsid`) are found too: the agent is
//! a *subreaper*, so whatever loses its parent becomes the agent's child.
//!
//! It knows nothing of jobs and roles.

use std::io::{BufRead, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

mod message;
mod orphans;

pub use message::{Exit, Order, Report, signal_name};

/// Why an agent cannot do its work at all.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(
        "standard input is not the launcher's socket: `penstock agent` is started by `penstock run` only"
    )]
    NoLauncher { source: std::io::Error },
    #[error("cannot become the reaper of the task's orphans")]
    Subreaper { source: std::io::Error },
}

/// Runs `program` with `arguments` in a process group of its own, inheriting output and environment,
/// until it and all its descendants have ended.
///
/// When the launcher goes away, the group gets SIGTERM and, `grace` later, SIGKILL.
pub fn run(program: &str, arguments: &[String], grace: Duration) -> Result<(), AgentError> {
    let launcher = launcher_socket()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|source| AgentError::Subreaper { source: source.into() })?;

    let spawned = Command::new(program).args(arguments).stdin(Stdio::null()).process_group(0).spawn();
    let child = match spawned {
        Ok(child) => child,
        Err(source) => {
            say(&launcher, &Report::Exited(Exit::NotStarted(format!("cannot run {program}: {source}"))));
            return Ok(());
        }
    };
    let leader = Pid::from_child(&child);
    let group = Arc::new(Group(Mutex::new(Some(leader))));
    say(&launcher, &Report::Started { pid: leader.as_raw_nonzero().get() });
    obey(&launcher, Arc::clone(&group), grace);
    let exit = wait(child, leader, &group);
    say(&launcher, &Report::Exited(exit));
    Ok(())
}

/// The socket that the launcher put on standard input.
fn launcher_socket() -> Result<UnixStream, AgentError> {
    let no_launcher = |source| AgentError::NoLauncher { source };
    let owned = std::io::stdin().as_fd().try_clone_to_owned().map_err(no_launcher)?;
    let socket = UnixStream::from(owned);
    socket.peer_addr().map_err(no_launcher)?;
    Ok(socket)
}

/// A launcher that is gone needs no report.
fn say(mut launcher: &UnixStream, report: &Report) {
    let _ = launcher.write_all(report.to_line().as_bytes());
}

/// The process group, until its id could become another's.
struct Group(Mutex<Option<Pid>>);

impl Group {
    /// A group that has ended needs no signal.
    fn signal(&self, signal: Signal) {
        if let Some(group) = *self.lock() {
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries out the launcher's orders on a thread of its own, for as long as this process lives.
fn obey(launcher: &UnixStream, group: Arc<Group>, grace: Duration) {
    let Ok(orders) = launcher.try_clone() else {
        group.signal(Signal::KILL);
        return;
    };
    std::thread::spawn(move || {
        for line in BufReader::new(orders).lines() {
            match line.ok().as_deref().and_then(Order::from_line) {
                Some(Order::Terminate) => group.signal(Signal::TERM),
                Some(Order::Kill) => group.signal(Signal::KILL),
                None => break,
            }
        }
        group.signal(Signal::TERM);
        std::thread::sleep(grace);
        group.signal(Signal::KILL);
    });
}

/// Waits for the process, then ends what it left behind, then says how it ended.
fn wait(mut child: Child, leader: Pid, group: &Group) -> Exit {
    // NOWAIT keeps the process a zombie, and so its group's id taken, while the group is ended.
    let zombie = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(rustix::io::Errno::INTR) = rustix::process::waitid(WaitId::Pid(leader), zombie) {}
    group.signal(Signal::KILL);
    *group.lock() = None;
    let exit = match child.wait() {
        Ok(status) => Exit::from(status),
        Err(_) => Exit::Lost,
    };
    orphans::end_all();
    exit
}
