//! Trainers at the socket: one connection, one feed, one ring.
//!
//! In: connections and what they ask for. Out: rings and batches, or one line that says why not. The
//! promise: a trainer that leaves, however it does, takes with it all that its feed held; a failure on
//! the way is always said before the connection ends. It knows no Arrow layout and no ticket.

mod connection;
mod delivery;
mod description;
mod memory;
mod outlet;
mod packing;
mod produce;
mod reader;
mod rounds;
mod size;
mod standing;
mod start;
mod telling;
mod waiting;

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use penstock_daemon::{Budget, Drain};
use penstock_proto::{Code, Error};
use penstock_ring::{Listener, Socket, ToSidecar, ToTrainer, seal_text};
use tokio::io::unix::AsyncFd;
use tracing::Instrument as _;

use self::connection::Connection;
pub(crate) use self::connection::register;
pub(crate) use self::delivery::Deliveries;
use self::outlet::Outlet;
use self::start::Start;
use crate::account::Accounts;
use crate::config::Deadlines;
use crate::metrics;
use crate::request::Request;
use crate::subscribe::{Address, Notices, Trust};

/// How long a failed feed's connection stays, for its trainer to read why.
const LINGER: Duration = Duration::from_secs(2);

/// What all feeds of a sidecar share.
pub(crate) struct House {
    /// For feeds that name no gateway.
    pub(crate) gateways: Vec<Address>,
    pub(crate) trust: Trust,
    pub(crate) deadlines: Deadlines,
    pub(crate) budget: Budget,
    /// Bytes that a feed begins with if it says nothing.
    pub(crate) portion: u64,
    pub(crate) deliveries: Deliveries,
    pub(crate) accounts: Accounts,
    pub(crate) drain: Drain,
}

