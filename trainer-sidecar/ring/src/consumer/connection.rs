//! What a feed and its batches share: the socket, and which slots this process holds.
//!
//! *In:* slots that came and slots that were dropped. *Out:* `Release` messages. *Promise:* a slot is
//! held once and released once, by the process that opened the feed and no other.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::process::{Pid, getpid};

use super::error::{NextError, damaged};
use crate::batch::Hold;
use crate::free_list::SlotId;
use crate::message::ToSidecar;
use crate::socket::Socket;

/// One open connection to the sidecar.
pub(crate) struct Connection {
    socket: Socket,
    path: PathBuf,
    opener: Pid,
    held: Vec<AtomicBool>,
    count: AtomicUsize,
}

impl Connection {
    pub(super) fn new(socket: Socket, path: PathBuf, slots: u32) -> Connection {
        let held = (0..slots).map(|_| AtomicBool::new(false)).collect();
        Connection { socket, path, opener: getpid(), held, count: AtomicUsize::new(0) }
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(super) fn slots(&self) -> usize {
        self.held.len()
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    pub(super) fn hold(this: &Arc<Connection>, slot: SlotId) -> Result<Hold, NextError> {
        let held =
            this.held.get(slot.0 as usize).ok_or_else(|| damaged(&format!("there is no slot {slot}")))?;
        if held.swap(true, Ordering::AcqRel) {
            return Err(damaged(&format!("slot {slot} came while it is held")));
        }
        this.count.fetch_add(1, Ordering::AcqRel);
        Ok(Hold { connection: this.clone(), slot })
    }

    /// The reverse of `hold`. What a fork inherited is the opener's to release.
    pub(crate) fn release(&self, slot: SlotId) {
        if self.check_process().is_err() {
            return;
        }
        self.held[slot.0 as usize].store(false, Ordering::Release);
        self.count.fetch_sub(1, Ordering::AcqRel);
        // A sidecar that is gone needs no slots back.
        let _ = self.socket.send(&ToSidecar::Release { slot }, None);
    }

    pub(super) fn check_process(&self) -> Result<(), NextError> {
        let pid = getpid();
        if pid == self.opener {
            return Ok(());
        }
        Err(NextError::ForkedProcess {
            opener: self.opener.as_raw_nonzero().get(),
            child: pid.as_raw_nonzero().get(),
        })
    }

    pub(super) fn died(&self) -> NextError {
        NextError::SidecarDied { path: self.path.display().to_string() }
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_uses_nothing_and_releases_nothing() {
        let (sidecar, trainer) = Socket::pair().unwrap();
        let mut connection = Connection::new(trainer, "s.sock".into(), 1);
        // The test runner cannot fork safely; a connection opened by process 1 is the same to us.
        connection.opener = Pid::INIT;
        let connection = Arc::new(connection);
        let error = connection.check_process().unwrap_err();
        assert!(
            error.to_string().starts_with("the feed was opened in process 1 and is used in its forked child"),
            "{error}"
        );
        drop(Connection::hold(&connection, SlotId(0)).unwrap());
        assert_eq!(connection.count(), 1, "still the opener's");
        drop(connection);
        assert!(sidecar.recv::<ToSidecar>().unwrap().is_none(), "no release was sent");
    }
}
