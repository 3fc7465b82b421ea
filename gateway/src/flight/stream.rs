//! One rank's stream, from a ticket to the last message.
//!
//! In: a ticket. Out: Flight messages. The promise: it holds what it leased and no more, it waits for its
//! reader and for nobody else, it says how it ended, and when the gateway leaves it hands over between two
//! steps.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use arrow::record_batch::RecordBatch;
use penstock_proto::{Code, Compression, Effort, Error, Note, OrderRules, Rank};
use tokio_util::sync::CancellationToken;

use super::lend::{Opened, PARTS};
use super::metrics::StreamMetrics;
use super::queue::{Messages, Sender, Unsent, queue};
use super::resolve::Resolved;
use super::served::{Served, Walk};
use super::{Gateway, unwritable};
use crate::encode::{Encoder, Message};
use crate::partition::Partition;
use crate::read::{Gathered, Pulled, Room, Share, on_cpu};

/// Rows of a lane that are so many bytes go as they lie: a message more costs less than to copy them.
const WORTH_BYTES: u64 = 64 << 10;
/// Small parts that are at hand are written in one go, so many at most: to hand one over takes as long as to write it.
const AT_ONCE: u64 = 16;

impl Gateway {
    /// Opens the stream that a ticket stands for. If it has to wait for memory, `waits` hears why.
    pub(super) async fn open(&self, ticket: &[u8], waits: impl FnOnce(String)) -> Result<Messages, Error> {
        let waits = |why| {
            waits(why);
            Ok(())
        };
        self.open_beside(ticket, waits, |_, _| Ok(0), |_, _| Ok(())).await.map(|(messages, ())| messages)
    }

    /// Opens the stream that a ticket stands for, and takes room for its parts to be lent: for a whole step and those
    /// that come meanwhile, since a reader may want all of a step before it gives back what it has, or for a few parts. A
    /// stream that has to wait for memory has none to lend.
    pub(super) async fn open_to_lend(&self, ticket: &[u8]) -> Result<Opened<Room>, Error> {
        let part_bytes = self.config.part_bytes;
        let least = part_bytes.saturating_mul(PARTS);
        let wanted = |served: &Served, rank: Rank| {
            let step = served.step_bytes(rank)?;
            Ok(least.max(step.saturating_add(step / 8).saturating_add(2 * part_bytes)))
        };
        let lease = |work: &mut Work, wanted: u64| {
            // What is lent crosses no link.
            work.compression = None;
            let share = work.rows.share();
            let room = |bytes| Some((bytes, share?.room_to_lend(bytes)?));
            room(wanted).or_else(|| room(least)).ok_or_else(|| {
                let message = "no memory to lend is free at the moment: read by the Unix socket, or give the gateway \
                               more --memory";
                Error::new(Code::Busy, message)
            })
        };
        let waits = |why| Err(Error::new(Code::Busy, why));
        let (messages, (bytes, room)) = self.open_beside(ticket, waits, wanted, lease).await?;
        Ok(Opened { messages, bytes, room })
    }

    /// Opens a stream if what is to be beside it, of so many bytes as are `spare`, can be had of its share.
    async fn open_beside<T>(
        &self,
        ticket: &[u8],
        waits: impl FnOnce(String) -> Result<(), Error>,
        spare: impl FnOnce(&Served, Rank) -> Result<u64, Error>,
        beside: impl FnOnce(&mut Work, u64) -> Result<T, Error>,
    ) -> Result<(Messages, T), Error> {
        let mut opened = self.config.ticket_key.open(ticket, SystemTime::now())?;
        // Releases that say nothing of it know the first rules only.
        opened.request.order_rules.get_or_insert(OrderRules::FIRST);
        let Some(rank) = opened.request.rank else {
            return Err(Error::new(Code::BadTicket, "the ticket names no rank: get one from GetFlightInfo"));
        };
        let served = self.find(opened.request).await?;
        if served.counts() != opened.counts {
            let message = "the gateway that made the ticket counted other rows under the filter: run one release \
                           in the whole fleet, and ask for a ticket again";
            return Err(Error::new(Code::BadTicket, message));
        }
        let spare = spare(&served, rank)?;
        let mut work = match &opened.pull {
            None => self.compose(served, rank, spare, waits).await?,
            Some(pull) => self.lend(served, rank, pull)?,
        };
        let beside = beside(&mut work, spare)?;
        let (sender, messages) = queue(work.queue_bytes, self.drain.clone());
        let running = self.running.enter(ticket);
        self.drain.spawn(work.name.clone(), async move {
            let (metrics, taken_back) = (work.metrics.clone(), work.taken_back.clone());
            let stream = async { OpenStream::new(work).await?.run(&sender, &metrics).await };
            let outcome = tokio::select! {
                biased;
                () = sender.closed() => Ok(()),
                () = running.cancelled() => {
                    Err(Error::new(Code::Cancelled, "the stream was cancelled by CancelFlightInfo"))
                }
                () = taken_back.cancelled() => {
                    Err(Error::new(Code::Busy, "the memory is needed for streams of this gateway's own"))
                }
                outcome = stream => outcome,
            };
            if let Err(error) = outcome {
                tracing::warn!(code = error.code.name(), %error, "the stream failed");
                sender.fail(error);
            }
        });
        Ok((messages, beside))
    }
}

