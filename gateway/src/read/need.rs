//! What a stream must hold in memory, told by footers before a byte is read.
//!
//! In: what blocks and rows take, a plan and a rank's partition of it. Out: the bytes that a lease must
//! cover, and the sizes that keep the stream inside it.

use std::cmp::Reverse;

use parquet::basic::Compression;
use parquet::file::metadata::RowGroupMetaData;

use super::Passing;
use super::gather::WIDE_BYTES;
use crate::dataset::{Projection, Snapshot};
use crate::partition::Partition;
use crate::plan::Plan;

/// Decoded batches that all lanes of a stream hold together, about, beside their windows.
const BATCHES_BYTES: u64 = 16 << 20;
/// A smaller batch costs more to hand about than it saves.
const MIN_BATCH_BYTES: u64 = 64 << 10;
/// The largest of numbers, of whose columns a window being put in order holds two more.
const NUMBER_BYTES: u64 = 32;
/// Beyond this a batch gains nothing by more rows.
const MAX_BATCH_ROWS: u64 = 64 << 10;
/// A place in a window's permutation: which batch, which row.
const PICK_BYTES: u64 = 8;
/// A decompressed page that the decoder keeps of every column, at most about: writers aim at 1 MiB.
const PAGE_BYTES: u64 = 1 << 20;
/// A run of rows that pass, and the one that does not, each held twice while selections are joined.
const RUN_BYTES: u64 = 64;
/// Parts that a stream holds beside its lanes: one gathered, one encoded, two queued for the socket. Rows that are sent
/// as they lie are not held twice; what they keep of their lanes' earlier batches is held instead.
const PARTS: u64 = 4;

/// The sizes of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Need {
    /// Bytes it cannot do without: of every lane what its decoder holds and two batches, a window
    /// where there are windows, a narrow column of the one that is put in order, of numbers two, and the parts on their way out.
    pub(crate) bytes: u64,
    /// Bytes of one window of a lane; 0 without windows. One more lets a lane decode ahead.
    pub(crate) window_bytes: u64,
    /// Whether lanes are read window by window.
    pub(crate) has_windows: bool,
    /// Lanes that are read.
    pub(crate) lanes: u64,
    /// Decoded bytes of a row, about.
    pub(crate) row_bytes: u64,
    /// Decoded bytes of one batch of a lane.
    pub(crate) batch_bytes: u64,
    /// Rows of one batch of a lane.
    pub(crate) batch_rows: usize,
    /// Rows of one part of a step.
    pub(crate) part_rows: u64,
    /// Bytes of the queue to the socket.
    pub(crate) queue_bytes: u64,
}

impl Need {
    /// `decoded_bytes` are those of all rows; `block_bytes` what decoding a block holds, the largest first;
    /// a part shall stay below `part_bytes`. The stream reads so many lanes of other datasets `beside` these.
    pub(crate) fn new(
        decoded_bytes: u128,
        block_bytes: &[u64],
        plan: &Plan,
        partition: &Partition,
        part_bytes: u64,
        beside: u64,
    ) -> Self {
        let lanes = partition.lanes().len() as u64;
        let row_bytes = decoded_bytes.div_ceil(u128::from(plan.rows().max(1)));
        let row_bytes = row_bytes.clamp(1, u128::from(u32::MAX)) as u64;
        // No more blocks are open at once than there are lanes.
        let open = block_bytes.iter().zip(0..lanes).map(|(&bytes, _)| bytes).fold(0, u64::saturating_add);

        let step_rows = partition.rows_per_step();
        let part_rows = part_rows(step_rows, step_rows.saturating_mul(row_bytes), part_bytes);

        let batch_bytes =
            (BATCHES_BYTES / (lanes + beside)).clamp(MIN_BATCH_BYTES, part_bytes.max(MIN_BATCH_BYTES));
        let fitting = (batch_bytes / row_bytes).clamp(1, MAX_BATCH_ROWS);
        // Batches that end where steps or parts end spare joining them.
        let grain = if lanes == 1 { part_rows } else { step_rows.div_ceil(lanes) };
        let batch_rows = match fitting.checked_rem(grain) {
            Some(odd) if fitting > grain => fitting - odd,
            _ if lanes == 1 => grain,
            _ => fitting,
        };
        let batch_bytes = batch_rows.saturating_mul(row_bytes).max(batch_bytes);

        let window_bytes = plan.window_rows().map_or(0, |rows| rows.saturating_mul(row_bytes + PICK_BYTES));
        let part_bytes = part_bytes.max(part_rows.saturating_mul(row_bytes));
        let held = lanes.saturating_mul(batch_bytes.saturating_mul(2).saturating_add(window_bytes));
        let narrow = row_bytes.min(WIDE_BYTES as u64).max(2 * row_bytes.min(NUMBER_BYTES));
        let ordering = plan.window_rows().map_or(0, |rows| rows.saturating_mul(narrow));
        let held = held.saturating_add(ordering);
        Self {
            bytes: held.saturating_add(open).saturating_add(part_bytes.saturating_mul(PARTS)),
            window_bytes,
            has_windows: plan.window_rows().is_some(),
            lanes,
            row_bytes,
            batch_bytes,
            batch_rows: usize::try_from(batch_rows).unwrap_or(usize::MAX),
            part_rows,
            queue_bytes: part_bytes.saturating_mul(2),
        }
    }
}

