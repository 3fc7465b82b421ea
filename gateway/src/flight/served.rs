//! What a request is answered with: a dataset, or several fed as one.
//!
//! In: a request. Out: what clients are told, what a rank's stream must hold, and its walk through the epoch. The
//! promise: whoever tells, leases and sends need not ask which of the two it is.

use arrow::datatypes::SchemaRef;
use penstock_proto::{Effort, Error, FeedInfo, FeedRequest, Rank};

use super::Gateway;
use super::mixed::Mixed;
use super::resolve::Resolved;
use crate::read::{Gathered, MixedSteps, Need, Pulled, ReadError, Share, Steps};

/// A request over what was found.
pub(super) enum Served {
    Dataset(Resolved),
    Mixture(Mixed),
}

/// A rank's walk through an epoch.
pub(super) enum Walk {
    Dataset(Steps),
    Mixture(MixedSteps),
}

impl Gateway {
    /// Finds what a request asks for.
    pub(super) async fn find(&self, request: FeedRequest) -> Result<Served, Error> {
        match request.feed.mixture.clone() {
            None => self.resolve(request).await.map(Served::Dataset),
            Some(mixture) => self.mix(request, mixture).await.map(Served::Mixture),
        }
    }
}

impl Served {
    /// With lanes and snapshot said.
    pub(super) fn request(&self) -> &FeedRequest {
        match self {
            Self::Dataset(resolved) => &resolved.request,
            Self::Mixture(mixed) => &mixed.request,
        }
    }

    /// The schema of the streams.
    pub(super) fn schema(&self) -> SchemaRef {
        match self {
            Self::Dataset(resolved) => resolved.schema(),
            Self::Mixture(mixed) => mixed.schema.clone(),
        }
    }

    /// Steps of every epoch.
    pub(super) fn steps(&self) -> u64 {
        match self {
            Self::Dataset(resolved) => resolved.planned.plan.steps(),
            Self::Mixture(mixed) => mixed.plan.steps(),
        }
    }

    /// Rows that a rank gets from the step on that the request begins with.
    pub(super) fn rows_left(&self, rank: Rank) -> Result<u64, Error> {
        let from = self.request().start_step;
        match self {
            Self::Dataset(resolved) => Ok(resolved.partition(rank)?.rows_from(from)),
            Self::Mixture(mixed) => Ok(mixed.rows_from(rank, from)),
        }
    }

    /// Bytes of so many rows, about.
    pub(super) fn bytes_of(&self, rows: u64) -> u64 {
        match self {
            Self::Dataset(resolved) => resolved.bytes_of(rows),
            Self::Mixture(mixed) => mixed.bytes_of(rows),
        }
    }

    /// Bytes of a rank's rows of a step, about.
    pub(super) fn step_bytes(&self, rank: Rank) -> Result<u64, Error> {
        match self {
            Self::Dataset(resolved) => Ok(resolved.bytes_of(resolved.partition(rank)?.rows_per_step())),
            Self::Mixture(mixed) => Ok(mixed.step_bytes(rank)),
        }
    }

    /// What tickets carry of what was counted.
    pub(super) fn counts(&self) -> Option<String> {
        match self {
            Self::Dataset(resolved) => resolved.planned.counts.clone(),
            Self::Mixture(mixed) => mixed.counts(),
        }
    }

    /// Looks what is told of nulls, for [`info`](Self::info) to say it; of mixtures nothing is.
    pub(super) async fn look_for_nulls(&self) {
        if let Self::Dataset(resolved) = self {
            resolved.planned.look_for_nulls().await;
        }
    }

    pub(super) fn info(&self) -> FeedInfo {
        match self {
            Self::Dataset(resolved) => resolved.info(),
            Self::Mixture(mixed) => mixed.info(),
        }
    }

    /// What a rank's stream must hold, for every dataset that it reads.
    pub(super) fn needs(&self, rank: Rank, part_bytes: u64) -> Result<Vec<Need>, Error> {
        match self {
            Self::Dataset(resolved) => Ok(vec![resolved.need(&resolved.partition(rank)?, part_bytes)]),
            Self::Mixture(mixed) => Ok(mixed.needs(rank, part_bytes)),
        }
    }

    /// A rank's walk, in what was leased for its [`needs`](Self::needs). Of a dataset some lanes may be `pulled`
    /// from other gateways.
    pub(super) async fn walk(
        self,
        rank: Rank,
        mut shares: Vec<Share>,
        part_bytes: u64,
        pulled: Vec<Pulled>,
    ) -> Result<Walk, Error> {
        let walk = match self {
            Self::Dataset(resolved) => {
                let (partition, share) = (resolved.partition(rank)?, shares.remove(0));
                resolved.walk(partition, share, resolved.pads(), pulled).await.map(Walk::Dataset)
            }
            Self::Mixture(mixed) => mixed.walk(rank, shares, part_bytes).await.map(Walk::Mixture),
        };
        walk.map_err(|e| Error::chain(e.code(), &e))
    }
}

impl Walk {
    /// The schema of every batch.
    pub(super) fn schema(&self) -> &SchemaRef {
        match self {
            Self::Dataset(steps) => steps.schema(),
            Self::Mixture(steps) => steps.schema(),
        }
    }

    /// The step that the next part belongs to.
    pub(super) fn step(&self) -> u64 {
        match self {
            Self::Dataset(steps) => steps.step(),
            Self::Mixture(steps) => steps.step(),
        }
    }

    /// Whether the next part is the first of its step.
    pub(super) fn is_between_steps(&self) -> bool {
        match self {
            Self::Dataset(steps) => steps.is_between_steps(),
            Self::Mixture(steps) => steps.is_between_steps(),
        }
    }

    /// What the parts cost that were taken since this was called last, as far as they were waited for.
    pub(super) fn take_effort(&mut self) -> Effort {
        match self {
            Self::Dataset(steps) => steps.take_effort(),
            Self::Mixture(steps) => steps.take_effort(),
        }
    }

    /// Whether the next part can be taken without waiting, as far as that is seen without looking.
    pub(super) fn is_at_hand(&self) -> bool {
        match self {
            Self::Dataset(steps) => steps.is_at_hand(),
            Self::Mixture(steps) => steps.is_at_hand(),
        }
    }

    /// The next part; `None` after the last step's last.
    pub(super) async fn next(&mut self) -> Result<Option<Gathered>, ReadError> {
        match self {
            Self::Dataset(steps) => steps.next().await,
            Self::Mixture(steps) => steps.next().await,
        }
    }
}
