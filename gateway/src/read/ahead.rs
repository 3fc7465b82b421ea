//! Blocks whose bytes are sent for before it is their turn.
//!
//! In: the blocks of a stretch, in order. Out: each in its turn, with its bytes or on their way. The promise: what
//! comes ahead is leased for, as far as another stream would still find room, and what goes wrong ahead goes wrong
//! in its turn only. It decodes nothing: it asks a decoder what it would need.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parquet::arrow::arrow_reader::RowSelection;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::decode::{Decoder, Next};
use super::share::Room;
use super::source::Place;
use super::{ReadError, Source, cpu, fetch};

/// Blocks of one lane that are sent for: small ones take as long for their way as for their bytes.
const BLOCKS: usize = 4;
/// Bytes of them, unless a single block has more.
const BYTES: u64 = 16 << 20;

/// Rows that are wanted of one block.
pub(super) struct Block {
    pub(super) place: Place,
    /// `None` wants all rows of the row group.
    pub(super) rows: Option<RowSelection>,
    /// How many they are.
    pub(super) owed: u64,
}

/// Bytes on their way.
pub(super) struct Coming {
    ranges: Vec<Range<u64>>,
    bytes: AbortOnDropHandle<Result<Vec<Bytes>, ReadError>>,
    room: Room,
}

/// Blocks in line, the next one first.
#[derive(Default)]
pub(super) struct Ahead(VecDeque<(Block, Option<Coming>)>);

impl Ahead {
    /// The next block, if one was looked at already.
    pub(super) fn pop(&mut self) -> Option<(Block, Option<Coming>)> {
        self.0.pop_front()
    }

    /// Whether it pays to send for another block.
    pub(super) fn has_place(&self) -> bool {
        let bytes: u64 = self.0.iter().flat_map(|(_, coming)| coming).map(|coming| coming.room.bytes()).sum();
        self.0.len() < BLOCKS && bytes < BYTES
    }

    /// Puts a block in line and sends for what a decoder of it would ask for first.
    pub(super) async fn push(&mut self, source: &Arc<Source>, room: Room, block: Block) {
        let wanted = source.wanted(&block.place, block.rows.clone());
        // Its batches are of no concern: it never gives one.
        let scout = cpu::run(move || Decoder::new(wanted, 1).and_then(|mut scout| scout.next()));
        let coming = match scout.await {
            Ok(Ok(Next::Needs(ranges))) => Some(Coming::send(source, room, &block.place, ranges)),
            // Whatever this is, it is seen again in the block's turn.
            _ => None,
        };
        self.0.push_back((block, coming));
    }
}

impl Coming {
    fn send(source: &Arc<Source>, room: Room, place: &Place, ranges: Vec<Range<u64>>) -> Self {
        let (source, place, wanted) = (Arc::clone(source), place.clone(), ranges.clone());
        let fetching = async move { fetch(source.file(&place), &wanted).await };
        let bytes = AbortOnDropHandle::new(tokio::spawn(fetching.in_current_span()));
        Self { ranges, bytes, room }
    }

    /// The bytes, if they are those of `ranges`. What they hold is the open block's from now on.
    pub(super) async fn take(self, ranges: &[Range<u64>]) -> Option<Result<Vec<Bytes>, ReadError>> {
        if self.ranges != ranges {
            return None;
        }
        self.bytes.await.ok()
    }
}
