//! Batches that are in memory already, sent by a gateway's encoder over a gateway's connections.
//!
//! In: batches, and how often to send them. Out: a place where whatever is asked is answered by that
//! stream. It is what benches hold beside other servers, and what shows that nothing is copied; it knows no
//! dataset, no plan and no ticket.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::Service;
use penstock_daemon::Drain;
use penstock_proto::{Effort, Error, Note};

use super::body::Body;
use super::lend::{Lender, Opened, PARTS};
use super::places::Places;
use super::queue::{Messages, Sender, Unsent, queue};
use super::{Bound, StartError, server, unwritable};
use crate::config::{Config, DEFAULT_PART_BYTES};
use crate::encode::Encoder;

/// Serves the batches, each a step, over and over as often as that. Where it listens is all that counts of
/// the configuration.
///
/// # Errors
/// When the place cannot be listened at.
pub async fn serve_batches(
    config: &Config,
    batches: Vec<RecordBatch>,
    times: u64,
    drain: &Drain,
) -> Result<Bound, StartError> {
    let places = Places::open(config).await?;
    let prepared = Prepared { batches: batches.into(), times, drain: drain.clone() };
    for (name, listener) in places.listeners {
        drain.spawn(name, server::serve(listener, prepared.clone(), drain.clone()));
    }
    Ok(Bound { address: places.address, bound: places.bound, location: places.own })
}

#[derive(Clone)]
pub(super) struct Prepared {
    pub(super) batches: Arc<[RecordBatch]>,
    pub(super) times: u64,
    pub(super) drain: Drain,
}

impl Service<Request<Incoming>> for Prepared {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn call(&self, _: Request<Incoming>) -> Self::Future {
        let mut response = Response::new(Body::Stream(self.stream()));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        ready(Ok(response))
    }
}

impl Lender for Prepared {
    type Room = ();

    async fn open(&self, _: &[u8]) -> Result<Opened<()>, Error> {
        Ok(Opened { messages: self.stream(), bytes: self.part_bytes().saturating_mul(PARTS), room: () })
    }
}

impl Prepared {
    /// Bytes of a message's body, at most about.
    fn part_bytes(&self) -> u64 {
        let sizes = self.batches.iter().map(|batch| batch.get_array_memory_size() as u64);
        sizes.fold(DEFAULT_PART_BYTES, u64::max)
    }

    fn stream(&self) -> Messages {
        let (sender, messages) = queue(2 * self.part_bytes(), self.drain.clone());
        let prepared = self.clone();
        self.drain.spawn("stream of prepared batches", async move {
            if let Err(Unsent::Refused(error)) = prepared.send(&sender).await {
                sender.fail(error);
            }
        });
        messages
    }

    async fn send(self, sender: &Sender) -> Result<(), Unsent> {
        let Some(first) = self.batches.first() else { return Ok(()) };
        // Sent as they are, however large.
        let encoder = Encoder::new(first.schema(), 0, u64::MAX, None);
        let mut encoder = encoder.map_err(|e| unwritable(&e))?;
        sender.send(encoder.schema()).await?;
        let steps = self.times * self.batches.len() as u64;
        for step in 0..steps {
            let batch = self.batches[step as usize % self.batches.len()].clone();
            for message in
                encoder.rows(vec![batch], step, 0, Effort::default()).map_err(|e| unwritable(&e))?
            {
                sender.send(message).await?;
            }
        }
        sender.send(encoder.note(Note::End { steps }).map_err(|e| unwritable(&e))?).await
    }
}
