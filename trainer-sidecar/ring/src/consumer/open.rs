//! Opening: one question, one answer, one checked mapping.
//!
//! *In:* a path and a question. *Out:* the connection and a ring that is what was announced. *Promise:*
//! ends by a deadline; nothing of the ring's header is believed before it was checked.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::error::OpenError;
use super::notice::show;
use super::poll;
use crate::map::{Access, ReadMap};
use crate::memory::{self, MemoryError};
use crate::message::{ToSidecar, ToTrainer};
use crate::ring::{MAGIC, RING_HEADER, VERSION};
use crate::socket::Socket;

/// Connects, asks, and waits for one answer.
pub(super) fn ask(
    path: &Path,
    question: &ToSidecar,
    deadline: Duration,
) -> Result<(Socket, ToTrainer, Option<OwnedFd>), OpenError> {
    let name = || path.display().to_string();
    let protocol = |error: io::Error| OpenError::Protocol { path: name(), what: error.to_string() };
    let until = Instant::now().checked_add(deadline);
    let socket = Socket::connect(path).map_err(|source| OpenError::NoSidecar { path: name(), source })?;
    socket.send(question, None).map_err(protocol)?;
    loop {
        match poll(&mut [PollFd::new(&socket, PollFlags::IN)], until) {
            Ok(true) => {}
            Ok(false) => return Err(OpenError::Deadline { path: name(), seconds: deadline.as_secs() }),
            Err(rustix::io::Errno::INTR) => return Err(OpenError::Interrupted),
            Err(error) => return Err(protocol(error.into())),
        }
        match socket.try_recv::<ToTrainer>().map_err(protocol)? {
            Some((ToTrainer::Notice { text }, _)) => show(&text),
            Some((ToTrainer::Failed { code, message }, _)) => {
                return Err(OpenError::Failed { code, message });
            }
            Some((answer, memory)) => return Ok((socket, answer, memory)),
            None => return Err(OpenError::SidecarDied { path: name() }),
        }
    }
}

/// Maps the ring and checks that it is the one announced.
pub(super) fn map_ring(
    fd: &OwnedFd,
    slots: u32,
    slot_bytes: u64,
    access: Access,
) -> Result<(ReadMap, String, usize), MemoryError> {
    let bytes =
        memory::size(fd.as_fd()).map_err(|source| MemoryError::Use { bytes: 0, source: source.into() })?;
    memory::check(fd.as_fd(), bytes.max(RING_HEADER))?;
    let used = |source: io::Error| MemoryError::Use { bytes, source };
    let map = ReadMap::of(fd.as_fd(), bytes as usize, access).map_err(|error| used(error.into()))?;
    let strange = |what: &str| used(io::Error::new(io::ErrorKind::InvalidData, what.to_owned()));
    let head = map.bytes(0..RING_HEADER as usize).ok_or_else(|| strange("no header"))?.to_vec();
    let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
    if word(0) != MAGIC || word(8) as u32 != VERSION {
        return Err(strange("a ring of another release"));
    }
    if (word(8) >> 32) as u32 != slots || word(16) != slot_bytes || slots == 0 {
        return Err(strange("a ring of other slots than announced"));
    }
    let (start, length) = (word(24), word(32));
    let needed = slot_bytes
        .checked_mul(slots.into())
        .and_then(|all| all.checked_add(start))
        .ok_or_else(|| strange("too many slots"))?;
    if needed > map.len() as u64
        || !start.is_multiple_of(4096)
        || !slot_bytes.is_multiple_of(4096)
        || length > start.saturating_sub(RING_HEADER)
    {
        return Err(strange("slots outside the ring"));
    }
    let text = map
        .bytes(RING_HEADER as usize..(RING_HEADER + length) as usize)
        .ok_or_else(|| strange("no description"))?
        .to_vec();
    let description = String::from_utf8(text).map_err(|_| strange("a description that is not UTF-8"))?;
    Ok((map, description, start as usize))
}

pub(super) fn unexpected(path: &Path, answer: &ToTrainer) -> OpenError {
    OpenError::Protocol { path: path.display().to_string(), what: format!("{answer:?}") }
}
