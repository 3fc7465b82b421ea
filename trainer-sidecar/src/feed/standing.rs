//! The end of a delivery, held until all ranks have acknowledged everything.
//!
//! In: this rank's tally, and gateways that know those of the others. Out: nothing until the end is
//! everybody's, or who is missing. The promise: a rank that joins late, or comes back, holds the others
//! up and does not deadlock them; when nobody gets on for as long as the feed is patient, that is an
//! error that names who has not finished. Every rank tells all gateways, again and again until it is
//! done, so none of them has to keep anything.

use std::time::Duration;

use futures::future::join_all;
use penstock_proto::delivery::{Report, Standing};
use penstock_proto::{Code, Error};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::delivery::Consumer;
use crate::request::Request;
use crate::subscribe::{Address, Client, Link};

/// Between two looks at this rank's tally, and while it waits, at those of the others.
const TICK: Duration = Duration::from_millis(100);

/// Tells how far this rank is, and hears how far the others are.
pub(super) struct Watcher<'a> {
    consumer: &'a Consumer,
    link: Link,
    peers: Vec<Peer>,
    name: String,
    world_size: u32,
    rank: u32,
    patience: Duration,
    standing: Standing,
}

/// A gateway, and the connection to it while it is good.
struct Peer {
    address: Address,
    client: Option<Client>,
}

impl<'a> Watcher<'a> {
    pub(super) fn new(
        consumer: &'a Consumer,
        request: &Request,
        name: &str,
        patience: Duration,
        link: Link,
        gateways: &[Address],
    ) -> Self {
        let world_size = request.feed.world_size.get();
        let peers = gateways.iter().map(|address| Peer { address: address.clone(), client: None });
        Self {
            consumer,
            link,
            peers: peers.collect(),
            name: name.to_owned(),
            world_size,
            rank: request.rank.get(),
            patience,
            standing: Standing::new(world_size),
        }
    }

    /// Tells the others whenever this rank got on. Runs until it is dropped, or until nobody has got on for
    /// too long after `idle` became true: this rank has nothing left to hand out.
    ///
    /// # Errors
    /// Always: patience is over.
    pub(super) async fn watch(&mut self, idle: impl Fn() -> bool) -> Error {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut got_on = Instant::now();
        let mut told = None;
        loop {
            ticks.tick().await;
            let tally = self.consumer.tally();
            if told == Some(tally) && !idle() {
                got_on = Instant::now();
                continue;
            }
            let before = self.standing.clone();
            self.exchange().await;
            told = Some(tally);
            if before != self.standing || !idle() {
                got_on = Instant::now();
            } else if got_on.elapsed() >= self.patience {
                return self.given_up();
            }
        }
    }

    /// Waits until all ranks are done.
    ///
    /// # Errors
    /// Nobody got on for too long.
    pub(super) async fn all_done(&mut self) -> Result<(), Error> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut got_on = Instant::now();
        loop {
            ticks.tick().await;
            let before = self.standing.clone();
            self.exchange().await;
            if self.standing.is_complete() {
                return Ok(());
            }
            if before != self.standing {
                got_on = Instant::now();
            } else if got_on.elapsed() >= self.patience {
                return Err(self.given_up());
            }
        }
    }

    /// Tells all gateways, and takes in what they know.
    async fn exchange(&mut self) {
        let report = Report {
            delivery: self.name.clone(),
            world_size: self.world_size,
            rank: self.rank,
            tally: self.consumer.tally(),
        };
        // One's own word needs nobody's.
        if let Err(error) = self.standing.take(&report) {
            tracing::debug!(%error, "cannot be: the standing is of this world");
        }
        if self.world_size == 1 {
            return;
        }
        let (link, report) = (&self.link, &report);
        let answers = self.peers.iter_mut().map(|peer| async move {
            let asked = timeout(link.deadlines.connect, peer.ask(link, report)).await;
            match asked {
                Ok(Ok(standing)) => return Some(standing),
                Ok(Err(error)) => tracing::debug!(gateway = %peer.address, %error, "no standing"),
                Err(_) => tracing::debug!(gateway = %peer.address, "silent about the standing"),
            }
            peer.client = None;
            None
        });
        for standing in join_all(answers).await.into_iter().flatten() {
            self.standing.merge(&standing);
        }
    }

    fn given_up(&self) -> Error {
        Error::new(
            Code::Busy,
            format!(
                "no rank of delivery \"{}\" got on for {}s, and the end is held until all have acknowledged their steps; missing: {}; look at the log of that rank's trainer",
                self.name,
                self.patience.as_secs_f32(),
                self.standing.laggards()
            ),
        )
    }
}

impl Peer {
    async fn ask(&mut self, link: &Link, report: &Report) -> Result<Standing, Error> {
        let client = match &mut self.client {
            Some(client) => client,
            none => none.insert(link.connect(&self.address).await?),
        };
        link.report(client, report).await
    }
}
