//! Filling a slot.
//!
//! *In:* a batch's header and column specifications. *Out:* mutable bytes of every column. *Promise:*
//! columns are disjoint, as large as specified, and start at multiples of 128 bytes; the header
//! describes exactly what was specified. What is not written keeps the bytes of an earlier batch of
//! the same feed. *Knows nothing* of values.

use std::os::fd::{AsFd, OwnedFd};

use crate::free_list::SlotId;
use crate::layout::{ColumnSpec, LayoutError, PAGE, Place, SlotLayout, align};
use crate::map::{Region, words_mut};
use crate::memory::{self, MemoryError};
use crate::ring::FreeSlot;
use crate::slot::{self, BatchHeader};

/// Why a batch cannot be written into a slot.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The columns contradict themselves.
    #[error("the batch cannot be laid out")]
    Layout(#[from] LayoutError),
    /// It does not fit; it can have memory of its own, see [`FreeSlot::outgrow`].
    #[error("the batch needs {needed} bytes; a slot has {slot_bytes}")]
    TooLarge {
        /// Bytes of the batch.
        needed: u64,
        /// Bytes of a slot.
        slot_bytes: u64,
    },
    /// Memory of its own could not be had.
    #[error("no memory for a batch larger than its slot")]
    Memory(#[from] MemoryError),
}

/// The exclusive writer of one batch's columns.
pub struct SlotWriter<'a> {
    slot: &'a mut [u8],
    layout: SlotLayout,
}

/// One column to be filled.
pub struct ColumnMut<'a> {
    /// `elements + 1` offsets of a `string` or `bytes` column: from 0, never falling.
    pub offsets: Option<&'a mut [i64]>,
    /// The elements' bytes.
    pub data: &'a mut [u8],
}

/// A batch larger than its slot, in a memfd of its own. It still occupies its slot, so that a ring
/// bounds large batches too; releasing the slot says that the memfd is not needed any more.
pub struct Oversize {
    slot: FreeSlot,
    region: Region,
    memory: OwnedFd,
    header: BatchHeader,
    columns: Vec<ColumnSpec>,
}

impl<'a> SlotWriter<'a> {
    pub(crate) fn begin(
        slot: &'a mut [u8],
        header: BatchHeader,
        columns: &[ColumnSpec],
    ) -> Result<SlotWriter<'a>, WriteError> {
        let layout = SlotLayout::plan(columns)?;
        if layout.bytes() > slot.len() as u64 {
            return Err(WriteError::TooLarge { needed: layout.bytes(), slot_bytes: slot.len() as u64 });
        }
        slot::write(slot, header, columns, &layout);
        Ok(SlotWriter { slot, layout })
    }

    /// The bytes of column `i`.
    pub fn column(&mut self, i: usize) -> &mut [u8] {
        let data = &self.layout.places()[i].data;
        &mut self.slot[data.start as usize..data.end as usize]
    }

    /// The `elements + 1` offsets of column `i`; empty for numbers.
    pub fn offsets(&mut self, i: usize) -> &mut [i64] {
        match self.layout.places()[i].offsets.clone() {
            Some(range) => aligned(&mut self.slot[range.start as usize..range.end as usize]),
            None => &mut [],
        }
    }

    /// All columns at once, so that threads can share the work.
    pub fn columns(&mut self) -> Vec<ColumnMut<'_>> {
        let (mut rest, mut at): (&mut [u8], u64) = (self.slot, 0);
        let mut cut = |range: &std::ops::Range<u64>| {
            let (_, tail) = std::mem::take(&mut rest).split_at_mut((range.start - at) as usize);
            let (bytes, tail) = tail.split_at_mut((range.end - range.start) as usize);
            (rest, at) = (tail, range.end);
            bytes
        };
        let places = self.layout.places().iter();
        places
            .map(|Place { offsets, data }| ColumnMut {
                offsets: offsets.as_ref().map(&mut cut).map(aligned),
                data: cut(data),
            })
            .collect()
    }
}

fn aligned(bytes: &mut [u8]) -> &mut [i64] {
    words_mut(bytes).expect("the layout aligns offsets to 128 bytes in a page-aligned slot")
}

impl Oversize {
    pub(crate) fn new(
        slot: FreeSlot,
        header: BatchHeader,
        columns: Vec<ColumnSpec>,
    ) -> Result<Oversize, WriteError> {
        let needed = SlotLayout::plan(&columns)?.bytes();
        let bytes = align(needed, PAGE).ok_or(LayoutError::Overflow { column: 0 })?;
        let memory = memory::reserve(bytes)?;
        let region = Region::map(memory.as_fd(), &[0, bytes as usize])
            .map_err(|source| MemoryError::Use { bytes, source: source.into() })?
            .remove(0);
        memory::seal_size(memory.as_fd(), bytes)?;
        Ok(Oversize { slot, region, memory, header, columns })
    }

    /// Bytes of shared memory it takes beside its slot, for the budget.
    pub fn bytes(&self) -> u64 {
        self.region.len() as u64
    }

    /// As [`FreeSlot::writer`].
    ///
    /// # Errors
    /// None that [`FreeSlot::outgrow`] has not reported already.
    pub fn writer(&mut self) -> Result<SlotWriter<'_>, WriteError> {
        SlotWriter::begin(self.region.bytes_mut(), self.header, &self.columns)
    }

    /// The slot is the trainer's now; the memory travels with [`crate::ToTrainer::Batch`].
    pub fn hand_out(self) -> (SlotId, OwnedFd) {
        (self.slot.hand_out(), self.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    #[test]
    fn columns_can_be_filled_by_several_threads() {
        let specs = [
            ColumnSpec::fixed(DType::Float64, vec![3]),
            ColumnSpec::text(DType::Bytes, vec![3], 4),
            ColumnSpec::fixed(DType::UInt8, vec![3, 0]),
        ];
        let header = BatchHeader { epoch: 0, step: 0, rows: 3 };
        let mut region = Region::heap(&[0, 4096]).remove(0);
        let mut writer = SlotWriter::begin(region.bytes_mut(), header, &specs).unwrap();
        std::thread::scope(|scope| {
            for (i, column) in writer.columns().into_iter().enumerate() {
                scope.spawn(move || {
                    column.data.fill(i as u8 + 1);
                    if let Some(offsets) = column.offsets {
                        offsets.copy_from_slice(&[0, 1, 1, 4]);
                    }
                });
            }
        });
        assert_eq!(writer.column(0), [1; 24]);
        assert_eq!(writer.column(1), [2; 4]);
        assert_eq!(writer.offsets(1), [0, 1, 1, 4]);
        assert_eq!(writer.column(2), [0_u8; 0]);
        assert!(writer.offsets(2).is_empty());
    }

    #[test]
    fn a_batch_that_does_not_fit_says_by_how_much() {
        let mut region = Region::heap(&[0, 4096]).remove(0);
        let header = BatchHeader { epoch: 0, step: 0, rows: 4096 };
        let error =
            SlotWriter::begin(region.bytes_mut(), header, &[ColumnSpec::fixed(DType::Bool, vec![4096])])
                .err()
                .unwrap();
        assert!(matches!(error, WriteError::TooLarge { needed: 4352, slot_bytes: 4096 }), "{error:?}");
    }
}
