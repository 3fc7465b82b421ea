//! One batch in the trainer's hands.
//!
//! *In:* a slot that the sidecar handed out. *Out:* columns as bytes of the mapping. *Promise:* the
//! bytes stay as they are until the batch is dropped, in any thread; dropping gives the slot back,
//! but only in the process that opened the feed. *Knows nothing* of element values.

use std::ops::Range;
use std::sync::Arc;

use crate::consumer::{Connection, NextError};
use crate::dtype::DType;
use crate::free_list::SlotId;
use crate::map::{ReadMap, words};
use crate::slot::{self, BatchHeader, Column};

/// A batch's columns, lying in shared memory until this is dropped.
pub struct Batch {
    header: BatchHeader,
    columns: Vec<Column>,
    memory: Arc<ReadMap>,
    /// The slot within `memory`.
    range: Range<usize>,
    _hold: Hold,
}

/// Possession of a slot; dropped, the slot is released.
pub(crate) struct Hold {
    pub(crate) connection: Arc<Connection>,
    pub(crate) slot: SlotId,
}

/// One column of a batch.
#[derive(Clone, Copy, Debug)]
pub struct ColumnView<'a> {
    /// Type of an element.
    pub dtype: DType,
    /// Rows first, then the shape of a row.
    pub dims: &'a [u64],
    /// The elements' bytes, at a multiple of 128 bytes.
    pub data: &'a [u8],
    /// `elements + 1` ascending offsets into `data` of a `string` or `bytes` column.
    pub offsets: Option<&'a [i64]>,
}

impl Batch {
    /// Reads and checks the slot at `range` of `memory`.
    pub(crate) fn read(memory: Arc<ReadMap>, range: Range<usize>, hold: Hold) -> Result<Batch, NextError> {
        let outside = || NextError::Damaged { what: format!("slot {} lies outside its memory", hold.slot) };
        let bytes = memory.bytes(range.clone()).ok_or_else(outside)?;
        let (header, columns) =
            slot::read(bytes).map_err(|error| NextError::Damaged { what: error.to_string() })?;
        Ok(Batch { header, columns, memory, range, _hold: hold })
    }

    /// The pass over the dataset.
    pub fn epoch(&self) -> u64 {
        self.header.epoch
    }

    /// The step in the epoch.
    pub fn step(&self) -> u64 {
        self.header.step
    }

    /// Rows of this batch.
    pub fn rows(&self) -> u64 {
        self.header.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Column `i`, in the order of the description.
    ///
    /// # Panics
    /// `i` is not below [`Batch::columns`].
    pub fn column(&self, i: usize) -> ColumnView<'_> {
        let column = &self.columns[i];
        ColumnView {
            dtype: column.dtype,
            dims: &column.dims,
            data: self.bytes(&column.data),
            offsets: column
                .offsets
                .as_ref()
                .map(|range| words(self.bytes(range)).expect("checked when the batch was read")),
        }
    }

    /// Where the elements of column `i` begin, to be written only if the feed was opened for it.
    ///
    /// # Panics
    /// As [`Batch::column`].
    pub fn pointer(&self, i: usize) -> *mut u8 {
        self.memory.pointer(self.range.start + self.columns[i].data.start)
    }

    fn bytes(&self, column: &Range<usize>) -> &[u8] {
        let range = self.range.start + column.start..self.range.start + column.end;
        self.memory.bytes(range).expect("checked when the batch was read")
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.connection.release(self.slot);
    }
}
