//! What a stream must hold in memory, told by footers before a byte is read.
//!
//! In: what blocks and rows take, a plan and a rank's partition of it. Out: the bytes that a lease must
//! cover, and the sizes that keep the stream inside it.

mod decoding;

use std::cmp::Reverse;
use std::ops::Range;
use std::thread::available_parallelism;

use parquet::arrow::arrow_reader::ArrowReaderMetadata;

use self::decoding::Chunk;
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
    /// Of these, what decoders of row groups hold.
    pub(crate) open_bytes: u64,
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

/// What decoding the blocks of a feed holds beside their rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct BlockBytes {
    /// Of every block, the largest first.
    pub(crate) held: Vec<u64>,
    /// At most, for as long as a dictionary is taken from its page; only a core does so at a time.
    pub(crate) opening: u64,
}

impl Need {
    /// `decoded_bytes` are those of all rows; a part shall stay below `part_bytes`. The stream reads so many lanes of other datasets `beside` these.
    pub(crate) fn new(
        decoded_bytes: u128,
        blocks: &BlockBytes,
        plan: &Plan,
        partition: &Partition,
        part_bytes: u64,
        beside: u64,
    ) -> Self {
        let lanes = partition.lanes().len() as u64;
        let row_bytes = decoded_bytes.div_ceil(u128::from(plan.rows().max(1)));
        let row_bytes = row_bytes.clamp(1, u128::from(u32::MAX)) as u64;
        // No more blocks are open at once than there are lanes.
        let held = blocks.held.iter().zip(0..lanes).map(|(&bytes, _)| bytes).fold(0, u64::saturating_add);
        let cores = available_parallelism().map_or(1, usize::from) as u64;
        let open_bytes = held.saturating_add(blocks.opening.saturating_mul(cores.min(lanes)));

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

        // A window ends where its lane does.
        let lane_rows = plan.rows().div_ceil(u64::from(plan.lanes()).max(1)).saturating_add(plan.steps());
        let window_rows = plan.window_rows().map(|rows| rows.min(lane_rows));
        let window_bytes = window_rows.map_or(0, |rows| rows.saturating_mul(row_bytes + PICK_BYTES));
        let part_bytes = part_bytes.max(part_rows.saturating_mul(row_bytes));
        let held = lanes.saturating_mul(batch_bytes.saturating_mul(2).saturating_add(window_bytes));
        let narrow = row_bytes.min(WIDE_BYTES as u64).max(2 * row_bytes.min(NUMBER_BYTES));
        let ordering = window_rows.map_or(0, |rows| rows.saturating_mul(narrow));
        let held = held.saturating_add(ordering);
        Self {
            open_bytes,
            bytes: held.saturating_add(open_bytes).saturating_add(part_bytes.saturating_mul(PARTS)),
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

/// What decoding holds of every block: the compressed bytes, and of every column a dictionary and a page. A filter's
/// columns are decoded beside the wanted ones, and where rows that pass and others take turns each run is remembered.
pub(crate) fn block_bytes(
    snapshot: &Snapshot,
    projection: &Projection,
    passing: Option<&Passing>,
) -> BlockBytes {
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
    let mut all = BlockBytes::default();
    for (index, block) in snapshot.blocks.iter().enumerate() {
        let file = block.file as usize;
        let footer = snapshot.files[file].footer.metadata();
        let rows = block.rows.end - block.rows.start;
        let runs = passing.map_or(0, |passing| {
            let passes = passing.counts[index];
            passes.min(rows.saturating_sub(passes))
        });
        let mut held = runs.saturating_mul(RUN_BYTES);
        for &leaf in &leaves[file] {
            let chunk = Chunk::new(footer, block.row_group as usize, leaf);
            held = held.saturating_add(chunk.stored(&block.rows)).saturating_add(chunk.kept());
            all.opening = all.opening.max(chunk.opening());
        }
        all.held.push(held);
    }
    all.held.sort_unstable_by_key(|&size| Reverse(size));
    all
}

/// What decoding some rows of a row group's column holds beside them.
pub(crate) fn decoding_bytes(
    footer: &ArrowReaderMetadata,
    row_group: usize,
    leaf: usize,
    rows: &Range<u64>,
) -> u64 {
    let chunk = Chunk::new(footer.metadata(), row_group, leaf);
    chunk.stored(rows).saturating_add(chunk.kept()).saturating_add(chunk.opening())
}

/// What is fetched for some rows of a row group's column.
pub(super) fn stored_bytes(
    footer: &ArrowReaderMetadata,
    row_group: usize,
    leaf: usize,
    rows: &Range<u64>,
) -> u64 {
    Chunk::new(footer.metadata(), row_group, leaf).stored(rows)
}
