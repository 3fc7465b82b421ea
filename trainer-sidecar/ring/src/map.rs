//! Memory shared with another process: the only module here that needs `unsafe`.
//!
//! *In:* a memfd whose length cannot change. *Out:* byte slices: exclusive ones for the sidecar
//! ([`Region`]), shared ones for the trainer ([`ReadMap`]), who reads them. *Promise:* regions made from one
//! mapping never overlap, and whoever owns a region is its only writer in this process; no slice
//! outlives its mapping. *Knows nothing* of slots: who reads when is settled by messages.
#![expect(unsafe_code, reason = "mapping memory and making slices of it cannot be expressed safely")]

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapping owned by this process; unmapped on drop.
struct Mapping {
    base: NonNull<u8>,
    len: usize,
    #[cfg(test)]
    heap: bool,
}

// SAFETY: the mapping is plain memory without thread affinity; access to it is governed by `Region`
// (exclusive) and `ReadMap` (shared, only read here).
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` alone gives no access to the bytes.
unsafe impl Sync for Mapping {}

/// An exclusive stretch of a writable mapping.
pub(crate) struct Region {
    mapping: Arc<Mapping>,
    range: Range<usize>,
}

/// What a trainer may do to the batches it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Whoever writes ends the process.
    Read,
    /// A framework may work in place on what it alone holds. Nobody reads a slot again that was handed out.
    Write,
}

/// A whole mapping, which nobody writes by its slices.
pub(crate) struct ReadMap {
    mapping: Mapping,
}

impl Mapping {
    fn new(fd: BorrowedFd<'_>, len: usize, prot: ProtFlags) -> rustix::io::Result<Mapping> {
        // SAFETY: a fresh shared mapping at an address the kernel chooses touches no memory of ours;
        // the callers give lengths within a file that is sealed against shrinking, so no access faults.
        let base = unsafe { mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, fd, 0) }?;
        let base = NonNull::new(base.cast::<u8>()).expect("mmap does not return null on success");
        Ok(Mapping {
            base,
            len,
            #[cfg(test)]
            heap: false,
        })
    }

    /// Zeroed page-aligned memory of this process, so that miri can follow what is written.
    #[cfg(test)]
    fn heap(len: usize) -> Mapping {
        let layout = std::alloc::Layout::from_size_align(len, 4096).unwrap();
        assert!(len > 0);
        // SAFETY: the layout has a size above zero.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        Mapping { base: NonNull::new(base).unwrap(), len, heap: true }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        #[cfg(test)]
        if self.heap {
            let layout = std::alloc::Layout::from_size_align(self.len, 4096).unwrap();
            // SAFETY: allocated in `heap` with the same layout, and nobody borrows it any more.
            return unsafe { std::alloc::dealloc(self.base.as_ptr(), layout) };
        }
        // SAFETY: mapped in `new` with this length; slices of it borrow from its owners, which are gone.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be unmapped");
    }
}

impl Region {
    /// Maps `fd` writable and cuts it at `cuts`, which ascend from 0 to its length.
    pub(crate) fn map(fd: BorrowedFd<'_>, cuts: &[usize]) -> rustix::io::Result<Vec<Region>> {
        let len = *cuts.last().expect("a mapping has an end");
        Ok(Region::cut(Mapping::new(fd, len, ProtFlags::READ | ProtFlags::WRITE)?, cuts))
    }

    /// The same over memory of this process alone.
    #[cfg(test)]
    pub(crate) fn heap(cuts: &[usize]) -> Vec<Region> {
        Region::cut(Mapping::heap(*cuts.last().unwrap()), cuts)
    }

    /// The mapping is taken by value, so the regions made here are the only ways to its bytes.
    fn cut(mapping: Mapping, cuts: &[usize]) -> Vec<Region> {
        assert!(cuts.is_sorted() && cuts.last() == Some(&mapping.len), "cuts ascend to the mapping's end");
        let mapping = Arc::new(mapping);
        cuts.windows(2).map(|cut| Region { mapping: mapping.clone(), range: cut[0]..cut[1] }).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `cut` checked that the range lies inside the mapping.
        let start = unsafe { self.mapping.base.add(self.range.start) };
        // SAFETY: the bytes are mapped and writable for the life of `self`; regions do not overlap and
        // `&mut self` makes this the only slice of this one. The trainer
        // uses a slot only between hand-out and release, when nobody here owns its region.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.range.len()) }
    }
}

impl ReadMap {
    /// Maps the first `len` bytes of `fd` read-only. The caller has checked size and seals.
    pub(crate) fn new(fd: BorrowedFd<'_>, len: usize) -> rustix::io::Result<ReadMap> {
        Ok(ReadMap { mapping: Mapping::new(fd, len, ProtFlags::READ)? })
    }

    /// The same for a trainer of this access.
    pub(crate) fn of(fd: BorrowedFd<'_>, len: usize, access: Access) -> rustix::io::Result<ReadMap> {
        let prot = match access {
            Access::Read => ProtFlags::READ,
            Access::Write => ProtFlags::READ | ProtFlags::WRITE,
        };
        Ok(ReadMap { mapping: Mapping::new(fd, len, prot)? })
    }

    pub(crate) fn len(&self) -> usize {
        self.mapping.len
    }

    /// The bytes of a range, if it lies inside.
    pub(crate) fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        if range.start > range.end || range.end > self.mapping.len {
            return None;
        }
        // SAFETY: the start lies inside the mapping, as was just checked.
        let start = unsafe { self.mapping.base.add(range.start) };
        // SAFETY: the bytes are mapped for the life of `self`, and the sidecar does not write what it
        // has handed out; callers ask only for the header and for slots handed out to them.
        Some(unsafe { std::slice::from_raw_parts(start.as_ptr(), range.len()) })
    }

    /// Where such a range begins, for code that may write there.
    pub(crate) fn pointer(&self, start: usize) -> *mut u8 {
        assert!(start <= self.mapping.len, "{start} lies in the mapping");
        // SAFETY: inside the mapping, or at its end, as was just checked.
        unsafe { self.mapping.base.add(start) }.as_ptr()
    }
}

/// Bytes as offsets; `None` when their place or length is not a multiple of 8.
pub(crate) fn words(bytes: &[u8]) -> Option<&[i64]> {
    // SAFETY: every bit pattern is an i64.
    let (before, words, after) = unsafe { bytes.align_to::<i64>() };
    (before.is_empty() && after.is_empty()).then_some(words)
}

/// As [`words`], to write.
pub(crate) fn words_mut(bytes: &mut [u8]) -> Option<&mut [i64]> {
    // SAFETY: every bit pattern is an i64, and every i64 is eight bytes.
    let (before, words, after) = unsafe { bytes.align_to_mut::<i64>() };
    (before.is_empty() && after.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_written_side_by_side() {
        let mut regions = Region::heap(&[0, 64, 4096, 8192]);
        std::thread::scope(|scope| {
            for (i, region) in regions.iter_mut().enumerate() {
                scope.spawn(move || region.bytes_mut().fill(i as u8 + 1));
            }
        });
        for (i, region) in regions.iter_mut().enumerate() {
            assert!(region.bytes_mut().iter().all(|&b| b == i as u8 + 1));
        }
        assert_eq!(regions.iter().map(Region::len).collect::<Vec<_>>(), [64, 4032, 4096]);
    }

    #[test]
    fn offsets_need_whole_aligned_words() {
        let mut regions = Region::heap(&[0, 4096]);
        let bytes = regions[0].bytes_mut();
        words_mut(&mut bytes[8..24]).unwrap().copy_from_slice(&[7, -1]);
        assert_eq!(words(&bytes[8..24]), Some(&[7, -1][..]));
        assert_eq!(words(&bytes[4..12]), None);
        assert_eq!(words(&bytes[8..20]), None);
    }
}
