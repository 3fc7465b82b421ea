//! What a feed means for the dataset as it is.
//!
//! In: a request whose own values are in order. Out: the snapshot, columns and plan that it stands for, or
//! a refusal that says which value to change. The promise: the same request over the same snapshot gives
//! the same plan in every gateway of a fleet.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use penstock_proto::feed::VALID_COLUMN;
use penstock_proto::{Code, Error, FeedInfo, FeedRequest, Rank, Remainder};

use super::catalog::Catalog;
use crate::dataset::{Projection, Snapshot};
use crate::partition::Partition;
use crate::plan::{BlockShape, Order, Plan};
use crate::read::{Need, on_cpu, plain_schema, with_valid};

/// A feed over a snapshot.
pub(crate) struct Resolved {
    /// With lanes and snapshot said.
    pub(crate) request: FeedRequest,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) projection: Projection,
    pub(crate) shapes: Vec<BlockShape>,
    pub(crate) plan: Plan,
}

/// What [`Resolved`] makes of rows nobody chose a batch size for: messages of about this size.
const COMFORTABLE_BYTES: u64 = 1 << 20;
const COMFORTABLE_ROWS: u64 = 64 << 10;

/// Finds what a request asks for.
pub(crate) async fn resolve(catalog: &Catalog, request: FeedRequest) -> Result<Resolved, Error> {
    let snapshot = catalog.snapshot(&request.feed.dataset, request.snapshot.as_ref()).await?;
    // Work of the order of blocks times columns.
    let resolved = on_cpu(move || Resolved::new(snapshot, request)).await;
    resolved.unwrap_or_else(|panic| Err(Error::chain(Code::Internal, &panic)))
}

/// All rows of a dataset in file order, in steps as large as messages are comfortable.
pub(crate) async fn resolve_whole(catalog: &Catalog, name: &str) -> Result<Resolved, Error> {
    let mut request = FeedRequest::whole(name);
    let snapshot = catalog.snapshot(name, None).await?;
    let resolved = on_cpu(move || {
        let projection = snapshot.project(&[]).map_err(|e| Error::chain(e.code(), &e))?;
        let bytes: u128 =
            snapshot.block_shapes(&projection).iter().map(|shape| u128::from(shape.bytes)).sum();
        let row_bytes = bytes / u128::from(snapshot.rows().max(1));
        let rows = u128::from(COMFORTABLE_BYTES).checked_div(row_bytes).unwrap_or(u128::MAX);
        request.feed.batch_size = rows.clamp(1, u128::from(COMFORTABLE_ROWS)) as u64;
        Resolved::new(snapshot, request)
    })
    .await;
    resolved.unwrap_or_else(|panic| Err(Error::chain(Code::Internal, &panic)))
}

impl Resolved {
    fn new(snapshot: Arc<Snapshot>, mut request: FeedRequest) -> Result<Self, Error> {
        let feed = &request.feed;
        let projection = snapshot.project(&feed.columns).map_err(|e| Error::chain(e.code(), &e))?;
        if feed.remainder == Remainder::Pad && projection.schema().column_with_name(VALID_COLUMN).is_some() {
            let message = format!(
                "remainder \"pad\" adds a column {VALID_COLUMN:?}, but the dataset has one of that name: name \
                 the columns you want without it, or choose another remainder"
            );
            return Err(Error::new(Code::InvalidFeed, message));
        }
        let shapes = snapshot.block_shapes(&projection);
        let order = Order {
            batch_size: feed.batch_size,
            lanes: feed.lanes,
            shuffle: feed.shuffle,
            shuffle_bytes: feed.shuffle_bytes,
            seed: feed.seed,
            remainder: feed.remainder,
        };
        let plan = Plan::new(&shapes, order).map_err(|e| Error::chain(Code::InvalidFeed, &e))?;
        if request.start_step > plan.steps() {
            let message = format!(
                "start_step is {} but an epoch has {} steps: begin at a step below that, or with the next epoch",
                request.start_step,
                plan.steps()
            );
            return Err(Error::new(Code::InvalidFeed, message));
        }
        request.feed.lanes = Some(plan.lanes());
        request.snapshot = Some(snapshot.id.clone());
        Ok(Self { request, snapshot, projection, shapes, plan })
    }

    /// The schema of the streams.
    pub(crate) fn schema(&self) -> SchemaRef {
        let schema = plain_schema(self.projection.schema());
        if self.pads() { with_valid(&schema) } else { schema }
    }

    pub(crate) fn pads(&self) -> bool {
        self.request.feed.remainder == Remainder::Pad
    }

    pub(crate) fn partition(&self, rank: Rank) -> Result<Partition, Error> {
        let partition = Partition::new(&self.plan, self.request.world_size, rank);
        partition.map_err(|e| Error::chain(Code::InvalidFeed, &e))
    }

    pub(crate) fn need(&self, partition: &Partition, part_bytes: u64) -> Need {
        Need::new(&self.snapshot, &self.projection, &self.shapes, &self.plan, partition, part_bytes)
    }

    /// Bytes of so many rows, about.
    pub(crate) fn bytes_of(&self, rows: u64) -> u64 {
        let bytes: u128 = self.shapes.iter().map(|shape| u128::from(shape.bytes)).sum();
        let share = (bytes * u128::from(rows)).checked_div(u128::from(self.plan.rows())).unwrap_or(0);
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    pub(crate) fn info(&self) -> FeedInfo {
        FeedInfo {
            snapshot: self.snapshot.id.clone(),
            steps: self.plan.steps(),
            rows: self.plan.rows(),
            dropped: self.plan.dropped(),
            lanes: self.plan.lanes(),
        }
    }
}
