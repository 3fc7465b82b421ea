//! What a gateway says about a feed beside its endpoints.

use serde::{Deserialize, Serialize};

use crate::SnapshotId;

/// The `app_metadata` of a `FlightInfo`, as JSON. Unknown members are ignored: a newer gateway may say
/// more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedInfo {
    pub snapshot: SnapshotId,
    /// Steps of every epoch, the remainder's included under `pad` and `keep`.
    pub steps: u64,
    /// Rows of the dataset.
    pub rows: u64,
    /// Rows of an epoch that no step holds, under `drop`.
    pub dropped: u64,
    pub lanes: u32,
}

impl FeedInfo {
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and strings are always JSON")
    }

    pub fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }
}
