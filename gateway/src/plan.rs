//! The order of an epoch: which row is fed when.
//!
//! In: the rows and bytes of every block, and the order a feed asks for. Out: steps, lanes, windows, and
//! for any stretch of a lane the rows of the blocks behind it. The promise: every row exactly once an
//! epoch, and the same inputs give the same order on any machine and in any release. Nothing here reads
//! a file, a clock, an environment or the number of anything that runs.
//!
//! # The order, in integers
//! N rows, a global batch of B, L lanes, S = ⌊N/B⌋ whole steps, q(ℓ) = ⌊ℓB/L⌋.
//! 1. Blocks that hold rows are laid end to end, permuted by (seed, epoch) unless `shuffle` is `none`.
//!    That is the epoch's *sequence*.
//! 2. N mod B neighbours of the sequence are the remainder; they are in no lane and no window. Under `pad` and `keep`,
//!    and in file order, they are its last. Under `drop` of a shuffled feed they begin anywhere, drawn from [0, N) by
//!    (seed, epoch), the sequence taken as a ring: each row is left out as often as any other, however few blocks there
//!    are, and at most one block is entered twice.
//! 3. Lane ℓ is the stretch [S·q(ℓ), S·q(ℓ+1)) of the rest. Step t is made of each lane's t-th run of
//!    q(ℓ+1) − q(ℓ) rows, lanes in order.
//! 4. Under `rows`, the rows of a lane are first permuted inside consecutive windows.
//!
//! L and the windows, where a feed does not set them, follow from the batch, the blocks and `shuffle_bytes`
//! (module `cut`); permutations from hashes of numbers (module `random`). A test pins both.
//!
//! Several datasets fed as one are plans of their own, walked side by side (module `mixture`).
//!
//! The world size appears nowhere: a rank's share of a step is cut in [`crate::partition`].

mod cut;
mod epoch;
mod mixture;
mod quality;
mod random;
#[cfg(test)]
pub(crate) mod tests;

use penstock_proto::{Feed, OrderRules, Remainder, Shuffle};

pub(crate) use self::cut::Cut;
pub use self::epoch::{BlockRange, EpochPlan, Window};
pub use self::mixture::{BatchTooSmall, MixturePlan, Quotas, Turns};
pub use self::quality::{Quality, RANDOM_DISTANCE};
pub(crate) use self::random::component_seed;

/// What the plan must know of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockShape {
    pub rows: u64,
    /// Bytes of the wanted columns once decoded; an estimate, but the same one everywhere.
    pub bytes: u64,
}

/// The part of a feed that decides its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// Rows of a global batch.
    pub batch_size: u64,
    /// `None` lets the plan choose.
    pub lanes: Option<u32>,
    pub shuffle: Shuffle,
    /// Bytes that all windows of the feed may hold together.
    pub shuffle_bytes: u64,
    pub seed: u64,
    pub remainder: Remainder,
}

impl From<&Feed> for Order {
    fn from(feed: &Feed) -> Self {
        Self {
            batch_size: feed.batch_size,
            lanes: feed.lanes,
            shuffle: feed.shuffle,
            shuffle_bytes: feed.shuffle_bytes,
            seed: feed.seed,
            remainder: feed.remainder,
        }
    }
}

/// Why blocks and an order make no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("batch_size is 0: a step needs at least one row")]
    EmptyBatch,
    #[error("lanes is {lanes}: it must lie between 1 and the global batch of {batch_size} rows")]
    Lanes { lanes: u32, batch_size: u64 },
    #[error(
        "lanes is {lanes} but shuffle is \"none\", which is file order in one lane: leave \"lanes\" out, or \
         set shuffle to \"blocks\" or \"rows\""
    )]
    LanesInFileOrder { lanes: u32 },
    #[error("the dataset has more than 2^32 - 1 blocks or 2^64 - 1 rows: feed it in parts")]
    TooLarge,
}

/// The order of every epoch of a feed. Making one costs O(blocks); it holds 16 bytes a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    cut: Cut,
    shuffle: Shuffle,
    seed: u64,
    /// Number and rows of every block that holds rows, in file order.
    blocks: Vec<(u32, u64)>,
}

impl Plan {
    /// # Errors
    /// When the batch is empty, when the lanes asked for do not fit it, or when numbers overflow.
    pub fn new(blocks: &[BlockShape], order: Order) -> Result<Self, PlanError> {
        let cut = Cut::new(blocks, order)?;
        let blocks = blocks
            .iter()
            .zip(0u32..)
            .filter(|(shape, _)| shape.rows > 0)
            .map(|(shape, block)| (block, shape.rows))
            .collect();
        Ok(Self { cut, shuffle: order.shuffle, seed: order.seed, blocks })
    }

    /// Steps of every epoch, the remainder's included under `pad` and `keep`.
    pub fn steps(&self) -> u64 {
        self.cut.steps()
    }

    /// Rows of the dataset.
    pub fn rows(&self) -> u64 {
        self.cut.rows
    }

    /// Rows of an epoch that no step holds, under `drop`.
    pub fn dropped(&self) -> u64 {
        self.cut.dropped()
    }

    /// Rows of a global batch.
    pub fn batch_size(&self) -> u64 {
        self.cut.batch_size
    }

    /// What positions count in.
    pub fn rules(&self) -> OrderRules {
        if self.drops_others_every_epoch() { OrderRules::DROP_BY_EPOCH } else { OrderRules::FIRST }
    }

    pub fn lanes(&self) -> u32 {
        self.cut.lanes
    }

    /// Rows of a whole window of one lane; `None` unless rows are shuffled.
    pub fn window_rows(&self) -> Option<u64> {
        self.cut.window_rows
    }

    /// The order of one epoch. Costs O(blocks).
    pub fn epoch(&self, epoch: u64) -> EpochPlan {
        EpochPlan::new(self, epoch)
    }

    pub(crate) fn cut(&self) -> Cut {
        self.cut
    }

    fn drops_others_every_epoch(&self) -> bool {
        self.shuffle != Shuffle::None && self.dropped() > 0
    }
}