/// What a stream is made of.
pub(super) struct Work {
    pub(super) name: String,
    pub(super) rows: Wanted,
    /// Bytes of one message before it is compressed, unless a single row is larger.
    pub(super) part_bytes: u64,
    pub(super) compression: Option<Compression>,
    /// Bytes of the queue to the socket.
    pub(super) queue_bytes: u64,
    pub(super) metrics: StreamMetrics,
    /// Ends a stream whose memory others need.
    pub(super) taken_back: CancellationToken,
}

/// Which rows are sent, and the memory to read them in.
pub(super) enum Wanted {
    /// All that a rank reads; what is `pulled` comes from other gateways.
    Share { served: Served, rank: Rank, shares: Vec<Share>, pulled: Vec<Pulled> },
    /// Some lanes of what a rank reads, for another gateway.
    Lanes { resolved: Resolved, partition: Partition, share: Share },
}

impl Wanted {
    /// The first of the shares that it is read in.
    fn share(&self) -> Option<&Share> {
        match self {
            Self::Share { shares, .. } => shares.first(),
            Self::Lanes { share, .. } => Some(share),
        }
    }

    fn epoch(&self) -> u64 {
        match self {
            Self::Share { served, .. } => served.request().epoch,
            Self::Lanes { resolved, .. } => resolved.request.epoch,
        }
    }

    /// Steps of the epoch; of lanes the whole ones.
    fn steps(&self) -> u64 {
        match self {
            Self::Share { served, .. } => served.steps(),
            Self::Lanes { partition, .. } => partition.steps(),
        }
    }

    async fn walk(self, part_bytes: u64) -> Result<Walk, Error> {
        match self {
            Self::Share { served, rank, shares, pulled } => {
                served.walk(rank, shares, part_bytes, pulled).await
            }
            Self::Lanes { resolved, partition, share } => {
                // Whoever composes the steps pads them.
                let steps = resolved.walk(partition, share, false, Vec::new()).await;
                steps.map(Walk::Dataset).map_err(|e| Error::chain(e.code(), &e))
            }
        }
    }
}

/// A stream with all it needs.
struct OpenStream {
    walk: Walk,
    encoder: Encoder,
    /// Whether to write a message is much work.
    compresses: bool,
    total_steps: u64,
    part_bytes: u64,
    /// How many parts like the last one make one of `part_bytes`.
    at_once: usize,
}

/// A part that was taken, and what that cost.
type Part = (Gathered, Effort);

/// A part's messages.
struct Written {
    rows: u64,
    /// Whether its step is over with it.
    is_last: bool,
    messages: Result<Vec<Message>, Error>,
}

impl OpenStream {
    async fn new(work: Work) -> Result<Self, Error> {
        let Work { rows, part_bytes, compression, .. } = work;
        let (epoch, total_steps) = (rows.epoch(), rows.steps());
        let walk = rows.walk(part_bytes).await?;
        let encoder = Encoder::new(Arc::clone(walk.schema()), epoch, part_bytes, compression);
        let encoder = encoder.map_err(|e| unwritable(&e))?;
        let compresses = compression.is_some();
        Ok(Self { walk, encoder, compresses, total_steps, part_bytes, at_once: 1 })
    }

