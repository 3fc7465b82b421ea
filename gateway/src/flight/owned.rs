//! Lanes decoded for another gateway.
//!
//! In: a feed, a rank, and which of its lanes. Out: what a stream of those needs. The promise: nothing is lent that
//! a stream of this gateway's own would miss, nobody waits for memory here, and what was lent is taken back when it
//! is missed; whoever borrowed goes on alone.

use std::sync::{Mutex, PoisonError};

use penstock_proto::{Code, Error, Pull, Rank};
use tokio_util::sync::CancellationToken;

use super::Gateway;
use super::metrics::StreamMetrics;
use super::served::Served;
use super::stream::{Wanted, Work};
use crate::read::Share;

/// All that is lent at a time.
#[derive(Default)]
pub(super) struct Lent(Mutex<CancellationToken>);

impl Lent {
    /// Ends all streams that other gateways read now.
    pub(super) fn take_back(&self) {
        let mut token = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *token).cancel();
    }

    fn token(&self) -> CancellationToken {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Gateway {
    /// Leases what lanes of a rank need, if it is free.
    pub(super) fn lend(&self, served: Served, rank: Rank, pull: &Pull) -> Result<Work, Error> {
        let foreign = || {
            let message = "the ticket is for lanes that the rank has not: run one release in the whole fleet";
            Error::new(Code::BadTicket, message)
        };
        let Served::Dataset(resolved) = served else { return Err(foreign()) };
        let partition = resolved.partition(rank)?.of_lanes(&pull.lanes).ok_or_else(foreign)?;
        let part_bytes = pull.part_bytes.clamp(1, self.config.part_bytes);
        let need = resolved.need(&partition, part_bytes);
        let taken_back = self.lent.token();
        let share = Share::spare(&self.budget, &need, self.config.patience)?;
        let request = &resolved.request;
        let name = format!("lent {} rank {rank} epoch {}", request.feed.dataset, request.epoch);
        tracing::debug!(stream = %name, step = request.start_step, bytes = need.bytes, "opened");
        Ok(Work {
            name,
            metrics: StreamMetrics::of_fleet(&request.feed.dataset),
            queue_bytes: need.queue_bytes,
            part_bytes,
            compression: request.compression,
            taken_back,
            rows: Wanted::Lanes { resolved, partition, share },
        })
    }
}
