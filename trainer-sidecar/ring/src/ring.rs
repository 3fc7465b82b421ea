//! The sidecar's side of a ring.
//!
//! *In:* number and size of slots, a description. *Out:* free slots to write, in any order. *Promise:*
//! one writer a slot; a slot comes back only after the trainer released it or the writer was dropped;
//! all memory is reserved at creation. *Knows nothing* of sockets: the feed passes messages on.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::free_list::{FreeList, ReleaseError, SlotId};
use crate::layout::{ColumnSpec, PAGE, align};
use crate::map::Region;
use crate::memory::{self, MemoryError};
use crate::slot::BatchHeader;
use crate::writer::{Oversize, SlotWriter, WriteError};

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"PNSTRING");
pub(crate) const VERSION: u32 = 1;
/// magic, version, slots, slot bytes, start of the slots, description bytes.
pub(crate) const RING_HEADER: u64 = 64;

/// A ring cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// Less than one slot, or more bytes than a file can have.
    #[error("a ring of {slots} slots of {slot_bytes} bytes cannot be")]
    Shape {
        /// Slots asked for.
        slots: u32,
        /// Bytes each.
        slot_bytes: u64,
    },
    /// No memory.
    #[error("no memory for a ring")]
    Memory(#[from] MemoryError),
}

/// Slots in shared memory, and which of them are free. Clones are the same ring.
#[derive(Clone)]
pub struct Ring {
    shared: Arc<Shared>,
}

struct Shared {
    memory: OwnedFd,
    slot_bytes: u64,
    slots: Mutex<FreeList<Region>>,
}

/// A slot that is free, and this owner's alone. Dropped, it goes back to its ring.
pub struct FreeSlot {
    ring: Arc<Shared>,
    id: SlotId,
    /// Taken by `hand_out` and by drop.
    region: Option<Region>,
}

impl Ring {
    /// Reserves `slots` slots of at least `slot_bytes` bytes (rounded up to whole pages) and writes
    /// the `description` (JSON) in front of them.
    ///
    /// # Errors
    /// No slots, or not enough memory on this host.
    pub fn create(slots: u32, slot_bytes: u64, description: &str) -> Result<Ring, RingError> {
        let shape = || RingError::Shape { slots, slot_bytes };
        let slot_bytes = align(slot_bytes.max(1), PAGE).ok_or_else(shape)?;
        let start = align(RING_HEADER + description.len() as u64, PAGE).ok_or_else(shape)?;
        let total = slot_bytes
            .checked_mul(slots.into())
            .and_then(|bytes| bytes.checked_add(start))
            .ok_or_else(shape)?;
        if slots == 0 || total > i64::MAX as u64 {
            return Err(shape());
        }
        let memory = memory::reserve(total)?;
        let mut cuts = vec![0];
        cuts.extend((0..=u64::from(slots)).map(|slot| (start + slot * slot_bytes) as usize));
        let mut regions = Region::map(memory.as_fd(), &cuts)
            .map_err(|source| MemoryError::Use { bytes: total, source: source.into() })?;
        let mut head = regions.remove(0);
        write_header(head.bytes_mut(), slots, slot_bytes, start, description);
        memory::seal_size(memory.as_fd(), total)?;
        Ok(Ring {
            shared: Arc::new(Shared { memory, slot_bytes, slots: Mutex::new(FreeList::new(regions)) }),
        })
    }

    /// Takes the slot that has been free the longest; `None` while the trainer and writers have all.
    pub fn take(&self) -> Option<FreeSlot> {
        let (id, region) = self.shared.slots().take()?;
        Some(FreeSlot { ring: self.shared.clone(), id, region: Some(region) })
    }

    /// Takes back what the trainer released.
    ///
    /// # Errors
    /// The trainer does not hold that slot: its mistake, the feed should end.
    pub fn release(&self, slot: SlotId) -> Result<(), ReleaseError> {
        self.shared.slots().release(slot)
    }

    /// The memory, to be sent with [`crate::ToTrainer::Opened`].
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.shared.memory.as_fd()
    }

    /// Number of slots.
    pub fn slots(&self) -> u32 {
        self.shared.slots().len() as u32
    }

    /// Bytes of a slot, a multiple of the page size.
    pub fn slot_bytes(&self) -> u64 {
        self.shared.slot_bytes
    }
}

impl Shared {
    fn slots(&self) -> MutexGuard<'_, FreeList<Region>> {
        self.slots.lock().expect("no code panics while it holds the list")
    }
}

impl FreeSlot {
    /// Which slot this is.
    pub fn id(&self) -> SlotId {
        self.id
    }

    /// Starts a batch: writes its header and gives access to its columns.
    ///
    /// # Errors
    /// Columns that contradict themselves, or need more than the slot has ([`WriteError::TooLarge`]:
    /// go on with [`FreeSlot::outgrow`]).
    pub fn writer(
        &mut self,
        header: BatchHeader,
        columns: &[ColumnSpec],
    ) -> Result<SlotWriter<'_>, WriteError> {
        let region = self.region.as_mut().expect("present until handed out");
        SlotWriter::begin(region.bytes_mut(), header, columns)
    }

    /// Gives a batch that is larger than the slot memory of its own.
    ///
    /// # Errors
    /// Columns that contradict themselves, or no memory.
    pub fn outgrow(self, header: BatchHeader, columns: &[ColumnSpec]) -> Result<Oversize, WriteError> {
        Oversize::new(self, header, columns.to_vec())
    }

    /// The slot is the trainer's until [`Ring::release`]; say so with [`crate::ToTrainer::Batch`].
    pub fn hand_out(mut self) -> SlotId {
        let region = self.region.take().expect("present until handed out");
        self.ring.slots().hand_out(self.id, region);
        self.id
    }
}

impl Drop for FreeSlot {
    fn drop(&mut self) {
        if let Some(region) = self.region.take() {
            self.ring.slots().give_back(self.id, region);
        }
    }
}

fn write_header(head: &mut [u8], slots: u32, slot_bytes: u64, start: u64, description: &str) {
    head[..8].copy_from_slice(&MAGIC.to_le_bytes());
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head[12..16].copy_from_slice(&slots.to_le_bytes());
    head[16..24].copy_from_slice(&slot_bytes.to_le_bytes());
    head[24..32].copy_from_slice(&start.to_le_bytes());
    head[32..40].copy_from_slice(&(description.len() as u64).to_le_bytes());
    head[RING_HEADER as usize..][..description.len()].copy_from_slice(description.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel's memfd")]
    fn a_dropped_writer_gives_its_slot_back_and_a_handed_out_one_waits_for_release() {
        let ring = Ring::create(2, 100, "{}").unwrap();
        assert_eq!((ring.slots(), ring.slot_bytes()), (2, 4096));
        let first = ring.take().unwrap();
        drop(first);
        let handed_out = ring.take().unwrap().hand_out();
        let writing = ring.take().unwrap();
        assert!(ring.take().is_none());
        assert!(ring.release(writing.id()).is_err());
        ring.release(handed_out).unwrap();
        assert_eq!(ring.take().unwrap().id(), handed_out);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel's memfd")]
    fn a_ring_that_cannot_be_is_refused() {
        assert!(matches!(Ring::create(0, 100, ""), Err(RingError::Shape { slots: 0, .. })));
        assert!(matches!(Ring::create(3, u64::MAX / 2, ""), Err(RingError::Shape { .. })));
    }
}
