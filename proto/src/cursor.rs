//! Where a feed stands.

use serde::{Deserialize, Serialize};

use crate::SnapshotId;

/// The exact position of a feed: the next step to be read. Resuming at it repeats nothing and skips
/// nothing, at any world size, as long as batch size and lanes stay those of the feed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cursor {
    pub snapshot: SnapshotId,
    pub seed: u64,
    pub epoch: u64,
    pub step: u64,
}
