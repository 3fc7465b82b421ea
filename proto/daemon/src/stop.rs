//! When a process stops: on SIGTERM or SIGINT, or when the process it belongs to is gone.

use std::future::Future;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{SignalKind, signal};

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

/// Serves until told to stop, then drains: at most `grace` for what has begun.
///
/// With `exit_with`, the death of that process is a stop too. It is watched by pidfd, which follows the
/// process itself and neither the thread that started us (as PR_SET_PDEATHSIG would) nor a pid that was
/// reused.
pub async fn drain_when_told(
    drain: &Drain,
    exit_with: Option<i32>,
    grace: Duration,
) -> Result<(), StopError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(StopError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(StopError::Signals)?;
    let owner = watch(exit_with)?;
    let reason = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
        () = owner => "the process it belongs to has ended",
        () = drain.begun() => "asked from within",
    };
    tracing::info!(reason, running = drain.running().len(), "draining");
    drain.begin();
    drain.finished(grace).await?;
    Ok(())
}

/// A future that resolves when the process is gone; never without one.
fn watch(pid: Option<i32>) -> Result<impl Future<Output = ()>, StopError> {
    let process = pid.map(open).transpose()?;
    Ok(async move {
        match process {
            None => std::future::pending().await,
            // Gone before we looked.
            Some(None) => {}
            Some(Some(process)) => {
                // A pidfd turns readable at the process's end; an error means that we cannot tell any
                // more, and staying for ever would be the worse guess.
                let _ended = process.readable().await;
            }
        }
    })
}

#[expect(
    deprecated,
    reason = "its successor is unsafe for types that may swap their descriptor; an OwnedFd does not"
)]
fn open(pid: i32) -> Result<Option<AsyncFd<std::os::fd::OwnedFd>>, StopError> {
    let fail = |source| StopError::Watch { pid, source };
    let known = Pid::from_raw(pid).filter(|_| pid > 0);
    let known = known.ok_or_else(|| fail(io::Error::from(io::ErrorKind::InvalidInput)))?;
    match pidfd_open(known, PidfdFlags::empty()) {
        Ok(process) => AsyncFd::new(process).map(Some).map_err(fail),
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(error) => Err(fail(error.into())),
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
            drain_when_told(&watcher, Some(pid), Duration::from_secs(5)).await.unwrap();
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
        drain_when_told(&Drain::new(), Some(pid), Duration::from_secs(5)).await.unwrap();
    }
}
