//! An acknowledged feed: round after round until every step is done, then the end that all ranks share.
//!
//! In: a start. Out: the steps that nobody has acknowledged, each as often as it takes. The promise: in a
//! round, steps come in order; the end comes when all ranks have acknowledged all of theirs. The first
//! round begins where the trainer before this one left off.

use std::sync::atomic::{AtomicBool, Ordering};

use penstock_proto::Error;

use super::House;
use super::connection::Connection;
use super::delivery::{Consumer, Extent};
use super::outlet::Outlet;
use super::produce::{hand_over_all, open};
use super::standing::Watcher;
use super::start::Start;
use crate::batcher::Step;
use crate::request::Acknowledgement;

/// Runs the feed until its end may be said.
///
/// # Errors
/// Whatever ends it early: a failure on the way, a consumer that took over, or ranks that do not get on.
pub(super) async fn run(
    connection: &Connection,
    house: &House,
    start: Start,
    outlet: &Outlet,
    how: &Acknowledgement,
) -> Result<(), Error> {
    let consumer = house.deliveries.enter(&how.delivery, start.request.rank, &extent(&start))?;
    let consumer = outlet.join(consumer);
    consumer.alone().await;
    let (link, gateways) = (start.link.clone(), start.gateways.all().to_vec());
    let mut watcher = Watcher::new(consumer, &start.request, &how.delivery, how.patience, link, &gateways);
    let all_offered = AtomicBool::new(false);
    tokio::select! {
        offered = offer(connection, house, start, outlet, consumer, &all_offered) => offered?,
        error = watcher.watch(|| all_offered.load(Ordering::Acquire)) => return Err(error),
        error = consumer.superseded() => return Err(error),
    }
    tokio::select! {
        done = watcher.all_done() => done,
        error = consumer.superseded() => Err(error),
    }
}

/// Offers steps until all are acknowledged.
async fn offer(
    connection: &Connection,
    house: &House,
    start: Start,
    outlet: &Outlet,
    consumer: &Consumer,
    all_offered: &AtomicBool,
) -> Result<(), Error> {
    let wanted = |step: &Step| consumer.wants(step.epoch, step.step);
    let (epoch, step) = consumer.position(consumer.first_undone());
    let mut source = open(connection, house, start.at(epoch, step), outlet, &wanted).await?;
    loop {
        let means = hand_over_all(connection, house, outlet, source, &wanted).await?;
        all_offered.store(true, Ordering::Release);
        let Some(again) = consumer.outstanding().await else { return Ok(()) };
        all_offered.store(false, Ordering::Release);
        tracing::info!(step = again, "steps that were given back unacknowledged are offered again");
        source = means.read_from(house, consumer.position(again), &wanted).await?;
    }
}

fn extent(start: &Start) -> Extent {
    let (feed, info) = (&start.request.feed, &start.subscription.info);
    let index = |epoch: u64, step: u64| epoch.saturating_mul(info.steps).saturating_add(step);
    let first = index(feed.epoch, feed.start_step);
    // A request for acknowledgement has an end.
    let end = index(start.request.epochs.unwrap_or(0), 0).max(first);
    Extent { snapshot: info.snapshot.clone(), steps_per_epoch: info.steps, first, end }
}
