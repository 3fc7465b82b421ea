//! The gateway as a server: datasets over Arrow Flight.
//!
//! In: a configuration. Out: a bound address, behind which any Flight client lists, plans and reads. The
//! promise: what is wrong with the configuration is said before the port opens; nothing is kept between
//! calls that a ticket does not say, or that is not told again until it is not needed any more, so any
//! gateway of a fleet answers for any other; a gateway told to leave takes no new readers and hands its
//! streams over.

mod action;
mod catalog;
mod deliveries;
mod info;
mod metrics;
mod plans;
mod resolve;
mod running;
mod service;
mod stream;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use penstock_daemon::{Budget, Drain};
use penstock_proto::{Code, Error};
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use self::catalog::Catalog;
pub use self::catalog::CatalogError;
use self::deliveries::Deliveries;
use self::plans::Plans;
use self::running::Running;
use crate::config::Config;
use crate::fleet::{Fleet, advertised};
use crate::store::Stores;

/// Windows of a stream and of a connection: wide enough for a fast link at some milliseconds, and the
/// connection's wide enough for several streams, so that one stopped reader does not stop its neighbours.
const STREAM_WINDOW_BYTES: u32 = 16 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;
/// No client sends more than a descriptor or a ticket.
const MAX_REQUEST_BYTES: usize = 16 << 20;
/// How soon a peer that vanished is noticed.
const KEEPALIVE: Duration = Duration::from_secs(60);
/// A server that leaves waits this long for its last streams, then closes their connections.
const LAST_STREAMS: Duration = Duration::from_secs(10);

/// Serves datasets.
pub struct Gateway {
    config: Config,
    catalog: Catalog,
    plans: Plans,
    deliveries: Deliveries,
    fleet: Fleet,
    budget: Budget,
    running: Running,
    drain: Drain,
}

/// A gateway that serves.
#[derive(Debug, Clone)]
pub struct Bound {
    /// What was bound; tells the port where 0 was asked for.
    pub address: SocketAddr,
    /// `grpc://HOST:PORT`, as clients are told.
    pub location: String,
}

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    #[error("cannot listen at {address}, which is in use: choose another --listen, or port 0 for a free one")]
    InUse { address: String },
    #[error("cannot listen at {address}: give HOST:PORT, where the host is one of this machine's")]
    Listen { address: String, source: io::Error },
}

impl Gateway {
    /// Looks at the datasets, opens the port and serves until the drain begins and the streams are handed
    /// over.
    ///
    /// # Errors
    /// When a dataset cannot be read, or the port cannot be opened.
    pub async fn start(config: Config, drain: &Drain) -> Result<Bound, StartError> {
        metrics::describe();
        let catalog = Catalog::open(&config.datasets, &Stores::new(config.hdfs.clone())).await?;
        let (listener, address) = listen(&config.listen).await?;
        let own = config.advertise.clone().unwrap_or_else(|| advertised(address, hostname));
        let fleet = Fleet::new(&own, &config.fleet);
        let location = fleet.own().to_owned();
        let budget = Budget::new(config.memory_bytes);
        let running = Running::default();
        let (plans, deliveries) = (Plans::default(), Deliveries::default());
        let (running_here, drain_here) = (running.clone(), drain.clone());
        let gateway = Self {
            config,
            catalog,
            plans,
            deliveries,
            fleet,
            budget,
            running: running_here,
            drain: drain_here,
        };

        let service = FlightServiceServer::new(service::Service(Arc::new(gateway)))
            .max_decoding_message_size(MAX_REQUEST_BYTES)
            // A single row may be larger than any limit.
            .max_encoding_message_size(usize::MAX);
        let leaving = drain.clone();
        let server = Server::builder()
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .add_service(service)
            .serve_with_incoming_shutdown(
                TcpIncoming::from(listener).with_nodelay(Some(true)).with_keepalive(Some(KEEPALIVE)),
                async move { leaving.begun().await },
            );
        let leaving = drain.clone();
        drain.spawn(format!("flight server {address}"), async move {
            let overdue = async {
                leaving.begun().await;
                tokio::time::sleep(LAST_STREAMS).await;
            };
            tokio::select! {
                served = server => {
                    if let Err(error) = served {
                        tracing::error!(error = %Error::chain(Code::Internal, &error), "the server failed");
                    }
                }
                () = overdue => tracing::warn!(streams = running.count(), "closing connections still in use"),
            }
        });
        Ok(Bound { address, location })
    }

    /// Refuses new readers while leaving.
    fn serving(&self) -> Result<(), Error> {
        if self.drain.has_begun() {
            return Err(Error::new(Code::Draining, "this gateway is leaving: ask another of the fleet"));
        }
        Ok(())
    }
}

async fn listen(address: &str) -> Result<(TcpListener, SocketAddr), StartError> {
    let listened = async {
        let listener = TcpListener::bind(address).await?;
        let bound = listener.local_addr()?;
        Ok((listener, bound))
    };
    listened.await.map_err(|source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => StartError::InUse { address: address.to_owned() },
        _ => StartError::Listen { address: address.to_owned(), source },
    })
}

/// What IPC cannot write was not fit to be read.
fn unwritable(error: &arrow::error::ArrowError) -> Error {
    Error::chain(Code::Internal, error)
}

fn hostname() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}
