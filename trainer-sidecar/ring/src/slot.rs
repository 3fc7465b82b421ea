//! What lies at the start of a slot: whose batch it is and where its columns are.
//!
//! ```text
//!  0      8      16    24    32     40 … 64        64 + 96·columns          128·n
//!  magic  epoch  step  rows  bytes  0 …  column table …  padding  column 0 …  column 1 …
//!  count
//!                                        dtype ndim dims[8] offsets data bytes
//! ```
//!
//! *In:* header, specifications and layout, or the bytes of a slot. *Out:* bytes, or header and
//! column places. *Promise:* what [`read`] returns lies inside the slot, is as large as its shape
//! says, is aligned, and has ascending offsets, whatever the bytes were. *Knows nothing* of who
//! writes when.

use std::ops::Range;

use crate::dtype::DType;
use crate::layout::{COLUMN_ALIGN, COLUMN_ENTRY, ColumnSpec, MAX_DIMS, SLOT_HEADER, SlotLayout};
use crate::map::words;

const MAGIC: u32 = u32::from_le_bytes(*b"PSLT");
/// Set beside the number of dimensions of a column whose rows are its own.
const OWN_ROWS: u32 = 1 << 31;

/// Which batch a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The pass over the dataset.
    pub epoch: u64,
    /// The batch's step in its epoch.
    pub step: u64,
    /// Rows of this rank's share; zero is possible in a short last batch.
    pub rows: u64,
}

/// A slot's content contradicts itself. It is the sidecar's mistake, or damaged memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a batch in shared memory is damaged: {what} of column {column:?} is {value}")]
pub struct SlotError {
    /// The field that cannot be.
    pub what: &'static str,
    /// The column, unless it is the header's own field.
    pub column: Option<usize>,
    /// Its value.
    pub value: u64,
}

/// A column as a checked slot has it; ranges are relative to the slot.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) dtype: DType,
    pub(crate) dims: Vec<u64>,
    pub(crate) offsets: Option<Range<usize>>,
    pub(crate) data: Range<usize>,
}

/// Writes header and column table to the front of a slot that is at least `layout.bytes()` long.
pub(crate) fn write(slot: &mut [u8], header: BatchHeader, columns: &[ColumnSpec], layout: &SlotLayout) {
    slot[..SLOT_HEADER as usize].fill(0);
    slot[..4].copy_from_slice(&MAGIC.to_le_bytes());
    slot[4..8].copy_from_slice(&(columns.len() as u32).to_le_bytes());
    for (i, value) in [header.epoch, header.step, header.rows, layout.bytes()].into_iter().enumerate() {
        put(slot, 8 + 8 * i, value);
    }
    for (i, (spec, place)) in columns.iter().zip(layout.places()).enumerate() {
        let entry = &mut slot[(SLOT_HEADER + COLUMN_ENTRY * i as u64) as usize..][..COLUMN_ENTRY as usize];
        entry.fill(0);
        entry[..4].copy_from_slice(&spec.dtype.wire().to_le_bytes());
        let own_rows = if spec.own_rows { OWN_ROWS } else { 0 };
        entry[4..8].copy_from_slice(&(spec.dims.len() as u32 | own_rows).to_le_bytes());
        for (d, &dim) in spec.dims.iter().enumerate() {
            put(entry, 8 + 8 * d, dim);
        }
        let tail = 8 + 8 * MAX_DIMS;
        put(entry, tail, place.offsets.as_ref().map_or(0, |range| range.start));
        put(entry, tail + 8, place.data.start);
        put(entry, tail + 16, place.data.end - place.data.start);
    }
}

