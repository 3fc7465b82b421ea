//! What a feed means for the dataset as it is.
//!
//! In: a request whose own values are in order. Out: the snapshot, columns and plan that it stands for, or
//! a refusal that says which value to change. The promise: the same request over the same snapshot gives
//! the same plan in every gateway of a fleet.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use penstock_proto::{Code, Error, Feed, FeedInfo, FeedRequest, OrderRules, Rank, Remainder};

use super::Gateway;
use super::plans::Planned;
use crate::partition::Partition;
use crate::read::{Need, Pulled, ReadError, Share, Steps, plain_schema, with_valid};

/// Who reads a dataset by its name alone chose no batch size; messages are comfortable at this one.
const COMFORTABLE_BYTES: u128 = 1 << 20;
const COMFORTABLE_ROWS: u128 = 64 << 10;
/// Of a rank's share of the padded batch: which row of the remainder it is, twice while that is looked up.
const PADDED_ROW_BYTES: u64 = 12;

/// A request over a snapshot.
pub(crate) struct Resolved {
    /// With lanes and snapshot said.
    pub(crate) request: FeedRequest,
    pub(crate) planned: Arc<Planned>,
}

impl Gateway {
    /// Finds what a request asks for.
    pub(super) async fn resolve(&self, mut request: FeedRequest) -> Result<Resolved, Error> {
        let snapshot = self.catalog.snapshot(&request.feed.dataset, request.snapshot.as_ref()).await?;
        let planned = self.plans.plan(&snapshot, &request.feed).await?;
        check_start(&request, planned.plan.steps())?;
        check_rules(&request, planned.plan.rules())?;
        self.check_padding(&request, &planned)?;
        request.order_rules = Some(planned.plan.rules());
        request.feed.lanes = Some(planned.plan.lanes());
        request.snapshot = Some(planned.snapshot.id.clone());
        Ok(Resolved { request, planned })
    }

    /// A few rows can be asked to fill any batch: which row comes where must fit this gateway's memory.
    fn check_padding(&self, request: &FeedRequest, planned: &Planned) -> Result<(), Error> {
        let Feed { batch_size, remainder, .. } = request.feed;
        let is_padded = remainder == Remainder::Pad && !planned.plan.rows().is_multiple_of(batch_size);
        let share = batch_size.div_ceil(u64::from(request.world_size.get()));
        if !is_padded || share.saturating_mul(PADDED_ROW_BYTES) <= self.config.memory_bytes {
            return Ok(());
        }
        let message = format!(
            "remainder \"pad\" fills the last batch up to {batch_size} rows, which takes more than this \
             gateway's memory: lower batch_size, or choose \"keep\" or \"drop\""
        );
        Err(Error::new(Code::InvalidFeed, message))
    }

    /// All rows of a dataset in file order, in steps as large as messages are comfortable.
    pub(super) async fn resolve_whole(&self, name: &str) -> Result<Resolved, Error> {
        let Resolved { mut request, planned } = self.resolve(FeedRequest::whole(name)).await?;
        let row_bytes = planned.decoded_bytes / u128::from(planned.plan.rows().max(1));
        let rows = COMFORTABLE_BYTES.checked_div(row_bytes).unwrap_or(u128::MAX);
        request.feed.batch_size = rows.clamp(1, COMFORTABLE_ROWS) as u64;
        self.resolve(request).await
    }
}

/// A stream begins in its epoch, or at its end.
pub(super) fn check_start(request: &FeedRequest, steps: u64) -> Result<(), Error> {
    if request.start_step <= steps {
        return Ok(());
    }
    let message = format!(
        "start_step is {} but an epoch has {steps} steps: begin at a step below that, or with the next epoch",
        request.start_step
    );
    Err(Error::new(Code::InvalidFeed, message))
}

/// A step that was counted in another order holds other rows here.
pub(super) fn check_rules(request: &FeedRequest, rules: OrderRules) -> Result<(), Error> {
    let Some(said) = request.order_rules.filter(|&said| said != rules) else { return Ok(()) };
    let message = format!(
        "the feed was begun in an order of rules {said} and this gateway's release orders it by rules {rules}, so that its \
         steps hold other rows: start the feed anew, or serve it with the release that began it"
    );
    Err(Error::new(Code::InvalidFeed, message))
}

impl Resolved {
    /// The schema of the streams.
    pub(crate) fn schema(&self) -> SchemaRef {
        let schema = plain_schema(self.planned.projection.schema());
        if self.pads() { with_valid(&schema) } else { schema }
    }

    pub(crate) fn pads(&self) -> bool {
        self.request.feed.remainder == Remainder::Pad
    }

    pub(crate) fn partition(&self, rank: Rank) -> Result<Partition, Error> {
        let partition = Partition::new(&self.planned.plan, self.request.world_size, rank);
        partition.map_err(|e| Error::chain(Code::InvalidFeed, &e))
    }

    pub(crate) fn need(&self, partition: &Partition, part_bytes: u64) -> Need {
        let Planned { plan, decoded_bytes, block_bytes, .. } = self.planned.as_ref();
        Need::new(*decoded_bytes, block_bytes, plan, partition, part_bytes, 0)
    }

    /// A rank's walk through the epoch, in what was leased for its need; what is `pulled` comes from elsewhere.
    pub(crate) async fn walk(
        &self,
        partition: Partition,
        share: Share,
        pads: bool,
        pulled: Vec<Pulled>,
    ) -> Result<Steps, ReadError> {
        let FeedRequest { epoch, start_step, .. } = self.request;
        self.planned.reading(partition, share).open(epoch, start_step, pads, pulled).await
    }

    /// Bytes of so many rows, about.
    pub(crate) fn bytes_of(&self, rows: u64) -> u64 {
        let Planned { plan, decoded_bytes, .. } = self.planned.as_ref();
        let share = decoded_bytes.saturating_mul(u128::from(rows)).checked_div(u128::from(plan.rows()));
        u64::try_from(share.unwrap_or(0)).unwrap_or(u64::MAX)
    }

    pub(crate) fn info(&self) -> FeedInfo {
        let plan = &self.planned.plan;
        let vocabularies = self.request.feed.codes.iter().zip(self.planned.vocabularies.iter());
        FeedInfo {
            snapshot: self.planned.snapshot.id.clone(),
            steps: plan.steps(),
            rows: plan.rows(),
            dropped: plan.dropped(),
            lanes: plan.lanes(),
            order_rules: plan.rules(),
            mixture: Vec::new(),
            vocabularies: vocabularies.map(|(name, known)| (name.clone(), known.texts().to_vec())).collect(),
            nulls: self.planned.nulls(),
            warnings: Vec::new(),
        }
    }
}
