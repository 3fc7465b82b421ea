//! From a request to what a feed needs before its first row: subscription, pack plan, description.

use std::sync::Arc;

use arrow_flight::Ticket;
use penstock_proto::{Code, Error, FeedRequest, Remainder};

use super::{House, description, size};
use crate::batcher::{Rows, Step};
use crate::pack::PackPlan;
use crate::request::Request;
use crate::subscribe::{Gateways, Link, Notices, Subscription};

/// What a feed is made of.
#[derive(Clone)]
pub(super) struct Start {
    pub(super) request: Request,
    pub(super) subscription: Subscription,
    /// For the first epoch read, if it is known to be for the step where that begins.
    pub(super) ticket: Option<Ticket>,
    pub(super) gateways: Gateways,
    pub(super) link: Link,
    pub(super) plan: Arc<PackPlan>,
    /// Bytes the feed begins with, if they are free.
    pub(super) memory: u64,
    /// Bytes it may hold in any case, and so the largest part that may arrive.
    pub(super) most_memory: u64,
}

impl Start {
    /// Asks a gateway. What is to be told of gateways, from now on to the feed's end, goes to `notices`.
    ///
    /// # Errors
    /// A feed that cannot be: refused by the gateway, not to be packed, or without a single step; or no gateway.
    pub(super) async fn new(house: &House, mut request: Request, notices: Notices) -> Result<Self, Error> {
        let known = if request.gateways.is_empty() { &house.gateways } else { &request.gateways };
        let mut gateways =
            Gateways::new(known.clone(), house.deadlines.answer).ok_or_else(|| {
                Error::new(
                    Code::InvalidFeed,
                    "no gateway is known: start the sidecar with --gateway grpc://HOST:PORT, or give the feed one",
                )
            })?;
        gateways = gateways.telling(notices, house.deadlines.tell);
        // What is said of the feed is meant of all its shares together, and bounds what it takes.
        let most_memory = request.memory.map(|said| said / request.share.count());
        let most_memory = house.budget.total().min(most_memory.unwrap_or(u64::MAX));
        let memory = request.memory.map_or(house.portion / request.share.count(), |_| most_memory);
        let (deadlines, trust) = (house.deadlines, house.trust.clone());
        let link = Link { deadlines, window: size::window(memory), trust };
        let subscription = gateways.subscribe(&link, &request.feed).await?;
        check_steps(&request, &subscription)?;
        gateways.pass_on(&subscription.info.warnings);
        gateways.set_patience(request.patience.unwrap_or(house.deadlines.give_up));
        gateways.learn(&subscription.locations);
        gateways.spread(request.rank.get());
        // From here on the feed is this snapshot in these lanes and this order, whoever serves it.
        request.feed.snapshot = Some(subscription.info.snapshot.clone());
        request.feed.feed.lanes = Some(subscription.info.lanes);
        request.feed.order_rules = Some(subscription.info.order_rules);
        let plan = request.codes.schema(&subscription.schema);
        let plan = plan.and_then(|schema| PackPlan::new(&schema, &request.nulls, &request.units));
        let plan = plan.map_err(|error| Error::chain(error.code(), &error))?;
        let ticket = Some(subscription.ticket.clone());
        Ok(Self { request, subscription, ticket, gateways, link, plan: Arc::new(plan), memory, most_memory })
    }

    pub(super) fn description(&self) -> String {
        description::describe(&self.request, &self.subscription.info, &self.plan)
    }

    /// Whether a step is of the share of the feed that is wanted; a feed that is not shared wants all.
    pub(super) fn wanted(&self) -> impl Fn(&Step) -> bool + Sync + use<> {
        let steps = self.subscription.info.steps;
        let nth = move |epoch: u64, step: u64| epoch.saturating_mul(steps).saturating_add(step);
        let (share, first) = (self.request.share, nth(self.request.feed.epoch, self.request.feed.start_step));
        move |step| share.has(nth(step.epoch, step.step).saturating_sub(first))
    }

    /// The same from another step on.
    pub(super) fn at(&self, epoch: u64, step: u64) -> Self {
        let mut moved = self.clone();
        let feed = &mut moved.request.feed;
        if (feed.epoch, feed.start_step) != (epoch, step) {
            (feed.epoch, feed.start_step) = (epoch, step);
            moved.ticket = None;
        }
        moved
    }

    /// Rows that steps must have.
    pub(super) fn rows(&self) -> Rows {
        let may_be_short = self.request.feed.feed.remainder == Remainder::Keep;
        let short = self.subscription.info.steps.checked_sub(1).filter(|_| may_be_short);
        Rows { per_step: self.request.rows_per_step(), short }
    }

    /// The request for an epoch: the first one starts where the trainer said.
    pub(super) fn request_of(&self, epoch: u64) -> FeedRequest {
        let first = self.request.feed.epoch == epoch;
        let start_step = if first { self.request.feed.start_step } else { 0 };
        FeedRequest { epoch, start_step, ..self.request.feed.clone() }
    }
}

/// An epoch without a step would train on nothing, or for ever on nothing.
fn check_steps(request: &Request, subscription: &Subscription) -> Result<(), Error> {
    let (info, feed) = (&subscription.info, &request.feed.feed);
    let message = match &feed.filter {
        _ if info.steps > 0 => return Ok(()),
        Some(filter) if info.rows == 0 => {
            format!(
                "no row of dataset \"{}\" passes the filter {filter}: look what is in its columns",
                feed.dataset
            )
        }
        None if info.rows == 0 => {
            format!("dataset \"{}\" has no rows: look where its files are", feed.dataset)
        }
        _ => format!(
            "dataset \"{}\" has {} rows, less than one global batch of {}: lower batch_size, or set remainder to \"pad\" or \"keep\"",
            feed.dataset, info.rows, feed.batch_size
        ),
    };
    Err(Error::new(Code::InvalidFeed, message))
}