/// Reads and checks a slot. Every field is copied out before it is checked, so that a later change of
/// the shared bytes cannot make a checked value wrong.
pub(crate) fn read(slot: &[u8]) -> Result<(BatchHeader, Vec<Column>), SlotError> {
    let wrong = |what, value| SlotError { what, column: None, value };
    let head = slot.get(..SLOT_HEADER as usize).ok_or(wrong("length", slot.len() as u64))?.to_vec();
    let magic = half(&head, 0);
    if magic != MAGIC {
        return Err(wrong("magic", magic.into()));
    }
    let count = u64::from(half(&head, 4));
    let table_end = SLOT_HEADER + COLUMN_ENTRY * count;
    let table =
        slot.get(SLOT_HEADER as usize..table_end as usize).ok_or(wrong("column count", count))?.to_vec();
    let header = BatchHeader { epoch: word(&head, 8), step: word(&head, 16), rows: word(&head, 24) };
    let columns = table
        .chunks_exact(COLUMN_ENTRY as usize)
        .enumerate()
        .map(|(i, entry)| {
            column(slot, entry, table_end, header.rows).map_err(|(what, value)| SlotError {
                what,
                column: Some(i),
                value,
            })
        })
        .collect::<Result<_, _>>()?;
    Ok((header, columns))
}

fn column(slot: &[u8], entry: &[u8], table_end: u64, rows: u64) -> Result<Column, (&'static str, u64)> {
    let wire = half(entry, 0);
    let dtype = DType::from_wire(wire).ok_or(("type", wire.into()))?;
    let own_rows = half(entry, 4) & OWN_ROWS != 0;
    let ndim = (half(entry, 4) & !OWN_ROWS) as usize;
    if ndim == 0 || ndim > MAX_DIMS {
        return Err(("number of dimensions", ndim as u64));
    }
    let dims: Vec<u64> = (0..ndim).map(|d| word(entry, 8 + 8 * d)).collect();
    if dims[0] != rows && !own_rows {
        return Err(("rows", dims[0]));
    }
    let tail = 8 + 8 * MAX_DIMS;
    let (offsets, start, bytes) = (word(entry, tail), word(entry, tail + 8), word(entry, tail + 16));
    let spec = ColumnSpec { dtype, dims, bytes, own_rows };
    let elements = spec.elements().filter(|&n| n < i64::MAX as u64 / 16).ok_or(("shape", rows))?;
    let data = inside(slot, start, bytes, table_end).ok_or(("data place", start))?;
    let offsets = match dtype.size() {
        Some(size) if elements.checked_mul(size) == Some(bytes) => None,
        Some(_) => return Err(("data bytes", bytes)),
        None => {
            let range =
                inside(slot, offsets, (elements + 1) * 8, table_end).ok_or(("offsets place", offsets))?;
            check_offsets(words(&slot[range.clone()]).ok_or(("offsets place", offsets))?, bytes)?;
            Some(range)
        }
    };
    Ok(Column { dtype, dims: spec.dims, offsets, data })
}

/// Offsets start at 0, never fall, and end within the data.
fn check_offsets(offsets: &[i64], bytes: u64) -> Result<(), (&'static str, u64)> {
    let (first, last) = (*offsets.first().unwrap_or(&0), *offsets.last().unwrap_or(&0));
    // A loop without a way out takes a fraction of the time.
    let rising = offsets.windows(2).fold(true, |rising, pair| rising & (pair[0] <= pair[1]));
    if first != 0 {
        return Err(("offset", first as u64));
    }
    if !rising {
        let fall = offsets.windows(2).find(|pair| pair[0] > pair[1]).map_or(0, |pair| pair[1]);
        return Err(("offset", fall as u64));
    }
    if last as u64 > bytes {
        return Err(("last offset", last as u64));
    }
    Ok(())
}

fn inside(slot: &[u8], start: u64, bytes: u64, table_end: u64) -> Option<Range<usize>> {
    let end = start.checked_add(bytes)?;
    (start >= table_end && start.is_multiple_of(COLUMN_ALIGN) && end <= slot.len() as u64)
        .then_some(start as usize..end as usize)
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[cfg(test)]
mod tests;
