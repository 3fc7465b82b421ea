//! Blocks whose bytes are sent for before it is their turn.
//!
//! In: the blocks of a stretch, in order, and room for their bytes. Out: each in its turn, its bytes on their way.
//! The promise: nobody waits for what comes ahead before its turn, what goes wrong there is told in its turn only,
//! and who drops the block ends the fetching. It decodes nothing: it asks a decoder what it would need.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parquet::arrow::arrow_reader::RowSelection;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::decode::{Decoder, Next};
use super::share::Room;
use super::shared::Open;
use super::source::Place;
use super::{ReadError, Source, cpu, fetch};

/// Blocks of one lane that are sent for: small ones take as long for their way as for their bytes.
const BLOCKS: usize = 4;
/// Bytes of them, unless a single block has more.
const BYTES: u64 = 16 << 20;

/// A block whose turn comes.
pub(super) struct Block {
    pub(super) place: Place,
    /// Where its first row lies in the stretch.
    pub(super) position: u64,
    pub(super) open: Arc<Open>,
}

/// Bytes on their way.
pub(super) struct Coming {
    fetched: AbortOnDropHandle<Option<Fetched>>,
    _room: Room,
}

/// Ranges of a file, and their bytes.
type Fetched = (Vec<Range<u64>>, Result<Vec<Bytes>, ReadError>);

/// Blocks in line with the bytes that were sent for them here, the next one first.
#[derive(Default)]
pub(super) struct Ahead(VecDeque<(Block, u64)>);

impl Ahead {
    /// The next block, if it is in line.
    pub(super) fn pop(&mut self) -> Option<Block> {
        self.0.pop_front().map(|(block, _)| block)
    }

    /// Whether it pays to send for another block.
    pub(super) fn has_place(&self) -> bool {
        let bytes: u64 = self.0.iter().map(|(_, bytes)| bytes).sum();
        self.0.len() < BLOCKS && bytes < BYTES
    }

    /// Puts a block in line and sends for what a decoder of it will ask for first, unless others did or it is
    /// decoded. False if there is no room.
    pub(super) fn push(&mut self, source: &Arc<Source>, block: Block) -> bool {
        let (index, mut bytes) = (block.first_chunk(), 0);
        let is_cared_for = block.open.send_for(index, || {
            let room = source.share().room(source.stored_bytes(&block.place))?;
            bytes = room.bytes();
            let rows = source.selection(&block.place, block.open.grid().chunk(index).start);
            let fetching = fetch_first(Arc::clone(source), block.place.clone(), rows);
            let fetched = AbortOnDropHandle::new(tokio::spawn(fetching.in_current_span()));
            Some(Coming { fetched, _room: room })
        });
        if is_cared_for {
            self.0.push_back((block, bytes));
        }
        is_cared_for
    }
}

impl Block {
    fn first_chunk(&self) -> u64 {
        self.place.rows.start / self.open.grid().chunk_rows
    }
}

impl Coming {
    /// The bytes, if they are those of `ranges`. They are the open block's from now on, as is the room they take.
    pub(super) async fn take(self, ranges: &[Range<u64>]) -> Option<Result<Vec<Bytes>, ReadError>> {
        let (fetched, bytes) = self.fetched.await.ok()??;
        (fetched == ranges).then_some(bytes)
    }
}

/// `None` if a decoder has no question: whatever that is, it is seen again in the block's turn.
async fn fetch_first(source: Arc<Source>, place: Place, rows: Option<RowSelection>) -> Option<Fetched> {
    let wanted = source.wanted(&place, rows);
    // Its batches are of no concern: it never gives one.
    let scout = cpu::run(move || Decoder::new(wanted, 1).and_then(|mut scout| scout.next()));
    let Ok(Ok(Next::Needs(ranges))) = scout.await else { return None };
    let bytes = fetch(source.file(&place), &ranges).await;
    Some((ranges, bytes))
}
