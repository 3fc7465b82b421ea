//! A block that is decoded before its turn.
//!
//! In: a block in line, and room for all that it holds. Out: its rows, once it is its turn. The promise: no more is
//! decoded than there is room for, what is left of a block that holds more is decoded in its turn, and who drops the block
//! ends the decoding. It does not know which block comes before it.

use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::rows::Stripe;
use super::share::Room;
use super::walked::{Chunk, Walked};
use super::{ReadError, Source};

/// A block being decoded, or decoded.
pub(super) struct Early {
    pieces: UnboundedReceiver<Piece>,
    _decoding: AbortOnDropHandle<()>,
    _room: Room,
}

/// What becomes of a block.
pub(super) enum Piece {
    Rows(Chunk),
    /// What there was no room for.
    Rest(Walked),
    Failed(ReadError),
    End,
}

impl Early {
    /// Decodes the rows of a block that `stripe` wants, up to `bytes` of them; `room` is for these and for the decoder.
    pub(super) fn new(source: &Arc<Source>, stripe: &Stripe, block: Walked, bytes: u64, room: Room) -> Self {
        let (sender, pieces) = unbounded_channel();
        let (source, stripe) = (Arc::clone(source), stripe.clone());
        let decoding = async move {
            // Who hears that it ended finds nothing held by it.
            let last = decode(source, stripe, block, bytes, &sender).await.unwrap_or_else(Piece::Failed);
            // Nobody waits for a block that was dropped.
            let _unwanted = sender.send(last);
        };
        let decoding = AbortOnDropHandle::new(tokio::spawn(decoding.in_current_span()));
        Self { pieces, _decoding: decoding, _room: room }
    }

    pub(super) async fn next(&mut self) -> Piece {
        self.pieces.recv().await.unwrap_or(Piece::Failed(ReadError::Lane))
    }
}

/// The last piece; those before it are sent.
async fn decode(
    source: Arc<Source>,
    stripe: Stripe,
    mut block: Walked,
    mut bytes: u64,
    sender: &UnboundedSender<Piece>,
) -> Result<Piece, ReadError> {
    while let Some(chunk) = block.next(&source, &stripe).await? {
        bytes = bytes.saturating_sub(chunk.bytes);
        // The next one will be about as large.
        let is_full = bytes < chunk.bytes;
        if sender.send(Piece::Rows(chunk)).is_err() {
            return Ok(Piece::End);
        }
        if is_full {
            return Ok(Piece::Rest(block));
        }
    }
    Ok(Piece::End)
}
