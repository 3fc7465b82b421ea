//! Blocks whose bytes are sent for before it is their turn, and which are decoded before it where there are more cores
//! than lanes.
//!
//! In: the blocks of a stretch, in order, and room for their bytes. Out: each in its turn, its bytes on their way.
//! The promise: nobody waits for what comes ahead before its turn, what goes wrong there is told in its turn only,
//! and who drops the block ends the fetching.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::thread::available_parallelism;

use bytes::Bytes;
use parquet::arrow::arrow_reader::RowSelection;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::decode::{Decoder, Next};
use super::early::{Early, Piece};
use super::rows::Stripe;
use super::share::Room;
use super::shared::Open;
use super::source::Place;
use super::walked::{Chunk, Walked};
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

/// Blocks in line, the next one first.
pub(super) struct Ahead {
    line: VecDeque<Waiting>,
    /// How many of them may be decoded.
    early: usize,
}

/// A block in line.
enum Waiting {
    /// With the bytes that were sent for it here.
    Closed(Block, u64),
    Early(Early),
}

/// A block whose turn it is.
pub(super) enum Turn {
    Now(Walked),
    Early(Early),
}

impl Ahead {
    /// Of one of so many lanes that are read together.
    pub(super) fn new(lanes: u64) -> Self {
        let cores = available_parallelism().map_or(1, usize::from) as u64;
        let early = if lanes < cores { cores.div_ceil(lanes.max(1)) } else { 0 };
        Self { line: VecDeque::new(), early: early as usize }
    }

    /// The next block, if it is in line.
    pub(super) fn pop(&mut self) -> Option<Turn> {
        Some(match self.line.pop_front()? {
            Waiting::Closed(block, _) => Turn::Now(Walked::new(block)),
            Waiting::Early(early) => Turn::Early(early),
        })
    }

    /// Whether it pays to send for another block.
    pub(super) fn has_place(&self) -> bool {
        let bytes = self.line.iter().map(|waiting| match waiting {
            Waiting::Closed(_, bytes) => *bytes,
            Waiting::Early(_) => 0,
        });
        self.line.len() < self.early.max(BLOCKS) && bytes.sum::<u64>() < BYTES
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
            self.line.push_back(Waiting::Closed(block, bytes));
        }
        is_cared_for
    }

    /// Begins to decode the first blocks in line, as far as there is room for all of each.
    pub(super) fn decode(&mut self, source: &Arc<Source>, stripe: &Stripe) {
        for place in 0..self.early.min(self.line.len()) {
            let Waiting::Closed(block, _) = &self.line[place] else { continue };
            let decoded = source.decoded_bytes(&block.place);
            let Some(room) = source.share().room(decoded.saturating_add(source.open_bytes(&block.place)))
            else {
                return;
            };
            if let Some(Waiting::Closed(block, _)) = self.line.remove(place) {
                let early = Early::new(source, stripe, Walked::new(block), decoded, room);
                self.line.insert(place, Waiting::Early(early));
            }
        }
    }
}

impl Turn {
    /// The next rows that `stripe` wants; never an empty batch.
    pub(super) async fn next(
        self,
        source: &Arc<Source>,
        stripe: &Stripe,
    ) -> Result<(Self, Option<Chunk>), ReadError> {
        let mut block = match self {
            Self::Now(block) => block,
            Self::Early(mut early) => match early.next().await {
                Piece::Rows(chunk) => return Ok((Self::Early(early), Some(chunk))),
                Piece::End => return Ok((Self::Early(early), None)),
                Piece::Failed(error) => return Err(error),
                Piece::Rest(block) => block,
            },
        };
        let chunk = block.next(source, stripe).await?;
        Ok((Self::Now(block), chunk))
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
