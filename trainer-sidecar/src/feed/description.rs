//! What a feed is, for its trainer: the JSON at the front of its ring.

use penstock_proto::{ComponentInfo, FeedInfo, OrderRules};
use serde::Serialize;

use crate::pack::PackPlan;
use crate::request::Request;

#[derive(Serialize)]
struct Description<'a> {
    version: u32,
    columns: Vec<ColumnDescription<'a>>,
    rows_per_step: u64,
    batch_size: u64,
    world_size: u32,
    rank: u32,
    steps_per_epoch: u64,
    epochs: Option<u64>,
    start: Start,
    rows: u64,
    dropped: u64,
    lanes: u32,
    #[serde(skip_serializing_if = "OrderRules::is_first")]
    order_rules: OrderRules,
    snapshot: &'a str,
    dataset: &'a str,
    remainder: String,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    mixture: &'a [ComponentInfo],
}

#[derive(Serialize)]
struct ColumnDescription<'a> {
    name: &'a str,
    dtype: &'a str,
    shape: &'a [u64],
    #[serde(skip_serializing_if = "Option::is_none")]
    splits_of: Option<&'a str>,
    /// Of a column of codes: what each stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    vocabulary: Option<&'a [String]>,
}

#[derive(Serialize)]
struct Start {
    epoch: u64,
    step: u64,
}

pub(super) fn describe(request: &Request, info: &FeedInfo, plan: &PackPlan) -> String {
    let columns = plan.columns().iter().map(|column| ColumnDescription {
        name: &column.name,
        dtype: column.dtype.name(),
        shape: &column.shape,
        splits_of: column.splits_of.as_deref(),
        vocabulary: info.vocabularies.get(&column.name).map(Vec::as_slice),
    });
    let description = Description {
        version: 1,
        columns: columns.collect(),
        rows_per_step: request.rows_per_step(),
        batch_size: request.feed.feed.batch_size,
        world_size: request.feed.world_size.get(),
        rank: request.rank.get(),
        steps_per_epoch: info.steps,
        epochs: request.epochs,
        start: Start { epoch: request.feed.epoch, step: request.feed.start_step },
        rows: info.rows,
        dropped: info.dropped,
        lanes: info.lanes,
        order_rules: info.order_rules,
        snapshot: info.snapshot.as_str(),
        dataset: &request.feed.feed.dataset,
        remainder: request.feed.feed.remainder.to_string(),
        mixture: &info.mixture,
    };
    serde_json::to_string(&description).expect("numbers and strings are always JSON")
}
