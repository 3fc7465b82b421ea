//! When a process stops: on SIGTERM or SIGINT, or when the process it belongs to is gone.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::Drain;
use crate::drain::Unfinished;

/// A process could not watch for its end, or did not reach it.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    #[error("cannot listen for signals")]
    Signals(#[source] io::Error),
    #[error("cannot watch process {pid}: --exit-with needs Linux 5.3 and a process of this PID namespace")]
    Watch { pid: i32, source: io::Error },
    #[error(transparent)]
    Unfinished(#[from] Unfinished),
}

/// The stops that a process listens for, from the moment this is made: signals sent later are kept.
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
    owner: Owner,
}

/// The process that ours belongs to.
enum Owner {
    None,
    Gone,
    Running(AsyncFd<OwnedFd>),
}

impl Stop {
    /// Listens for SIGTERM and SIGINT and, with `exit_with`, for the death of that process. The latter is
    /// watched by pidfd, which follows the process itself and neither the thread that started us (as
    /// PR_SET_PDEATHSIG would) nor a pid that was reused.
    pub fn listen(exit_with: Option<i32>) -> Result<Self, StopError> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(StopError::Signals)?,
            interrupt: signal(SignalKind::interrupt()).map_err(StopError::Signals)?,
            owner: exit_with.map_or(Ok(Owner::None), Owner::watch)?,
        })
    }

    /// Waits to be told, then drains: at most `grace` for what has begun.
    pub async fn drain(mut self, drain: &Drain, grace: Duration) -> Result<(), StopError> {
        let reason = tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            () = self.owner.ended() => "the process it belongs to has ended",
            () = drain.begun() => "asked from within",
        };
        tracing::info!(reason, running = drain.running().len(), "draining");
        drain.begin();
        drain.finished(grace).await?;
        Ok(())
    }
}

impl Owner {
    #[expect(
        deprecated,
        reason = "its successor is unsafe for types that may swap their descriptor; an OwnedFd does not"
    )]
    fn watch(pid: i32) -> Result<Self, StopError> {
        let fail = |source| StopError::Watch { pid, source };
        let known = Pid::from_raw(pid).filter(|_| pid > 0);
        let known = known.ok_or_else(|| fail(io::Error::from(io::ErrorKind::InvalidInput)))?;
        match pidfd_open(known, PidfdFlags::empty()) {
            Ok(process) => AsyncFd::new(process).map(Self::Running).map_err(fail),
            Err(rustix::io::Errno::SRCH) => Ok(Self::Gone),
            Err(error) => Err(fail(error.into())),
        }
    }

    /// Resolves when the process is gone; never without one. Cancel-safe.
    async fn ended(&self) {
        match self {
            Self::None => std::future::pending().await,
            Self::Gone => {}
            Self::Running(process) => {
                // A pidfd turns readable at the process's end; an error means that we cannot tell any
                // more, and staying for ever would be the worse guess.
                let _ended = process.readable().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_owners_end_is_a_stop() {
        let mut owner =
            tokio::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = i32::try_from(owner.id().unwrap()).unwrap();
        let drain = Drain::new();
        let watcher = drain.clone();
        let stopped = tokio::spawn(async move {
            let stop = Stop::listen(Some(pid)).unwrap();
            stop.drain(&watcher, Duration::from_secs(5)).await.unwrap();
        });
        drop(owner.stdin.take());
        owner.wait().await.unwrap();
        stopped.await.unwrap();
        assert!(drain.has_begun());
    }

    #[tokio::test]
    async fn an_owner_that_is_gone_already_counts() {
        let mut owner = tokio::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(owner.id().unwrap()).unwrap();
        owner.wait().await.unwrap();
        let stop = Stop::listen(Some(pid)).unwrap();
        stop.drain(&Drain::new(), Duration::from_secs(5)).await.unwrap();
    }
}
