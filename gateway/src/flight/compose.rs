//! A rank's steps, composed of lanes from here and from elsewhere.
//!
//! In: a feed and a rank. Out: what a stream of its whole share needs. The promise: memory is leased as if every
//! lane were decoded here, before another gateway is asked for any, so that whatever becomes of the others the
//! stream needs no more than it has. What comes from them takes the place of what decoding would hold.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use penstock_proto::{Error, FeedRequest, Pull, Rank, Ticket, WorldSize};
use prost::Message as _;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Gateway;
use super::memory::bytes_of;
use super::metrics::StreamMetrics;
use super::resolve::Resolved;
use super::served::Served;
use super::stream::{Wanted, Work};
use crate::fleet;
use crate::partition::{Partition, StepShare};
use crate::read::{Ask, Need, Pulled, Share, plain_schema, pulled_bytes};

/// Smaller messages of another gateway cost more than they hold.
const LEAST_PULLED_BYTES: u64 = 16 << 10;
/// Messages of a pull that are held at a time: being read, waiting, taken from.
const PULLED_MESSAGES: u64 = 3;
/// HTTP/2 lets no less be on its way.
const LEAST_WINDOW_BYTES: u64 = 64 << 10;
/// A stream that ends gives back its memory within this; who waits longer is told so.
const BEFORE_SAYING: Duration = Duration::from_millis(200);

impl Gateway {
    /// Leases what a rank's stream needs, so that `spare` bytes beside it are left as far as may be, and sends for the
    /// lanes that others own. If it has to wait for memory, `waits` hears why first.
    pub(super) async fn compose(
        &self,
        served: Served,
        rank: Rank,
        spare: u64,
        waits: impl FnOnce(String) -> Result<(), Error>,
    ) -> Result<Work, Error> {
        let part_bytes = self.config.part_bytes;
        let needs = served.needs(rank, part_bytes)?;
        self.check_needs(&needs, &served.request().feed.dataset)?;
        let bytes = bytes_of(&needs);
        if bytes > self.budget.total() - self.budget.leased() {
            self.lent.take_back();
        }
        let mut leasing = pin!(Share::lease(&self.budget, &needs, spare, self.config.patience));
        let shares = match timeout(BEFORE_SAYING, &mut leasing).await {
            Ok(shares) => shares?,
            Err(_) => {
                waits(self.waits_for(&needs))?;
                leasing.await?
            }
        };
        let pulled = match &served {
            Served::Dataset(resolved) => self.pull(resolved, rank, &needs[0])?,
            // Of a mixture every dataset is decoded here.
            Served::Mixture(_) => Vec::new(),
        };
        let request = served.request();
        let name = format!("stream {} rank {rank} epoch {}", request.feed.dataset, request.epoch);
        let ahead: usize = shares.iter().map(Share::spare_windows).sum();
        tracing::debug!(stream = %name, step = request.start_step, bytes, ahead, pulls = pulled.len(), "opened");
        Ok(Work {
            name,
            metrics: StreamMetrics::new(&request.feed.dataset),
            queue_bytes: needs.iter().map(|need| need.queue_bytes).fold(0, u64::saturating_add),
            part_bytes,
            compression: request.compression,
            taken_back: CancellationToken::new(),
            rows: Wanted::Share { served, rank, shares, pulled },
        })
    }

    /// Sends for the lanes that others own.
    fn pull(&self, resolved: &Resolved, rank: Rank, need: &Need) -> Result<Vec<Pulled>, Error> {
        let members = self.fleet.members();
        let partition = resolved.partition(rank)?;
        let request = &resolved.request;
        let is_of_lanes = matches!(partition.step(request.start_step), Some(StepShare::Lanes(_)));
        if members.names().len() == 1 || !is_of_lanes {
            return Ok(Vec::new());
        }
        let lanes = resolved.planned.plan.lanes();
        let shared = self.shares.of(key(request), &request.feed.dataset, lanes, members);
        let elsewhere = shared.elsewhere(partition.lanes());
        let own = partition.lanes().len() - elsewhere.values().map(Vec::len).sum::<usize>();
        metrics::counter!("penstock_gateway_lanes_owned_total").increment(own as u64);
        let mut pulled = Vec::with_capacity(elsewhere.len());
        for (owner, lanes) in elsewhere {
            let part = partition.of_lanes(&lanes).expect("a partition's own lanes");
            let (first, steps, pause) = (request.start_step, part.steps(), self.config.fleet_pause);
            let can_ask = self.puller.can_ask(owner);
            let ask = self.ask(resolved, rank, need, owner, (&lanes, &part));
            pulled.push(if can_ask {
                metrics::counter!("penstock_gateway_lanes_pulled_total").increment(lanes.len() as u64);
                Pulled::new(lanes, first, steps, pause, ask)
            } else {
                Pulled::later(lanes, first, steps, pause, ask)
            });
        }
        Ok(pulled)
    }

    /// A way to send for some of a rank's lanes, which are a `part` of its partition.
    fn ask(
        &self,
        resolved: &Resolved,
        rank: Rank,
        need: &Need,
        owner: &str,
        (lanes, part): (&[u32], &Partition),
    ) -> Ask {
        // Of every lane two batches are paid for: for what is on its way, and for messages.
        let room = pulled_bytes(need, lanes.len());
        let beside_the_way = room.saturating_sub(LEAST_WINDOW_BYTES) / PULLED_MESSAGES;
        let part_bytes = (room / (PULLED_MESSAGES + 1)).min(beside_the_way);
        let part_bytes = part_bytes.max(LEAST_PULLED_BYTES).min(self.config.part_bytes);
        let request = FeedRequest { rank: Some(rank), compression: None, ..resolved.request.clone() };
        let pull = Pull { lanes: lanes.to_vec(), part_bytes };
        let (key, life) = (self.config.ticket_key.clone(), self.config.ticket_life);
        let counts = resolved.planned.counts.clone();
        let schema = plain_schema(resolved.planned.projection.schema());
        let (steps, rows_per_step) = (part.steps(), part.rows_per_step());
        let window = u32::try_from(part_bytes).unwrap_or(u32::MAX >> 1);
        let (puller, owner) = (Arc::clone(&self.puller), owner.to_owned());
        Box::new(move |first| {
            let ticket = Ticket {
                request: FeedRequest { start_step: first, ..request.clone() },
                expires_at: SystemTime::now() + life,
                counts: counts.clone(),
                pull: Some(pull.clone()),
            };
            let wanted = fleet::Wanted {
                ticket: key.seal(&ticket),
                schema: Arc::clone(&schema),
                epoch: request.epoch,
                steps: first..steps,
                rows_per_step,
                lanes: pull.lanes.len() as u64,
                window,
            };
            puller.pull(&owner, wanted)
        })
    }
}

/// What tells feeds apart, the same for all ranks, epochs and steps.
fn key(request: &FeedRequest) -> Vec<u8> {
    let of_all = FeedRequest {
        world_size: WorldSize::ONE,
        rank: None,
        epoch: 0,
        start_step: 0,
        feed: request.feed.clone(),
        snapshot: request.snapshot.clone(),
        compression: None,
        order_rules: request.order_rules,
    };
    of_all.to_command().encode_to_vec()
}
