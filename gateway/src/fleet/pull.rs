//! Rows of lanes that another gateway owns.
//!
//! In: the owner, a sealed ticket, and what must come by it. Out: batches, down a line that the reader of the lanes
//! holds. The promise: a batch that is passed on holds the next rows, of the right step and under the right schema;
//! the line is closed when the owner dies, stops answering, is silent for too long, leaves, or sends anything else;
//! one batch waits in it, and the rest with the owner.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use arrow_flight::Ticket;
use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};
use arrow_flight::error::FlightError;
use futures::TryStreamExt as _;
use penstock_daemon::Drain;
use penstock_proto::{Code, Error, Note};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::Trust;

/// An owner that failed is left alone for so long.
const SUSPECTED: Duration = Duration::from_secs(10);

/// Pulls lanes from other gateways.
pub(crate) struct Puller {
    trust: Trust,
    /// How long an owner may send nothing that is waited for.
    silence: Duration,
    /// Owners that failed, and when.
    suspects: Mutex<BTreeMap<String, Instant>>,
    drain: Drain,
}

/// What must come.
pub(crate) struct Wanted {
    pub(crate) ticket: Vec<u8>,
    /// Of every batch.
    pub(crate) schema: SchemaRef,
    pub(crate) epoch: u64,
    pub(crate) steps: Range<u64>,
    /// Of every step; at least one.
    pub(crate) rows_per_step: u64,
    /// How many they are.
    pub(crate) lanes: u64,
    /// Bytes that may be on their way.
    pub(crate) window: u32,
}

impl Puller {
    pub(crate) fn new(trust: Trust, silence: Duration, drain: Drain) -> Self {
        Self { trust, silence, suspects: Mutex::default(), drain }
    }

    /// Whether there is hope in asking.
    pub(crate) fn can_ask(&self, owner: &str) -> bool {
        let suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        let is_suspected = suspects.get(owner).is_some_and(|since| since.elapsed() < SUSPECTED);
        !is_suspected && self.trust.can_reach(owner)
    }

    /// Begins to pull, for as long as the line is held.
    pub(crate) fn pull(self: &Arc<Self>, owner: &str, wanted: Wanted) -> mpsc::Receiver<RecordBatch> {
        let (line, arriving) = mpsc::channel(1);
        let (puller, owner) = (Arc::clone(self), owner.to_owned());
        self.drain.spawn(format!("pull from {owner}"), async move {
            let lanes = wanted.lanes;
            let pulled = tokio::select! {
                biased;
                () = line.closed() => return,
                pulled = puller.receive(&owner, wanted, &line) => pulled,
            };
            if let Err(error) = pulled {
                puller.gave_up(&owner, lanes, &error);
            }
        });
        arriving
    }

    async fn receive(
        &self,
        owner: &str,
        wanted: Wanted,
        line: &mpsc::Sender<RecordBatch>,
    ) -> Result<(), Error> {
        let mut client = self.trust.connect(owner, wanted.window).await?;
        let ticket = Ticket { ticket: wanted.ticket.clone().into() };
        let answer = self.in_time(client.do_get(ticket)).await??.into_inner();
        let mut decoder = FlightDataDecoder::new(answer.map_err(FlightError::from));
        let mut place = Place { step: wanted.steps.start, rows: 0 };
        let mut is_trusted = false;
        loop {
            // Only what is waited for is late.
            let Ok(room) = line.reserve().await else { return Ok(()) };
            let batch = loop {
                let data = self.in_time(decoder.try_next()).await?.map_err(broken)?;
                let Some(data) = data else { return Err(foreign("an end that nobody said")) };
                let DecodedPayload::RecordBatch(batch) = data.payload else { continue };
                let note = Note::from_json(&data.inner.app_metadata);
                match note.map_err(|error| Error::chain(Code::BrokenStream, &error))? {
                    Note::End { .. } if place.step == wanted.steps.end => return Ok(()),
                    Note::End { .. } => return Err(foreign("an end before the last step")),
                    Note::Moved { .. } => return Err(Error::new(Code::Draining, "it leaves")),
                    note @ Note::Part { .. } => place.pass(&wanted, note, &batch)?,
                }
                break batch;
            };
            if !is_trusted {
                is_trusted = true;
                self.trust_again(owner);
            }
            metrics::counter!("penstock_gateway_pulled_bytes_total")
                .increment(batch.get_array_memory_size() as u64);
            room.send(batch);
        }
    }

    async fn in_time<T>(&self, awaited: impl Future<Output = T>) -> Result<T, Error> {
        timeout(self.silence, awaited)
            .await
            .map_err(|_| Error::new(Code::Unreachable, format!("silent for {}s", self.silence.as_secs_f32())))
    }

    fn trust_again(&self, owner: &str) {
        let mut suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        if suspects.remove(owner).is_some() {
            tracing::info!(owner, "lanes of another gateway come from it again");
        }
    }

    /// Says it, once for all streams that meet the same.
    fn gave_up(&self, owner: &str, lanes: u64, error: &Error) {
        let code = error.code.name();
        let mut suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        suspects.retain(|_, since| since.elapsed() < SUSPECTED);
        // One that has no room now may have some for the next stream.
        let is_news = error.code == Code::Busy || suspects.insert(owner.to_owned(), Instant::now()).is_none();
        if is_news {
            tracing::warn!(owner, lanes, code, %error, "lanes of another gateway are decoded here");
        } else {
            tracing::debug!(owner, lanes, code, %error, "lanes of another gateway are decoded here");
        }
    }
}

/// How far a pull has come.
struct Place {
    step: u64,
    /// Rows of the step that came.
    rows: u64,
}

impl Place {
    /// Takes in a part, if it is the next one.
    fn pass(&mut self, wanted: &Wanted, note: Note, batch: &RecordBatch) -> Result<(), Error> {
        let Note::Part { epoch, step, part, parts } = note else { return Err(foreign("no part of a step")) };
        if (epoch, step) != (wanted.epoch, self.step) || step >= wanted.steps.end {
            return Err(foreign("another step than the next"));
        }
        if batch.schema_ref().fields() != wanted.schema.fields() {
            return Err(foreign("other columns"));
        }
        self.rows += batch.num_rows() as u64;
        let is_last = part + 1 == parts;
        if self.rows > wanted.rows_per_step || is_last != (self.rows == wanted.rows_per_step) {
            return Err(foreign("other rows than the step has"));
        }
        if is_last {
            *self = Self { step: step + 1, rows: 0 };
        }
        Ok(())
    }
}

fn foreign(what: &str) -> Error {
    let message = format!("it sends {what}: run one release in the whole fleet");
    Error::new(Code::BrokenStream, message)
}

fn broken(error: FlightError) -> Error {
    match error {
        FlightError::Tonic(status) => Error::from(*status),
        other => Error::chain(Code::BrokenStream, &other),
    }
}
