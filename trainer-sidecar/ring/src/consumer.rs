//! The trainer's side of a feed.
//!
//! *In:* a socket's path and a request. *Out:* batches, in order. *Promise:* thread-safe; every wait
//! has a deadline and can be cancelled; the sidecar's death is an error that says so, at once; what the
//! sidecar says is checked before use. *Knows nothing* of the request's meaning.

mod connection;
mod error;
mod notice;
mod open;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};

pub(crate) use self::connection::Connection;
use self::error::damaged;
pub use self::error::{NextError, OpenError};
use self::notice::show;
use self::open::{ask, map_ring, unexpected};
use crate::batch::Batch;
use crate::free_list::SlotId;
use crate::map::{Access, ReadMap};
use crate::memory;
use crate::message::{ToSidecar, ToTrainer};

/// An open feed.
pub struct Consumer {
    connection: Arc<Connection>,
    memory: Arc<ReadMap>,
    access: Access,
    description: String,
    slots_start: usize,
    slot_bytes: usize,
    cancel: OwnedFd,
    cancelled: AtomicBool,
    /// Locked by the thread that waits for the next message.
    line: Mutex<Line>,
}

/// How far the trainer has come in its feed.
#[derive(Default)]
struct Line {
    received: u64,
    /// Whether the sidecar knows that the batch after those is waited for.
    is_waiting: bool,
    /// How the feed ended, once it has.
    end: Option<Result<(), NextError>>,
}

impl Consumer {
    /// Opens the feed of `request` at the sidecar that listens at `path`, waiting up to `deadline`.
    ///
    /// # Errors
    /// Nobody listens, the sidecar refuses, or it does not answer in time.
    pub fn open(path: &Path, request: &str, deadline: Duration) -> Result<Consumer, OpenError> {
        Consumer::open_to(Access::Read, path, request, deadline)
    }

