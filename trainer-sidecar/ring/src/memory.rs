//! Anonymous shared files: made, filled, sealed; and checked on the other side.
//!
//! *In:* sizes and texts. *Out:* memfds. *Promise:* all memory is there before it is handed over (a
//! full host is an error here, not a bus error later), and its size can never change again. *Knows
//! nothing* of what lies inside.

mod room;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use self::room::Room;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};

/// Neither the size nor these seals change any more.
const SIZE: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);
/// The largest text taken from a memfd: a description, which is a few KiB.
const MAX_TEXT: u64 = 64 << 20;

/// Shared memory could not be made or is not what was promised.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The kernel refused the bytes.
    #[error("cannot reserve {bytes} bytes of shared memory; give the feed less memory or the host more")]
    Reserve {
        /// What was asked for.
        bytes: u64,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
    /// The bytes are there but cannot be mapped, read or sealed.
    #[error("cannot use {bytes} bytes of shared memory")]
    Use {
        /// How many.
        bytes: u64,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
    /// The other side could still shrink it, and with it crash this process.
    #[error("shared memory came without its seals")]
    Unsealed,
    /// It is shorter than it says.
    #[error("shared memory has {actual} bytes; {needed} were announced")]
    Short {
        /// Its size.
        actual: u64,
        /// What was announced.
        needed: u64,
    },
}

/// A memfd of `bytes` bytes, all of them reserved. Not sealed yet.
///
/// The kernel does not refuse a `fallocate` that the host has no memory for: it kills processes until
/// none is left. So what the host and the control group have is asked first.
pub(crate) fn reserve(bytes: u64) -> Result<OwnedFd, MemoryError> {
    let room = Room::now();
    if !room.holds(bytes) {
        let source = io::Error::new(io::ErrorKind::OutOfMemory, room.to_string());
        return Err(MemoryError::Reserve { bytes, source });
    }
    let refused = |source: rustix::io::Errno| MemoryError::Reserve { bytes, source: source.into() };
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("penstock-ring", flags).map_err(refused)?;
    rustix::io::retry_on_intr(|| rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, bytes))
        .map_err(refused)?;
    Ok(fd)
}

/// Fixes the size for ever, and the content for everybody else.
fn seal(fd: BorrowedFd<'_>, bytes: u64) -> Result<(), MemoryError> {
    let refused = |source: rustix::io::Errno| MemoryError::Use { bytes, source: source.into() };
    // Kernels before 5.1 do not know this seal; who gets the text only reads it anyway.
    let _ = rustix::fs::fcntl_add_seals(fd, SealFlags::FUTURE_WRITE);
    rustix::fs::fcntl_add_seals(fd, SIZE).map_err(refused)
}

/// Fixes the size alone: whoever has a descriptor may write.
pub(crate) fn seal_size(fd: BorrowedFd<'_>, bytes: u64) -> Result<(), MemoryError> {
    let refused = |source: rustix::io::Errno| MemoryError::Use { bytes, source: source.into() };
    rustix::fs::fcntl_add_seals(fd, SIZE).map_err(refused)
}

/// A sealed memfd that holds a text, for messages that a socket is too small for.
///
/// # Errors
/// No memory.
pub fn seal_text(text: &str) -> Result<OwnedFd, MemoryError> {
    let bytes = text.len() as u64;
    let fd = reserve(bytes.max(1))?;
    let refused = |source: io::Error| MemoryError::Use { bytes, source };
    std::os::unix::fs::FileExt::write_all_at(&as_file(fd.as_fd()).map_err(refused)?, text.as_bytes(), 0)
        .map_err(refused)?;
    seal(fd.as_fd(), bytes)?;
    Ok(fd)
}

/// Checks that `fd` holds at least `needed` bytes that nobody can take away.
pub(crate) fn check(fd: BorrowedFd<'_>, needed: u64) -> Result<(), MemoryError> {
    let refused = |source: rustix::io::Errno| MemoryError::Use { bytes: needed, source: source.into() };
    let seals = rustix::fs::fcntl_get_seals(fd).map_err(|_| MemoryError::Unsealed)?;
    if !seals.contains(SealFlags::SHRINK) {
        return Err(MemoryError::Unsealed);
    }
    let actual = size(fd).map_err(refused)?;
    if actual < needed {
        return Err(MemoryError::Short { actual, needed });
    }
    Ok(())
}

/// Reads a text of `bytes` bytes written by [`seal_text`].
pub(crate) fn read_text(fd: BorrowedFd<'_>, bytes: u64) -> Result<String, MemoryError> {
    check(fd, bytes)?;
    let refused = |source: io::Error| MemoryError::Use { bytes, source };
    if bytes > MAX_TEXT {
        return Err(refused(io::Error::new(io::ErrorKind::InvalidData, "a text this large is a mistake")));
    }
    let mut text = vec![0; bytes as usize];
    std::os::unix::fs::FileExt::read_exact_at(&as_file(fd).map_err(refused)?, &mut text, 0)
        .map_err(refused)?;
    String::from_utf8(text).map_err(|e| refused(io::Error::new(io::ErrorKind::InvalidData, e)))
}

/// Size of a file in bytes.
pub(crate) fn size(fd: BorrowedFd<'_>) -> rustix::io::Result<u64> {
    Ok(rustix::fs::fstat(fd)?.st_size.try_into().unwrap_or(0))
}

fn as_file(fd: BorrowedFd<'_>) -> io::Result<std::fs::File> {
    Ok(fd.try_clone_to_owned()?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel's memfd")]
    fn a_sealed_text_comes_back_and_cannot_change_its_size() {
        let fd = seal_text("héllo").unwrap();
        assert_eq!(read_text(fd.as_fd(), 6).unwrap(), "héllo");
        assert!(rustix::fs::ftruncate(&fd, 0).is_err(), "sealed against shrinking");
        assert!(rustix::fs::ftruncate(&fd, 100).is_err(), "sealed against growing");
        assert!(matches!(read_text(fd.as_fd(), 7), Err(MemoryError::Short { actual: 6, needed: 7 })));
        assert_eq!(read_text(seal_text("").unwrap().as_fd(), 0).unwrap(), "");
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel's memfd")]
    fn memory_without_seals_is_refused() {
        let fd = reserve(4096).unwrap();
        assert!(matches!(check(fd.as_fd(), 4096), Err(MemoryError::Unsealed)));
        let (not_even_memory, _) = rustix::pipe::pipe().unwrap();
        assert!(matches!(check(not_even_memory.as_fd(), 1), Err(MemoryError::Unsealed)));
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel's memfd")]
    fn more_than_the_host_has_is_an_error_at_once() {
        // A length that the kernel refuses too, so that this test can never take the host's memory.
        let Err(MemoryError::Reserve { source, .. }) = reserve(u64::MAX) else { panic!("not refused") };
        assert_eq!(source.kind(), io::ErrorKind::OutOfMemory);
    }
}
