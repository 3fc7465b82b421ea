//! What a gateway says about a feed beside its endpoints.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{OrderRules, SnapshotId};

/// The `app_metadata` of a `FlightInfo`, as JSON. Unknown members are ignored: a newer gateway may say
/// more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedInfo {
    pub snapshot: SnapshotId,
    /// Steps of every epoch, the remainder's included under `pad` and `keep`.
    pub steps: u64,
    /// Rows of the dataset; of a mixture, those of all its datasets.
    pub rows: u64,
    /// Rows of an epoch that no step holds, under `drop`; of a mixture, those of an epoch of each dataset's own.
    pub dropped: u64,
    /// Of a mixture, those of all its datasets.
    pub lanes: u32,
    /// What steps of this feed count in.
    #[serde(default, skip_serializing_if = "OrderRules::is_first")]
    pub order_rules: OrderRules,
    /// What a mixture is made of, in the order of names; empty for a dataset.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mixture: Vec<ComponentInfo>,
    /// What codes stand for, by column: texts in rising order of their UTF-8, the first of code 0.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vocabularies: BTreeMap<String, Vec<String>>,
    /// Columns that hold nulls, as far as statistics tell without reading; nothing follows of a column that is not here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nulls: BTreeMap<String, NullsInfo>,
    /// What is not wrong with the feed and may become its trainers' trouble, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A file in which a column holds nulls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NullsInfo {
    pub file: String,
    /// In that file.
    pub count: u64,
}

/// What a gateway says about a dataset of a mixture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentInfo {
    pub dataset: String,
    pub rows: u64,
    /// Of every global batch.
    pub rows_per_batch: u64,
    /// Steps in which each of its rows comes once, but for fewer than `rows_per_batch`.
    pub steps: u64,
}

impl FeedInfo {
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and strings are always JSON")
    }

    pub fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }
}
