//! The gateways that serve the same tickets, this one among them.
//!
//! In: where lists of gateways are found, and how this one is reached. Out: where a stream can be had, who owns which
//! lanes, and the rows of lanes that others own. The promise: all of it is a matter of speed. Whoever joins, leaves,
//! is slow or is not there, the same rows come in the same order, if need be from this gateway alone.
//!
//! # Nobody waits in a circle
//! A gateway that composes a stream holds all the memory that decoding every lane itself would take, before it asks
//! anybody: when an owner fails it goes on with what it has. An owner lends only what is free at that moment, never
//! waits for memory to do so, never asks a third gateway, and takes back what it lent when a stream of its own needs
//! it. So whoever waits for an owner waits for a disk and a CPU, for a bounded time, and nobody waits for the waiter
//! but its own reader.

mod link;
mod own;
pub mod owners;
mod pull;
mod shares;
mod source;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use penstock_daemon::Drain;
use penstock_proto::loan::SCHEME;

pub(crate) use self::link::Trust;
use self::own::Own;
pub(crate) use self::pull::{Puller, Wanted};
pub(crate) use self::shares::Shares;
pub use self::source::FleetError;
use self::source::Source;

/// The fleet as it is now; clones are the same.
#[derive(Clone)]
pub(crate) struct Fleet(Arc<Inner>);

struct Inner {
    own: Own,
    /// Where this one is reached as well by those on its machine; what any client understands first.
    nearby: Vec<String>,
    scheme: Scheme,
    sources: Vec<Source>,
    members: RwLock<Arc<Members>>,
}

/// The gateways at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Members {
    /// Locations as lists give them, sorted, each once; this gateway's is among them.
    names: Vec<String>,
    own: usize,
    /// What the sources said.
    listed: Vec<String>,
}

/// How gateways are spoken to; those of a fleet alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Plain,
    Tls,
}

impl Fleet {
    /// Looks who is there. `own` is this gateway's location as clients are told it, `bound` the port behind it;
    /// `sources` may name this gateway as well.
    ///
    /// # Errors
    /// A source that makes no sense, or a file that cannot be read. Names that are not known may be later.
    pub(crate) async fn open(
        own: String,
        bound: Option<SocketAddr>,
        nearby: Vec<String>,
        sources: &[String],
        scheme: Scheme,
    ) -> Result<Self, FleetError> {
        let sources = sources.iter().map(|text| Source::parse(text)).collect::<Result<Vec<_>, _>>()?;
        let own = Own { location: own, bound };
        let alone = Members { names: vec![own.location.clone()], own: 0, listed: Vec::new() };
        let fleet =
            Self(Arc::new(Inner { own, nearby, scheme, sources, members: RwLock::new(Arc::new(alone)) }));
        match fleet.look().await {
            Err(error @ FleetError::Unknown { .. }) => tracing::warn!(%error, "not found yet"),
            looked => looked?,
        }
        Ok(fleet)
    }

    /// Looks again at every interval, if anything may change, until the drain begins.
    pub(crate) fn watch(&self, interval: Duration, drain: &Drain) {
        if self.0.sources.iter().all(Source::is_fixed) {
            return;
        }
        let (fleet, leaving) = (self.clone(), drain.clone());
        drain.spawn("fleet", async move {
            let mut was_found = true;
            loop {
                tokio::select! {
                    () = leaving.begun() => return,
                    () = tokio::time::sleep(interval) => {}
                }
                let looked = fleet.look().await;
                // What was known stays; said when it changes, not every time.
                if let Err(error) = &looked
                    && was_found
                {
                    tracing::warn!(%error, "the fleet stays as it was known");
                }
                was_found = looked.is_ok();
            }
        });
    }

    /// Reads all sources and takes in who is there.
    async fn look(&self) -> Result<(), FleetError> {
        let Inner { own, scheme, sources, members, .. } = self.0.as_ref();
        let mut names = Vec::new();
        for source in sources {
            let found = source.look_up().await?;
            names.extend(found.iter().map(|address| scheme.location(address)));
        }
        names.sort_unstable();
        names.dedup();
        let known = self.members();
        if known.listed != names {
            let listed = names.clone();
            let place = own.find(&names).await;
            let own_name = place.map_or_else(|| own.location.clone(), |place| names[place].clone());
            if place.is_none() {
                names.push(own_name.clone());
                names.sort_unstable();
            }
            let own = names.iter().position(|name| *name == own_name).expect("it was found or added");
            tracing::info!(gateways = ?names, own = %own_name, is_listed = place.is_some(), "the fleet");
            let found = Arc::new(Members { names, own, listed });
            *members.write().unwrap_or_else(PoisonError::into_inner) = found;
        }
        metrics::gauge!("penstock_gateway_fleet_size").set(self.members().names.len() as f64);
        Ok(())
    }

    /// This gateway's location.
    pub(crate) fn own(&self) -> &str {
        &self.0.own.location
    }

    /// Who is there now.
    pub(crate) fn members(&self) -> Arc<Members> {
        Arc::clone(&self.0.members.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Where a rank's stream is served: everywhere, but ranks begin at different gateways so that the
    /// fleet shares the work. A neighbour is told this one's socket right behind its address, which any
    /// client understands, and behind that what only ours do.
    pub(crate) fn locations(&self, rank: u32, is_neighbour: bool) -> Vec<String> {
        let members = self.members();
        let others = (0..members.names.len()).filter(|place| *place != members.own);
        let mut locations: Vec<&str> =
            std::iter::once(self.own()).chain(others.map(|place| members.names[place].as_str())).collect();
        let count = locations.len();
        locations.rotate_left(rank as usize % count);
        let with_nearby = |location: &str| {
            let is_near = is_neighbour && location == self.own();
            let nearby = if is_near { self.0.nearby.as_slice() } else { &[] };
            std::iter::once(location.to_owned()).chain(nearby.iter().cloned()).collect::<Vec<_>>()
        };
        locations.into_iter().flat_map(with_nearby).collect()
    }
}

impl Members {
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// This gateway's place among the names.
    pub(crate) fn own(&self) -> usize {
        self.own
    }
}

impl Scheme {
    /// The location of an address, which may be one already.
    pub(crate) fn location(self, address: &str) -> String {
        let scheme = match self {
            _ if address.contains("://") => return address.to_owned(),
            Self::Plain => "grpc",
            Self::Tls => "grpc+tls",
        };
        format!("{scheme}://{address}")
    }
}

/// The location of a Unix socket.
pub(crate) fn socket_location(path: &Path) -> String {
    format!("grpc+unix://{}", path.display())
}

/// The location where a Unix socket's gateway lends memory.
pub(crate) fn lending_location(path: &Path) -> String {
    format!("{SCHEME}{}", path.display())
}

/// The address that clients are told when the operator names none: what was bound, and for a wildcard the
/// machine's name.
pub(crate) fn advertised(bound: SocketAddr, hostname: impl FnOnce() -> Option<String>) -> String {
    match bound.ip() {
        ip if !ip.is_unspecified() => bound.to_string(),
        ip => match hostname() {
            Some(name) => format!("{name}:{}", bound.port()),
            None if ip.is_ipv4() => format!("127.0.0.1:{}", bound.port()),
            None => SocketAddr::new(IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]), bound.port()).to_string(),
        },
    }
}