    /// The same, to do more to its batches than read them.
    ///
    /// # Errors
    /// As [`Consumer::open`].
    pub fn open_to(
        access: Access,
        path: &Path,
        request: &str,
        deadline: Duration,
    ) -> Result<Consumer, OpenError> {
        let (socket, answer, fd) = ask(path, &ToSidecar::Open { request: request.into() }, deadline)?;
        let (ToTrainer::Opened { slots, slot_bytes }, Some(fd)) = (&answer, fd) else {
            return Err(unexpected(path, &answer));
        };
        let usable = |source| OpenError::Memory { path: path.display().to_string(), source };
        let (memory, description, slots_start) =
            map_ring(&fd, *slots, *slot_bytes, access).map_err(usable)?;
        let cancel =
            rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| {
                OpenError::NoSidecar { path: path.display().to_string(), source: error.into() }
            })?;
        let connection = Connection::new(socket, path.to_owned(), *slots);
        Ok(Consumer {
            connection: Arc::new(connection),
            memory: Arc::new(memory),
            access,
            description,
            slots_start,
            slot_bytes: *slot_bytes as usize,
            cancel,
            cancelled: AtomicBool::new(false),
            line: Mutex::default(),
        })
    }

    /// What the feed of `request` would be (JSON), without starting it.
    ///
    /// # Errors
    /// As [`Consumer::open`].
    pub fn describe(path: &Path, request: &str, deadline: Duration) -> Result<String, OpenError> {
        let (_socket, answer, fd) = ask(path, &ToSidecar::Describe { request: request.into() }, deadline)?;
        let (ToTrainer::Described { bytes }, Some(fd)) = (&answer, fd) else {
            return Err(unexpected(path, &answer));
        };
        memory::read_text(fd.as_fd(), *bytes)
            .map_err(|source| OpenError::Memory { path: path.display().to_string(), source })
    }

    /// The description JSON.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Slots of the ring.
    pub fn slots(&self) -> usize {
        self.connection.slots()
    }

    /// Batches that this process has not dropped yet.
    pub fn held(&self) -> usize {
        self.connection.count()
    }

    /// The next batch, or `None` after the last. Waits up to `deadline`; threads that ask at the same
    /// time are served one after another.
    ///
    /// # Errors
    /// See [`NextError`]. [`NextError::NotYet`], [`NextError::AllSlotsHeld`] and
    /// [`NextError::Interrupted`] change nothing: asking again is fine. The others are final.
    pub fn next(&self, deadline: Duration) -> Result<Option<Batch>, NextError> {
        self.connection.check_process()?;
        let until = Instant::now().checked_add(deadline);
        let mut line = self.line.lock().expect("no code panics while it waits");
        if let Some(end) = &line.end {
            return end.clone().map(|()| None);
        }
        let outcome = loop {
            if self.cancelled.load(Ordering::Acquire) {
                return Err(NextError::Cancelled);
            }
            match self.connection.socket().try_recv::<ToTrainer>() {
                Ok(Some((ToTrainer::Notice { text }, _))) => show(&text),
                Ok(Some((message, memory))) => break self.understand(message, memory),
                Ok(None) => break Err(self.connection.died()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Who only looks does not wait.
                    if !deadline.is_zero() && !line.is_waiting {
                        line.is_waiting = true;
                        // A sidecar that is gone is noticed by waiting for it.
                        let _ = self
                            .connection
                            .socket()
                            .send(&ToSidecar::Waiting { received: line.received }, None);
                    }
                    self.wait(until, deadline)?;
                }
                Err(error) => break Err(damaged(&error)),
            }
        };
        match &outcome {
            Ok(Some(_)) => (line.received, line.is_waiting) = (line.received + 1, false),
            Ok(None) => line.end = Some(Ok(())),
            Err(error) => line.end = Some(Err(error.clone())),
        }
        outcome
    }

    /// Tells the sidecar that the effect of this step is safe.
    ///
    /// # Errors
    /// The sidecar is gone, or the process is a fork.
    pub fn acknowledge(&self, epoch: u64, step: u64) -> Result<(), NextError> {
        self.connection.check_process()?;
        self.connection
            .socket()
            .send(&ToSidecar::Acknowledge { epoch, step }, None)
            .map_err(|_| self.connection.died())
    }

    /// Ends every pending and later [`Consumer::next`] with [`NextError::Cancelled`].
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        if self.connection.check_process().is_ok() {
            // The counter stays raised for ever, so every waiter wakes; it cannot overflow by ones. In a
            // forked child it is the parent's counter still.
            let _ = rustix::io::write(&self.cancel, &1_u64.to_ne_bytes());
        }
    }

    fn understand(&self, message: ToTrainer, memory: Option<OwnedFd>) -> Result<Option<Batch>, NextError> {
        match message {
            ToTrainer::Batch { slot, epoch, step } => {
                let batch = self.batch(slot, memory)?;
                if (batch.epoch(), batch.step()) != (epoch, step) {
                    let what = format!(
                        "slot {slot} holds step {} of epoch {}, step {step} of {epoch} was announced",
                        batch.step(),
                        batch.epoch()
                    );
                    return Err(NextError::Damaged { what });
                }
                Ok(Some(batch))
            }
            ToTrainer::End => Ok(None),
            ToTrainer::Failed { code, message } => Err(NextError::Failed { code, message }),
            ToTrainer::Opened { .. } | ToTrainer::Described { .. } => Err(damaged(&"a feed is opened once")),
            ToTrainer::Notice { .. } => Err(damaged(&"a notice is not a batch")),
        }
    }

    fn batch(&self, slot: SlotId, memory: Option<OwnedFd>) -> Result<Batch, NextError> {
        let hold = Connection::hold(&self.connection, slot)?;
        let Some(fd) = memory else {
            let start = self.slots_start + slot.0 as usize * self.slot_bytes;
            return Batch::read(self.memory.clone(), start..start + self.slot_bytes, hold);
        };
        let own = memory::size(fd.as_fd()).map_err(|error| damaged(&error))?;
        memory::check(fd.as_fd(), own.max(1)).map_err(|error| damaged(&error))?;
        let map = ReadMap::of(fd.as_fd(), own as usize, self.access).map_err(|error| damaged(&error))?;
        Batch::read(Arc::new(map), 0..own as usize, hold)
    }

    /// Returns when something can be received, or the feed was cancelled.
    fn wait(&self, until: Option<Instant>, deadline: Duration) -> Result<(), NextError> {
        let mut fds =
            [PollFd::new(self.connection.socket(), PollFlags::IN), PollFd::new(&self.cancel, PollFlags::IN)];
        match poll(&mut fds, until) {
            Ok(true) => Ok(()),
            Ok(false) if self.held() >= self.slots() => Err(NextError::AllSlotsHeld { held: self.held() }),
            Ok(false) => Err(NextError::NotYet { milliseconds: deadline.as_millis() }),
            Err(rustix::io::Errno::INTR) => Err(NextError::Interrupted),
            Err(error) => Err(damaged(&error)),
        }
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        // In a forked child the connection is still the parent's.
        if self.connection.check_process().is_ok() {
            self.connection.socket().shutdown();
        }
    }
}

/// Whether one of `fds` is ready before `until`; a signal is an error.
fn poll(fds: &mut [PollFd<'_>], until: Option<Instant>) -> rustix::io::Result<bool> {
    let timeout = until.map(|until| {
        let left = until.saturating_duration_since(Instant::now());
        Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
    });
    Ok(rustix::event::poll(fds, timeout.as_ref())? > 0)
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests;