/// Takes connections until the drain begins; the socket's file goes with it.
pub(crate) async fn accept(listener: AsyncFd<Listener>, house: Arc<House>) {
    loop {
        let accepted = tokio::select! {
            () = house.drain.begun() => return,
            accepted = connection::accept(&listener) => accepted,
        };
        match accepted {
            Ok(socket) => {
                let serve = serve(socket, Arc::clone(&house));
                house.drain.spawn("feed", serve);
            }
            Err(error) => {
                // Out of descriptors, most likely: connections wait in the kernel's queue meanwhile.
                tracing::warn!(%error, "cannot accept a trainer");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Serves one connection to its end.
async fn serve(socket: Socket, house: Arc<House>) {
    let ended = async {
        let connection = Connection::new(socket)?;
        match first_message(&connection, &house).await? {
            Some(json) => feed(&connection, &house, &json).await,
            None => Ok(()),
        }
    };
    if let Err(error) = ended.await {
        // The trainer is told of everything else; a connection that breaks can only be logged.
        tracing::debug!(%error, "connection to a trainer broke");
    }
}

/// Answers questions until the trainer opens a feed; gives the request. `None` when it left.
async fn first_message(connection: &Connection, house: &Arc<House>) -> io::Result<Option<String>> {
    loop {
        let message = tokio::select! {
            () = house.drain.begun() => return Ok(None),
            message = connection.receive() => message?,
        };
        match message {
            None => return Ok(None),
            Some(ToSidecar::Open { request }) => return Ok(Some(request)),
            Some(ToSidecar::Describe { request }) => describe(connection, house, &request).await?,
            Some(ToSidecar::Release { .. } | ToSidecar::Acknowledge { .. } | ToSidecar::Waiting { .. }) => {
                fail(
                    connection,
                    &Error::new(Code::Internal, "the trainer speaks of a feed before it opened one"),
                )
                .await?;
                return Ok(None);
            }
        }
    }
}

async fn describe(connection: &Connection, house: &Arc<House>, json: &str) -> io::Result<()> {
    let request = match Request::parse(json) {
        Ok(request) => request,
        Err(error) => return fail(connection, &error).await,
    };
    let (name, notices) = (request.name.clone(), Notices::default());
    let described = async {
        let start = Start::new(house, request, notices.clone()).await?;
        let text = start.description();
        let memory = seal_text(&text).map_err(|error| Error::chain(Code::Busy, &error))?;
        Ok((text.len() as u64, memory))
    };
    // A trainer that leaves while gateways are asked is noticed, for that can last.
    let described = tokio::select! {
        described = described => described,
        gone = connection.closed() => return gone,
        broken = telling::tell(connection, house, &name, &notices, || true) => return broken.map(|never| match never {}),
    };
    match described {
        Ok((bytes, memory)) => connection.send(&ToTrainer::Described { bytes }, Some(memory.as_fd())).await,
        Err(error) => fail(connection, &error).await,
    }
}

/// Runs a feed until its trainer leaves.
async fn feed(connection: &Connection, house: &Arc<House>, json: &str) -> io::Result<()> {
    let request = match Request::parse(json) {
        Ok(request) => request,
        Err(error) => return fail(connection, &error).await,
    };
    let span = tracing::info_span!("feed", name = %request.name, rank = %request.rank);
    run(connection, house, request).instrument(span).await
}

async fn run(connection: &Connection, house: &Arc<House>, request: Request) -> io::Result<()> {
    let _open = metrics::OpenFeed::new();
    let (outlet, notices) = (Outlet::new(), Notices::default());
    let name = request.name.clone();
    let ended = tokio::select! {
        ended = produce::run(connection, house, request, &outlet, notices.clone()) => ended.map(|()| Ended::Complete),
        told = telling::tell(connection, house, &name, &notices, || outlet.is_awaited()) => {
            told.map(|never| match never {}).or_else(|error| Ok(Ended::Left(Err(error))))
        }
        listened = listen(connection, &outlet) => match listened {
            Ok(Listened::Left) => Ok(Ended::Left(Ok(()))),
            Ok(Listened::Misspoke(error)) => Err(error),
            Err(error) => Ok(Ended::Left(Err(error))),
        },
        () = house.drain.begun() => Err(Error::new(
            Code::Draining,
            "the sidecar was told to stop: start it again and open the feed at the last cursor",
        )),
    };
    if let Some(sitting) = outlet.sitting() {
        sitting.report();
    }
    match ended {
        Ok(Ended::Left(how)) => {
            tracing::info!("the trainer left");
            how
        }
        // What was handed out is still being read.
        Ok(Ended::Complete) => tokio::select! {
            listened = listen(connection, &outlet) => listened.map(|_| ()),
            () = house.drain.begun() => Ok(()),
        },
        Err(error) => {
            // A trainer that has left by now is told nothing; what it acknowledged before counts all the same.
            let said = say_why(connection, &error).await;
            let _in_time = tokio::time::timeout(LINGER, listen(connection, &outlet)).await;
            said
        }
    }
}

/// How a feed ended that did not fail.
enum Ended {
    Complete,
    /// The trainer went away, or its connection broke.
    Left(io::Result<()>),
}

/// How listening to a trainer ended.
enum Listened {
    Left,
    Misspoke(Error),
}

/// Takes back slots until the trainer leaves.
async fn listen(connection: &Connection, outlet: &Outlet) -> io::Result<Listened> {
    loop {
        match connection.receive().await? {
            None => return Ok(Listened::Left),
            Some(ToSidecar::Release { slot }) => {
                if let Err(error) = outlet.take_back(slot) {
                    return Ok(Listened::Misspoke(error));
                }
            }
            Some(ToSidecar::Waiting { received }) => outlet.ask(received),
            Some(ToSidecar::Acknowledge { epoch, step }) => {
                if let Err(error) = outlet.acknowledge(epoch, step) {
                    return Ok(Listened::Misspoke(error));
                }
            }
            Some(ToSidecar::Open { .. } | ToSidecar::Describe { .. }) => {
                return Ok(Listened::Misspoke(Error::new(
                    Code::Internal,
                    "a connection is one feed: open another connection for another feed",
                )));
            }
        }
    }
}

/// Says why, and stays until the trainer has had time to read it.
async fn fail(connection: &Connection, error: &Error) -> io::Result<()> {
    say_why(connection, error).await?;
    // Closing with messages of the trainer unread would take the reason back.
    let _in_time = tokio::time::timeout(LINGER, connection.closed()).await;
    Ok(())
}

async fn say_why(connection: &Connection, error: &Error) -> io::Result<()> {
    tracing::warn!(code = error.code.name(), %error, "feed failed");
    let failed = ToTrainer::Failed { code: error.code.name().to_owned(), message: error.message.clone() };
    connection.send(&failed, None).await
}

#[cfg(test)]
mod tests;
