//! One rank's stream, from a ticket to the last message.
//!
//! In: a ticket. Out: Flight messages. The promise: it holds what it leased and no more, it waits for its
//! reader and for nobody else, it says how it ended, and when the gateway leaves it hands over between two
//! steps.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use arrow_flight::FlightData;
use futures::Stream;
use penstock_daemon::{Budget, Drain, Lease};
use penstock_proto::{Code, Error, Note, Rank};
use tokio::sync::mpsc;

use super::metrics::StreamMetrics;
use super::resolve::Resolved;
use super::{Gateway, unwritable};
use crate::encode::Encoder;
use crate::read::{Gathered, ReadError, Share, Source, Steps, on_cpu};

/// A draining gateway gives a reader this long to make room for the hand-over.
const HAND_OVER: Duration = Duration::from_secs(5);

/// What a reader polls. Dropping it ends the stream behind it.
pub(crate) struct Messages {
    queue: mpsc::UnboundedReceiver<(Result<FlightData, Error>, Option<Lease>)>,
}

impl Stream for Messages {
    type Item = Result<FlightData, tonic::Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // The lease on the queue ends here: the message is the socket's now.
        self.queue.poll_recv(cx).map(|message| message.map(|(message, _lease)| message.map_err(Into::into)))
    }
}

/// The other end of [`Messages`].
struct Sender {
    queue: mpsc::UnboundedSender<(Result<FlightData, Error>, Option<Lease>)>,
    /// Bytes that may wait for the socket. The stream waits when they are leased out.
    room: Budget,
    drain: Drain,
}

/// The reader is gone, or does not make room for a gateway that leaves.
struct Left;

impl Gateway {
    /// Opens the stream that a ticket stands for.
    pub(super) async fn open(&self, ticket: &[u8]) -> Result<Messages, Error> {
        let opened = self.config.ticket_key.open(ticket, SystemTime::now())?;
        let Some(rank) = opened.request.rank else {
            return Err(Error::new(Code::BadTicket, "the ticket names no rank: get one from GetFlightInfo"));
        };
        let resolved = self.resolve(opened.request).await?;
        let partition = resolved.partition(rank)?;
        let need = resolved.need(&partition, self.config.part_bytes);
        let share = Share::lease(&self.budget, &need, self.config.patience).await?;

        let request = &resolved.request;
        let name = format!("stream {} rank {rank} epoch {}", request.feed.dataset, request.epoch);
        tracing::debug!(stream = %name, step = request.start_step, bytes = need.bytes, ahead = share.spare_windows(), "opened");
        let metrics = StreamMetrics::new(&request.feed.dataset);
        let (queue, messages) = mpsc::unbounded_channel();
        let sender = Sender { queue, room: Budget::new(need.queue_bytes), drain: self.drain.clone() };
        let running = self.running.enter(ticket);
        let part_bytes = self.config.part_bytes;
        self.drain.spawn(name, async move {
            let stream = async {
                let opened = OpenStream::new(resolved, rank, share, part_bytes).await?;
                opened.run(&sender, &metrics).await
            };
            let outcome = tokio::select! {
                biased;
                () = sender.queue.closed() => Ok(()),
                () = running.cancelled() => {
                    Err(Error::new(Code::Cancelled, "the stream was cancelled by CancelFlightInfo"))
                }
                outcome = stream => outcome,
            };
            if let Err(error) = outcome {
                tracing::warn!(code = error.code.name(), %error, "the stream failed");
                // A reader that left needs no reason.
                let _unread = sender.queue.send((Err(error), None));
            }
        });
        Ok(Messages { queue: messages })
    }
}

/// A stream with all it needs.
struct OpenStream {
    steps: Steps,
    encoder: Encoder,
    total_steps: u64,
}

impl OpenStream {
    async fn new(resolved: Resolved, rank: Rank, share: Share, part_bytes: u64) -> Result<Self, Error> {
        let (partition, pads) = (resolved.partition(rank)?, resolved.pads());
        let Resolved { request, planned } = resolved;
        let (epoch, total_steps) = (request.epoch, planned.plan.steps());
        let (snapshot, projection) = (Arc::clone(&planned.snapshot), planned.projection.clone());
        // Permuting blocks is work, too.
        let order = on_cpu(move || planned.plan.epoch(epoch)).await;
        let order = order.map_err(|panic| Error::chain(Code::Internal, &panic))?;
        let source = Arc::new(Source::new(snapshot, projection, order, share));
        let steps = Steps::new(source, partition, request.start_step, pads);
        let encoder = Encoder::new(Arc::clone(steps.schema()), epoch, part_bytes);
        Ok(Self { steps, encoder, total_steps })
    }

    async fn run(mut self, sender: &Sender, metrics: &StreamMetrics) -> Result<(), Error> {
        // A reader that left wants no more, and there is nobody to tell.
        let Ok(()) = sender.send(self.encoder.schema()).await else { return Ok(()) };
        let mut began = Instant::now();
        loop {
            if self.steps.is_between_steps()
                && sender.drain.has_begun()
                && self.steps.step() < self.total_steps
            {
                let moved = self.encoder.note(Note::Moved { step: self.steps.step() });
                let _left = sender.send(moved.map_err(|e| unwritable(&e))?).await;
                return Ok(());
            }
            let Some(part) = self.steps.next().await.map_err(|e| Error::chain(e.code(), &e))? else { break };
            let (rows, is_last) = (part.rows, part.more == 0);
            let encoder = self.encoder;
            let encoded = on_cpu(move || encode(encoder, part)).await;
            let (encoder, messages) = encoded.map_err(|panic| Error::chain(Code::Internal, &panic))?;
            self.encoder = encoder;
            for message in messages? {
                metrics.bytes.increment(message.data_body.len() as u64);
                let Ok(()) = sender.send(message).await else { return Ok(()) };
            }
            metrics.rows.increment(rows);
            if is_last {
                metrics.step.record(began.elapsed());
                began = Instant::now();
            }
        }
        let end = self.encoder.note(Note::End { steps: self.total_steps }).map_err(|e| unwritable(&e))?;
        let _left = sender.send(end).await;
        Ok(())
    }
}

/// Gathers a part and writes it, on the CPU pool.
fn encode(mut encoder: Encoder, part: Gathered) -> (Encoder, Result<Vec<FlightData>, Error>) {
    let (step, more) = (part.step, part.more);
    let messages = part
        .batch()
        .map_err(|e: ReadError| Error::chain(e.code(), &e))
        .and_then(|batch| encoder.rows(batch, step, more).map_err(|e| unwritable(&e)));
    (encoder, messages)
}

impl Sender {
    /// Queues a message when there is room for it.
    async fn send(&self, message: FlightData) -> Result<(), Left> {
        let bytes = (message.data_body.len() + message.data_header.len()) as u64;
        let lease = tokio::select! {
            biased;
            lease = self.room.lease(bytes) => lease,
            () = self.hopeless() => return Err(Left),
        };
        self.queue.send((Ok(message), Some(lease))).map_err(|_| Left)
    }

    /// Resolves when the gateway has been leaving for a while.
    async fn hopeless(&self) {
        self.drain.begun().await;
        tokio::time::sleep(HAND_OVER).await;
    }
}
