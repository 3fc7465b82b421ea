//! One epoch of one rank, read from whichever gateway serves it.
//!
//! In: a subscription and a step to start at. Out: parts, in order. The promise: no row is repeated and
//! none is skipped, whatever breaks; after a break the step that was not complete starts anew at its
//! part 0, so whoever joins parts drops what it had of it. An end that is not said is a break. It knows
//! no columns and holds no more than the part in its hand.

mod decode;
mod position;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::Ticket;
use penstock_proto::{Code, Effort, Error, FeedRequest, Note};
use tokio::time::timeout;

pub(crate) use self::decode::{Decoded, decode};
use self::position::{Arrival, Position};
use crate::cpu::on_cpu;
use crate::metrics;
use crate::subscribe::{Gateways, Link, silent};
use crate::wire::{Incoming, Message, Rooms};

/// A piece of a step.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) step: u64,
    /// 0 starts the step, also for the second time.
    pub(crate) part: u32,
    pub(crate) last: bool,
    pub(crate) batch: RecordBatch,
    /// What it cost the gateway, as far as it says so.
    pub(crate) effort: Effort,
    /// Bytes that the batch holds in memory.
    pub(crate) bytes: u64,
}

/// The stream of an epoch. Its place is the cursor in `position`; connections come and go.
pub(crate) struct Stream {
    link: Link,
    gateways: Gateways,
    schema: SchemaRef,
    /// The feed with its snapshot and lanes said, so that a new ticket is for the same rows.
    request: FeedRequest,
    position: Position,
    /// Where parts are received to, whichever connection brings them.
    rooms: Rooms,
    state: State,
}

enum State {
    /// No connection; a ticket that was asked for in time may still be good.
    Apart {
        ticket: Option<Ticket>,
    },
    Reading(Incoming),
    Ended,
}

/// What one connection brought.
enum Event {
    Part(Part),
    End,
    Moved,
}

impl Stream {
    /// The stream of `request`, which starts at `request.start_step` of `steps`. A `ticket` for just
    /// that saves asking for one. Parts are received into `rooms`.
    pub(crate) fn new(
        link: Link,
        gateways: Gateways,
        schema: SchemaRef,
        steps: u64,
        request: FeedRequest,
        ticket: Option<Ticket>,
        rooms: Rooms,
    ) -> Self {
        let position = Position::new(request.epoch, request.start_step, steps);
        Self { link, gateways, schema, request, position, rooms, state: State::Apart { ticket } }
    }

    /// The first step that was not brought whole.
    pub(crate) fn step(&self) -> u64 {
        self.position.step()
    }

    /// Who is asked, and whose turn it is.
    pub(crate) fn gateways(&self) -> &Gateways {
        &self.gateways
    }

    /// The gateways, for the next epoch to start where this one ended.
    pub(crate) fn into_gateways(self) -> Gateways {
        self.gateways
    }

    /// Brings the next part; `None` once the gateway has said that the epoch is complete.
    ///
    /// # Errors
    /// A refusal, or that patience with all gateways is over.
    pub(crate) async fn next(&mut self) -> Result<Option<Part>, Error> {
        loop {
            match self.advance().await {
                Ok(Some(Event::Part(part))) => {
                    if part.last {
                        self.gateways.progress();
                    }
                    return Ok(Some(part));
                }
                Ok(Some(Event::End)) => self.state = State::Ended,
                Ok(None) => return Ok(None),
                Ok(Some(Event::Moved)) => {
                    self.leave(&Error::new(Code::Draining, "it is leaving")).await?;
                }
                // This side cancels nothing: who did has gone away as much as one that broke.
                Err(error) if error.may_retry() || error.code == Code::Cancelled => {
                    self.leave(&error).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for `other`, and lets the connection go on meanwhile; it brings no more than was allowed.
    pub(crate) async fn wait(&mut self, other: impl Future<Output = ()>) {
        let State::Reading(incoming) = &mut self.state else { return other.await };
        tokio::select! {
            biased;
            () = other => {}
            () = incoming.idle() => {}
        }
    }

    async fn advance(&mut self) -> Result<Option<Event>, Error> {
        match &mut self.state {
            State::Ended => return Ok(None),
            State::Apart { ticket } => {
                let ticket = ticket.take();
                // Made apart from `self`, which opening changes.
                let waiting = self.gateways.clone();
                self.state = State::Reading(waiting.waiting(self.open(ticket)).await?);
            }
            State::Reading(_) => {}
        }
        let State::Reading(incoming) = &mut self.state else { return Ok(None) };
        let deadlines = self.link.deadlines;
        loop {
            let why = incoming.waits_for().map(str::to_owned);
            let next = timeout(deadlines.stall, incoming.next());
            let message =
                self.gateways.waiting_for(why.as_deref(), next).await.map_err(|_| silent(deadlines))??;
            let Some(message) = message else { return Err(self.position.broken("stopped")) };
            let Message { header, metadata, body, memory, .. } = message;
            let decoded = if self.request.compression.is_some() {
                let schema = SchemaRef::clone(&self.schema);
                on_cpu(move || Ok(decode(&schema, &header, &body)?)).await?
            } else {
                // Nothing is copied.
                decode(&self.schema, &header, &body)?
            };
            let Some(Decoded { batch, bytes }) = decoded else { continue };
            let (note, effort) = Note::from_json_with_effort(&metadata)
                .map_err(|error| Error::chain(Code::BrokenStream, &error))?;
            return Ok(Some(match self.position.accept(note)? {
                Arrival::End => Event::End,
                Arrival::Moved => Event::Moved,
                Arrival::Part { step, part, last } => {
                    if last {
                        incoming.step_done();
                    }
                    Event::Part(Part { step, part, last, batch, effort, bytes: memory + bytes })
                }
            }));
        }
    }

    /// Goes on with the gateway whose turn it is.
    async fn open(&mut self, kept: Option<Ticket>) -> Result<Incoming, Error> {
        let address = self.gateways.current().clone();
        tracing::debug!(gateway = %address, step = self.position.step(), "opening a stream");
        if let Some(ticket) = kept {
            match self.link.redeem(&address, &ticket, self.rooms.clone()).await {
                // It has aged, or is another fleet's: this gateway can make one of its own.
                Err(error) if matches!(error.code, Code::BadTicket | Code::TicketExpired) => {}
                answer => return answer,
            }
        }
        self.request.start_step = self.position.step();
        let mut client = self.link.connect(&address).await?;
        let subscription = self.link.ask(&mut client, &address, &self.request).await?;
        self.gateways.learn(&subscription.locations);
        self.link.redeem(&address, &subscription.ticket, self.rooms.clone()).await
    }

    async fn leave(&mut self, error: &Error) -> Result<(), Error> {
        metrics::reconnected();
        self.position.rewind();
        self.state = State::Apart { ticket: None };
        self.gateways.failed(error).await
    }
}

#[cfg(test)]
mod tests;