/// Rows of one part of a step of so many rows and bytes, if a part shall stay below `part_bytes`.
pub(crate) fn part_rows(rows: u64, bytes: u64, part_bytes: u64) -> u64 {
    // An eighth below the limit, for estimates err and headers have a size.
    let target = (part_bytes - part_bytes / 8).max(1);
    rows.div_ceil(bytes.div_ceil(target).clamp(1, rows))
}

/// What decoding holds of every block, the largest first: the compressed bytes, and of every compressed column
/// a page and, with a dictionary, that. A filter's columns are decoded beside the wanted ones, and where rows that
/// pass and others take turns each run is remembered.
pub(crate) fn block_bytes(
    snapshot: &Snapshot,
    projection: &Projection,
    passing: Option<&Passing>,
) -> Vec<u64> {
    let leaves: Vec<_> = snapshot
        .files
        .iter()
        .map(|file| {
            let mut leaves = projection.leaves(&file.footer);
            leaves.extend(passing.iter().flat_map(|passing| passing.filter.leaves(&file.footer)));
            leaves.sort_unstable();
            leaves.dedup();
            leaves
        })
        .collect();
    let mut sizes: Vec<u64> = snapshot
        .blocks
        .iter()
        .enumerate()
        .map(|(index, block)| {
            let file = block.file as usize;
            let group = snapshot.files[file].footer.metadata().row_group(block.row_group as usize);
            let rows = block.rows.end - block.rows.start;
            let held = leaves[file].iter().map(|&leaf| decoding_bytes(group, leaf, rows));
            let runs = passing.map_or(0, |passing| {
                let (passes, rows) = (passing.counts[index], block.rows.end - block.rows.start);
                passes.min(rows.saturating_sub(passes))
            });
            held.fold(runs.saturating_mul(RUN_BYTES), u64::saturating_add)
        })
        .collect();
    sizes.sort_unstable_by_key(|&size| Reverse(size));
    sizes
}

/// What decoding some rows of a row group's column holds beside them.
pub(super) fn decoding_bytes(group: &RowGroupMetaData, leaf: usize, rows: u64) -> u64 {
    let column = group.column(leaf);
    let pages = match column.compression() {
        Compression::UNCOMPRESSED => 0,
        _ => unsigned(column.uncompressed_size()).min(2 * PAGE_BYTES),
    };
    stored_bytes(group, leaf, rows).saturating_add(pages)
}

/// What some rows of a row group's column take where they are stored, about.
pub(super) fn stored_bytes(group: &RowGroupMetaData, leaf: usize, rows: u64) -> u64 {
    let all = u128::try_from(group.num_rows()).unwrap_or(0);
    let stored = unsigned(group.column(leaf).compressed_size());
    (u128::from(stored) * u128::from(rows)).checked_div(all).unwrap_or(0) as u64
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
