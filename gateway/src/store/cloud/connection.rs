//! The connection under object_store's clients.
//!
//! In: requests as object_store signs them. Out: answers, or the last fault when the store was asked often
//! enough. The promise: never more requests at once than the store bears, none before it wants to be asked
//! again, and no silence beyond the stall deadline, which is the client's read time-out. A body that breaks
//! off is its reader's affair. Nothing of a request is told to anybody.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use http::StatusCode;
use http_body::{Body, Frame, SizeHint};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService, ReqwestConnector,
};
use tokio::time::Sleep;

use super::fault::{Fault, How};
use super::metrics::StoreMetrics;
use super::pace::{Pace, Turn};
use super::patience::{Patience, Trying};

/// Makes the connections of one store. Cloning shares the pace.
#[derive(Clone)]
pub(super) struct Connector {
    pace: Arc<Pace>,
    metrics: Arc<StoreMetrics>,
    patience: Patience,
    /// Counts connections: a builder makes the store's own last, after those to whoever gives credentials.
    made: Arc<AtomicUsize>,
}

impl Connector {
    pub(super) fn new(pace: Arc<Pace>, metrics: Arc<StoreMetrics>, patience: Patience) -> Self {
        Self { pace, metrics, patience, made: Arc::default() }
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        let number = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(HttpClient::new(Connection { client, number, connector: self.clone() }))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

/// One client of the connector's.
#[derive(Debug)]
struct Connection {
    client: HttpClient,
    number: usize,
    connector: Connector,
}

#[async_trait]
impl HttpService for Connection {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_the_stores = self.number == self.connector.made.load(Ordering::Relaxed);
        if is_the_stores { self.ask(request).await } else { self.ask_for_credentials(request).await }
    }
}

impl Connection {
    async fn ask(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let Connector { pace, metrics, patience, .. } = &self.connector;
        let mut trying = Trying::new(*patience);
        loop {
            let turn = pace.turn().await;
            metrics.requests.increment(1);
            let fault = match self.attempt(request.clone()).await {
                Ok(answer) => {
                    turn.succeeded();
                    let (parts, body) = answer.into_parts();
                    let longest = patience.longest_of(body.size_hint().lower());
                    let deadline = Box::pin(tokio::time::sleep(longest));
                    let body = Counted { body, turn: Some(turn), metrics: Arc::clone(metrics), deadline };
                    return Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)));
                }
                Err(fault) => fault,
            };
            if let Some(answer) = meant_for_readers(&fault) {
                turn.succeeded();
                return Ok(answer);
            }
            if fault.is_throttling() {
                metrics.throttled.increment(1);
                if let Some(limit) = turn.throttled(fault.retry_after()) {
                    tracing::info!(store = %metrics.store, limit, "the store asks to slow down");
                }
            }
            drop(turn);
            match trying.after(&fault) {
                Some(pause) => {
                    metrics.retries.increment(1);
                    tracing::debug!(store = %metrics.store, %fault, ?pause, "asking again");
                    tokio::time::sleep(pause).await;
                }
                None => return Err(carried(trying.given_up(fault))),
            }
        }
    }

    /// Without the store's pace, for it is another who answers.
    async fn ask_for_credentials(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let mut trying = Trying::new(Patience::OF_CREDENTIALS);
        loop {
            let fault = match self.attempt(request.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            match trying.after(&fault) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(carried(Fault::NoCredentials(Box::new(fault)))),
            }
        }
    }

    async fn attempt(&self, request: HttpRequest) -> Result<HttpResponse, Fault> {
        let answer = self.client.execute(request).await.map_err(|error| Fault::unreached(&error))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let (parts, body) = answer.into_parts();
        Err(Fault::refused(status, &parts.headers, body).await)
    }
}

/// What object_store has a meaning for: a file that is not there, or is not of the version that was demanded.
fn meant_for_readers(fault: &Fault) -> Option<HttpResponse> {
    let Fault::Refused { status, code, .. } = fault else { return None };
    let is_of_a_bucket = ["NoSuchBucket", "ContainerNotFound"].contains(&code.as_str());
    match *status {
        StatusCode::NOT_FOUND if is_of_a_bucket => None,
        StatusCode::NOT_FOUND | StatusCode::PRECONDITION_FAILED | StatusCode::NOT_MODIFIED => {
            let mut answer = HttpResponse::new(Bytes::new().into());
            *answer.status_mut() = *status;
            Some(answer)
        }
        _ => None,
    }
}

/// As object_store hands it on; of a kind that it does not try again itself.
fn carried(fault: Fault) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, fault)
}

/// A body whose bytes are counted, and whose end ends the turn; it ends in bounded time.
struct Counted {
    body: HttpResponseBody,
    turn: Option<Turn>,
    metrics: Arc<StoreMetrics>,
    /// Who trickles never falls silent.
    deadline: Pin<Box<Sleep>>,
}

impl Body for Counted {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                self.metrics.bytes.increment(bytes as u64);
            }
            Poll::Ready(_) => self.turn = None,
            Poll::Pending => {}
        }
        if self.turn.is_some() && self.deadline.as_mut().poll(context).is_ready() {
            self.turn = None;
            let fault = Fault::Unreached { how: How::Silent, reason: "it comes too slowly".to_owned() };
            return Poll::Ready(Some(Err(carried(fault))));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