    async fn run(self, sender: &Sender, metrics: &StreamMetrics) -> Result<(), Error> {
        match self.send_all(sender, metrics).await {
            // A reader that left wants no more, and there is nobody to tell.
            Ok(()) | Err(Unsent::Left) => Ok(()),
            Err(Unsent::Refused(error)) => Err(error),
        }
    }

    async fn send_all(mut self, sender: &Sender, metrics: &StreamMetrics) -> Result<(), Unsent> {
        sender.send(self.encoder.schema()).await?;
        let mut began = Instant::now();
        loop {
            if self.walk.is_between_steps() && sender.is_leaving() && self.walk.step() < self.total_steps {
                let moved = self.encoder.note(Note::Moved { step: self.walk.step() });
                return sender.send(moved.map_err(|e| unwritable(&e))?).await;
            }
            let Some((part, effort)) = self.next().await? else { break };
            // Plain messages copy nothing: without rows to put together the pool costs more than the work.
            let in_place = if self.compresses { None } else { part.in_place(WORTH_BYTES) };
            let (encoder, written) = match in_place {
                Some(batches) => {
                    let (encoder, written) = encode(self.encoder, batches, &part, effort);
                    (encoder, vec![written])
                }
                None => {
                    let mut parts = vec![(part, effort)];
                    while parts.len() < self.at_once && self.walk.is_at_hand() {
                        parts.extend(self.next().await?);
                    }
                    let encoder = self.encoder;
                    let encoded = on_cpu(move || gather_and_encode(encoder, parts)).await;
                    encoded.map_err(|panic| Error::chain(Code::Internal, &panic))?
                }
            };
            self.encoder = encoder;
            for Written { rows, is_last, messages } in written {
                let mut bytes = 0;
                for message in messages? {
                    bytes += message.body_bytes();
                    metrics.bytes.increment(message.body_bytes());
                    sender.send(message).await?;
                }
                if !self.compresses {
                    self.at_once = (self.part_bytes / bytes.max(1)).clamp(1, AT_ONCE) as usize;
                }
                metrics.rows.increment(rows);
                if is_last {
                    metrics.step.record(began.elapsed());
                    began = Instant::now();
                }
            }
        }
        let end = self.encoder.note(Note::End { steps: self.total_steps }).map_err(|e| unwritable(&e))?;
        sender.send(end).await
    }

    async fn next(&mut self) -> Result<Option<Part>, Error> {
        let part = self.walk.next().await.map_err(|e| Error::chain(e.code(), &e))?;
        Ok(part.map(|part| (part, self.walk.take_effort())))
    }
}

/// Gathers parts and writes them.
fn gather_and_encode(mut encoder: Encoder, parts: Vec<Part>) -> (Encoder, Vec<Written>) {
    let began = Instant::now();
    let batches = Gathered::batches(&parts.iter().map(|(part, _)| part).collect::<Vec<_>>());
    let each = began.elapsed() / u32::try_from(parts.len()).unwrap_or(u32::MAX).max(1);
    let mut all = Vec::with_capacity(parts.len());
    for ((part, mut effort), batch) in parts.into_iter().zip(batches) {
        effort.decode += each;
        let written;
        (encoder, written) = match batch {
            Ok(batch) => encode(encoder, vec![batch], &part, effort),
            Err(error) => (encoder, Written::of(&part, Err(Error::chain(error.code(), &error)))),
        };
        all.push(written);
    }
    (encoder, all)
}

/// Writes the rows of a part.
fn encode(
    mut encoder: Encoder,
    batches: Vec<RecordBatch>,
    part: &Gathered,
    effort: Effort,
) -> (Encoder, Written) {
    let messages = encoder.rows(batches, part.step, part.more, effort);
    (encoder, Written::of(part, messages.map_err(|e| unwritable(&e))))
}

impl Written {
    fn of(part: &Gathered, messages: Result<Vec<Message>, Error>) -> Self {
        Self { rows: part.rows, is_last: part.more == 0, messages }
    }
}
