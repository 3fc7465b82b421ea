//! Where a stream can be had.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use penstock_proto::loan::SCHEME;

/// The gateways that serve the same tickets, this one among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fleet {
    /// The location of every gateway; this one's first.
    locations: Vec<String>,
    /// Where this one is reached as well by those on its machine; what any client understands first.
    nearby: Vec<String>,
}

/// How gateways are spoken to; those of a fleet alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Plain,
    Tls,
}

impl Fleet {
    /// `own` is a location; `others`, addresses or locations, may name this gateway as well.
    pub(crate) fn new(own: String, nearby: Vec<String>, others: &[String], scheme: Scheme) -> Self {
        let mut rest: Vec<String> = others.iter().map(|address| scheme.location(address)).collect();
        rest.sort_unstable();
        rest.dedup();
        rest.retain(|other| *other != own);
        let mut locations = vec![own];
        locations.append(&mut rest);
        Self { locations, nearby }
    }

    /// This gateway's location.
    pub(crate) fn own(&self) -> &str {
        &self.locations[0]
    }

    /// Where a rank's stream is served: everywhere, but ranks begin at different gateways so that the
    /// fleet shares the work. A neighbour is told this one's socket right behind its address, which any
    /// client understands, and behind that what only ours do.
    pub(crate) fn locations(&self, rank: u32, is_neighbour: bool) -> impl Iterator<Item = &str> {
        let count = self.locations.len();
        let first = rank as usize % count;
        (first..first + count).map(move |index| index % count).flat_map(move |index| {
            let nearby = if is_neighbour && index == 0 { self.nearby.as_slice() } else { &[] };
            std::iter::once(&self.locations[index]).chain(nearby).map(String::as_str)
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    const SOCKET: &str = "grpc+unix:///s";
    const LENT: &str = "penstock+memfd:///s";

    fn fleet(nearby: &[&str]) -> Fleet {
        let others = ["b:1", "grpc://a:1", "c:1"].map(str::to_owned);
        Fleet::new(
            "grpc://a:1".to_owned(),
            nearby.iter().map(|&place| place.to_owned()).collect(),
            &others,
            Scheme::Plain,
        )
    }

    #[test]
    fn every_rank_is_told_every_gateway_once() {
        let fleet = fleet(&[]);
        let told = |rank| fleet.locations(rank, true).collect::<Vec<_>>();
        assert_eq!(told(0), ["grpc://a:1", "grpc://b:1", "grpc://c:1"]);
        assert_eq!(told(4), ["grpc://b:1", "grpc://c:1", "grpc://a:1"]);
    }

    #[test]
    fn a_neighbour_is_told_the_socket_behind_the_address_it_belongs_to() {
        let fleet = fleet(&[SOCKET, LENT]);
        let told = |rank, is_neighbour| fleet.locations(rank, is_neighbour).collect::<Vec<_>>();
        assert_eq!(told(0, true), ["grpc://a:1", SOCKET, LENT, "grpc://b:1", "grpc://c:1"]);
        assert_eq!(told(1, true), ["grpc://b:1", "grpc://c:1", "grpc://a:1", SOCKET, LENT]);
        assert_eq!(told(1, false), ["grpc://b:1", "grpc://c:1", "grpc://a:1"]);
    }

    #[test]
    fn a_secured_fleet_is_told_as_one() {
        assert_eq!(Scheme::Tls.location("a:1"), "grpc+tls://a:1");
        assert_eq!(Scheme::Tls.location("grpc://b:1"), "grpc://b:1");
    }

    #[test]
    fn a_wildcard_is_told_as_the_machines_name() {
        let name = || Some("node7".to_owned());
        assert_eq!(advertised("0.0.0.0:81".parse().unwrap(), name), "node7:81");
        assert_eq!(advertised("[::]:81".parse().unwrap(), || None), "[::1]:81");
        assert_eq!(advertised("10.0.0.1:81".parse().unwrap(), name), "10.0.0.1:81");
    }
}
