//! Memory that one process writes and another reads, wherever the two agree on.
//!
//! *In:* a size. *Out:* bytes to write for the owner, and a descriptor with which another process maps them
//! read-only. *Promise:* a reader cannot write, resize or keep the memory from its owner; no slice reaches out
//! of the mapping. *Knows nothing* of what is where: a reader looks only at what it was told of, and the owner
//! writes nothing that it is still told to be read.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FallocateFlags, Mode, OFlags};

use crate::map::{ReadMap, Region};
use crate::memory::{MemoryError, check, reserve, seal_size};

/// Memory of this process that others may read.
pub struct Lent {
    region: Region,
    fd: OwnedFd,
    reader: OwnedFd,
}

/// Memory of another process.
pub struct Borrowed(ReadMap);

impl Lent {
    /// Memory of `bytes` bytes, all of them reserved.
    ///
    /// # Errors
    /// The host or the control group has too little, or the kernel refuses.
    pub fn create(bytes: u64) -> Result<Self, MemoryError> {
        let used = |source: rustix::io::Errno| MemoryError::Use { bytes, source: source.into() };
        let fd = reserve(bytes)?;
        // Nobody else opens it anew to write: a descriptor of ours is the only way to it.
        rustix::fs::fchmod(&fd, Mode::RUSR).map_err(used)?;
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let reader = rustix::fs::open(path, flags, Mode::empty()).map_err(used)?;
        seal_size(fd.as_fd(), bytes)?;
        let length = usize::try_from(bytes).expect("64-bit hosts alone are supported");
        let mut regions = Region::map(fd.as_fd(), &[0, length]).map_err(used)?;
        let region = regions.pop().expect("one stretch was asked for");
        Ok(Self { region, fd, reader })
    }

    /// What a reader maps the memory with; it cannot be written by.
    pub fn reader(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    pub fn len(&self) -> usize {
        self.region.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of the memory. What is still being read must not be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.region.bytes_mut()
    }

    /// Gives the memory back to the host, whatever a reader does: one that kept its descriptor sees zeros. Only
    /// for readers that said that they are done. A memory that is dropped lives as long as its last reader.
    pub fn take_back(self) {
        let (punch, bytes) = (FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, self.len() as u64);
        // What the kernel cannot punch goes with its last descriptor.
        let _ = rustix::fs::fallocate(&self.fd, punch, 0, bytes);
    }
}

impl Borrowed {
    /// Maps memory that came from another process.
    ///
    /// # Errors
    /// It is shorter than announced, or could become so, or cannot be mapped.
    pub fn new(fd: BorrowedFd<'_>, bytes: u64) -> Result<Self, MemoryError> {
        check(fd, bytes)?;
        let used = |source: rustix::io::Errno| MemoryError::Use { bytes, source: source.into() };
        let length = usize::try_from(bytes).map_err(|_| used(rustix::io::Errno::INVAL))?;
        Ok(Self(ReadMap::new(fd, length).map_err(used)?))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of a range, if it lies inside. Only what the owner does not write meanwhile may be asked for.
    pub fn bytes(&self, range: std::ops::Range<usize>) -> Option<&[u8]> {
        self.0.bytes(range)
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    const BYTES: u64 = 1 << 16;

    #[test]
    fn what_is_written_is_read() {
        let mut lent = Lent::create(BYTES).unwrap();
        let borrowed = Borrowed::new(lent.reader(), BYTES).unwrap();
        lent.bytes_mut()[7] = 3;
        assert_eq!(borrowed.bytes(6..8), Some(&[0, 3][..]));
        assert_eq!(borrowed.bytes(7..BYTES as usize + 1), None);
        drop(lent);
        assert_eq!(borrowed.bytes(7..8), Some(&[3][..]), "it lives as long as its reader");
    }

    #[test]
    fn a_reader_can_neither_write_nor_resize_nor_keep_it() {
        let mut lent = Lent::create(BYTES).unwrap();
        lent.bytes_mut().fill(7);
        let kept = lent.reader().try_clone_to_owned().unwrap();
        assert_eq!(rustix::io::pwrite(&kept, &[1], 0), Err(Errno::BADF));
        assert!(rustix::fs::ftruncate(&kept, 1).is_err());
        let mapped = Region::map(kept.as_fd(), &[0, BYTES as usize]);
        assert_eq!(mapped.err(), Some(Errno::ACCESS));
        lent.take_back();
        assert_eq!(rustix::fs::fstat(&kept).unwrap().st_blocks, 0);
    }

    #[test]
    fn memory_that_is_not_what_was_announced_is_refused() {
        let lent = Lent::create(BYTES).unwrap();
        assert!(matches!(Borrowed::new(lent.reader(), BYTES + 1), Err(MemoryError::Short { .. })));
        let file = tempfile::tempfile().unwrap();
        assert!(matches!(Borrowed::new(file.as_fd(), 1), Err(MemoryError::Unsealed)));
    }
}
