//! Connections: accepted, served and closed.
//!
//! In: a listener and the service that answers. Out: HTTP/2, each connection's own. The promise: while the
//! gateway serves, whoever connects is served; once it leaves, nobody new is, streams are let finish for a
//! while, and what is left then is closed. A peer that connects and asks nothing is not kept.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::OptionFuture;
use futures::stream::FuturesUnordered;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use penstock_daemon::Drain;
use penstock_proto::{Code, Error};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::body::Body;
use super::lend::{Lender, lend};
use super::listener::{Accepted, Listener, Opened, Peer};
use super::presence::Presence;

/// A server that leaves waits this long for its last streams, then closes their connections.
const LAST_STREAMS: Duration = Duration::from_secs(10);
/// Whoever has asked for nothing by then is told to come again, and after as long again hung up on.
const PATIENCE: Duration = Duration::from_secs(20);
/// Accepting fails when files run out; connections that end bring some back.
const OUT_OF_FILES: Duration = Duration::from_millis(100);
/// Requests are small, so what a client may send unread is little.
const WINDOW_BYTES: u32 = 1 << 20;
/// What a stream may hand to its connection ahead of the socket: several small messages for one wake-up.
const SEND_BYTES: usize = 2 << 20;
/// Of a peer's headers; a ticket travels in a body.
const MAX_HEADERS_BYTES: u32 = 16 << 10;
/// Streams of one connection; they share its window, so more gain nothing.
const MAX_STREAMS: u32 = 200;

/// Serves a listener until the drain has begun and its connections are done.
pub(super) async fn serve<S>(mut listener: Listener, service: S, drain: Drain)
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Lender + Clone + 'static,
    S::Future: Send,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = drain.begun() => break,
            // Those that ended leave their result here.
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok(accepted) => {
                    let connection = connection(accepted, service.clone(), drain.clone(), PATIENCE);
                    // A child of the server's own task, which the drain knows by name: it ends with the set.
                    connections.spawn(connection.in_current_span());
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(OUT_OF_FILES).await;
                }
            },
        }
    }
    // The port is free at once: who connects now is told so, and asks another gateway.
    drop(listener);
    let done = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(LAST_STREAMS, done).await.is_err() {
        tracing::warn!(connections = connections.len(), "closing connections still in use");
    }
}

/// Serves one peer until it leaves, or is gone without a word, or the gateway leaves, or `patience` with one that asks
/// nothing is over.
pub(super) async fn connection<S>(accepted: Accepted, service: S, drain: Drain, patience: Duration)
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Lender + 'static,
    S::Future: Send,
{
    let mut accepted = accepted;
    let (peer, presence) = (accepted.peer, accepted.presence.take());
    let socket = match accepted.open().await {
        Ok(Opened::Http(socket)) => socket,
        Ok(Opened::Lend(stream)) => {
            if let Err(error) = lend(stream, &service, &drain).await {
                tracing::debug!(%error, "a connection that is lent memory broke");
            }
            return;
        }
        Err(error) => return tracing::debug!(%error, "a connection was not secured"),
    };
    let asked = Arc::new(AtomicBool::new(false));
    let service = Asked { service, peer, asked: Arc::clone(&asked) };
    let (aside, mut answers_begun) = mpsc::unbounded_channel();
    let mut answers = FuturesUnordered::new();
    let mut http = http2::Builder::new(Aside(aside));
    http.initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_send_buf_size(SEND_BYTES)
        .max_header_list_size(MAX_HEADERS_BYTES)
        .max_concurrent_streams(MAX_STREAMS);
    let mut connection = pin!(http.serve_connection(TokioIo::new(socket), service));
    let mut gone = pin!(OptionFuture::from(presence.map(Presence::end)));
    let mut silence = pin!(tokio::time::sleep(patience));
    let (mut is_leaving, mut is_told) = (false, false);
    loop {
        tokio::select! {
            // Answers first: what they have ready goes out in the same turn.
            biased;
            Some(()) = answers.next() => {}
            Some(answer) = answers_begun.recv() => answers.push(answer),
            served = &mut connection => {
                if let Err(error) = served {
                    tracing::debug!(error = %Error::chain(Code::Internal, &error), "a connection broke");
                }
                return;
            }
            Some(()) = &mut gone => return,
            () = drain.begun(), if !is_leaving => {
                is_leaving = true;
                connection.as_mut().graceful_shutdown();
            }
            () = &mut silence, if !asked.load(Ordering::Relaxed) => {
                // It may have asked while this was waited for.
                if asked.load(Ordering::Relaxed) {
                    continue;
                }
                if is_told {
                    return;
                }
                is_told = true;
                connection.as_mut().graceful_shutdown();
                silence.set(tokio::time::sleep(patience));
            }
        }
    }
}

type Answer = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Keeps a connection's answers in the connection's own task. They share its lock and do next to nothing
/// themselves, so on other threads they would wait for it and for each other.
#[derive(Clone)]
struct Aside(mpsc::UnboundedSender<Answer>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Aside {
    fn execute(&self, answer: F) {
        // A connection that is over wants no more.
        let _unwanted = self.0.send(Box::pin(answer));
    }
}

/// Notes that something was asked, and by whom.
struct Asked<S> {
    service: S,
    peer: Peer,
    asked: Arc<AtomicBool>,
}

impl<S: Service<Request<Incoming>>> Service<Request<Incoming>> for Asked<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn call(&self, mut request: Request<Incoming>) -> S::Future {
        self.asked.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(self.peer);
        self.service.call(request)
    }
}
