//! One rank's stream, from a ticket to the last message.
//!
//! In: a ticket. Out: Flight messages. The promise: it holds what it leased and no more, it waits for its
//! reader and for nobody else, it says how it ended, and when the gateway leaves it hands over between two
//! steps.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use penstock_proto::{Code, Error, Note, Rank};

use super::metrics::StreamMetrics;
use super::queue::{Messages, Sender, Unsent, queue};
use super::served::{Served, Walk};
use super::{Gateway, unwritable};
use crate::encode::{Encoder, Message};
use crate::read::{Gathered, ReadError, Room, Share, on_cpu};

impl Gateway {
    /// Opens the stream that a ticket stands for.
    pub(super) async fn open(&self, ticket: &[u8]) -> Result<Messages, Error> {
        self.open_beside(ticket, 0, |_| Ok(())).await.map(|(messages, ())| messages)
    }

    /// Opens the stream that a ticket stands for, and takes room for its parts to be lent.
    pub(super) async fn open_to_lend(&self, ticket: &[u8], bytes: u64) -> Result<(Messages, Room), Error> {
        self.open_beside(ticket, bytes, |share| {
            share.and_then(|share| share.room_to_lend(bytes)).ok_or_else(|| {
                let message = "no memory to lend is free at the moment: read by the Unix socket, or give the gateway \
                               more --memory";
                Error::new(Code::Busy, message)
            })
        })
        .await
    }

    /// Opens a stream if what is to be beside it, of `spare` bytes, can be had of its share.
    async fn open_beside<T>(
        &self,
        ticket: &[u8],
        spare: u64,
        beside: impl FnOnce(Option<&Share>) -> Result<T, Error>,
    ) -> Result<(Messages, T), Error> {
        let opened = self.config.ticket_key.open(ticket, SystemTime::now())?;
        let Some(rank) = opened.request.rank else {
            return Err(Error::new(Code::BadTicket, "the ticket names no rank: get one from GetFlightInfo"));
        };
        let served = self.find(opened.request).await?;
        if served.counts() != opened.counts {
            let message = "the gateway that made the ticket counted other rows under the filter: run one release \
                           in the whole fleet, and ask for a ticket again";
            return Err(Error::new(Code::BadTicket, message));
        }
        let needs = served.needs(rank, self.config.part_bytes)?;
        let shares = Share::lease(&self.budget, &needs, spare, self.config.patience).await?;
        let beside = beside(shares.first())?;

        let request = served.request();
        let name = format!("stream {} rank {rank} epoch {}", request.feed.dataset, request.epoch);
        let bytes: u64 = needs.iter().map(|need| need.bytes).sum();
        let ahead: usize = shares.iter().map(Share::spare_windows).sum();
        tracing::debug!(stream = %name, step = request.start_step, bytes, ahead, "opened");
        let metrics = StreamMetrics::new(&request.feed.dataset);
        let queue_bytes = needs.iter().map(|need| need.queue_bytes).fold(0, u64::saturating_add);
        let (sender, messages) = queue(queue_bytes, self.drain.clone());
        let running = self.running.enter(ticket);
        let part_bytes = self.config.part_bytes;
        self.drain.spawn(name, async move {
            let stream = async {
                let opened = OpenStream::new(served, rank, shares, part_bytes).await?;
                opened.run(&sender, &metrics).await
            };
            let outcome = tokio::select! {
                biased;
                () = sender.closed() => Ok(()),
                () = running.cancelled() => {
                    Err(Error::new(Code::Cancelled, "the stream was cancelled by CancelFlightInfo"))
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

/// A stream with all it needs.
struct OpenStream {
    walk: Walk,
    encoder: Encoder,
    total_steps: u64,
}

impl OpenStream {
    async fn new(served: Served, rank: Rank, shares: Vec<Share>, part_bytes: u64) -> Result<Self, Error> {
        let (epoch, total_steps) = (served.request().epoch, served.steps());
        let walk = served.walk(rank, shares, part_bytes).await?;
        let encoder = Encoder::new(Arc::clone(walk.schema()), epoch, part_bytes);
        let encoder = encoder.map_err(|e| unwritable(&e))?;
        Ok(Self { walk, encoder, total_steps })
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
            let Some(part) = self.walk.next().await.map_err(|e| Error::chain(e.code(), &e))? else { break };
            let (rows, is_last) = (part.rows, part.more == 0);
            let encoder = self.encoder;
            // Encoding copies nothing: without rows to put together the pool costs more than the work.
            let (encoder, messages) = if part.is_in_place() {
                encode(encoder, part)
            } else {
                let encoded = on_cpu(move || encode(encoder, part)).await;
                encoded.map_err(|panic| Error::chain(Code::Internal, &panic))?
            };
            self.encoder = encoder;
            for message in messages? {
                metrics.bytes.increment(message.body_bytes());
                sender.send(message).await?;
            }
            metrics.rows.increment(rows);
            if is_last {
                metrics.step.record(began.elapsed());
                began = Instant::now();
            }
        }
        let end = self.encoder.note(Note::End { steps: self.total_steps }).map_err(|e| unwritable(&e))?;
        sender.send(end).await
    }
}

/// Gathers a part and writes it.
fn encode(mut encoder: Encoder, part: Gathered) -> (Encoder, Result<Vec<Message>, Error>) {
    let (step, more) = (part.step, part.more);
    let messages = part
        .batch()
        .map_err(|e: ReadError| Error::chain(e.code(), &e))
        .and_then(|batch| encoder.rows(batch, step, more).map_err(|e| unwritable(&e)));
    (encoder, messages)
}
