//! Where a stream can be had.

use std::net::{IpAddr, SocketAddr};

/// The gateways that serve the same tickets, this one among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fleet {
    /// `grpc://HOST:PORT` of every gateway; this one's first.
    locations: Vec<String>,
}

impl Fleet {
    /// `others` may name this gateway as well.
    pub(crate) fn new(own: &str, others: &[String]) -> Self {
        let mut locations = vec![location(own)];
        let mut rest: Vec<String> = others.iter().map(|address| location(address)).collect();
        rest.sort_unstable();
        rest.dedup();
        rest.retain(|other| *other != locations[0]);
        locations.append(&mut rest);
        Self { locations }
    }

    /// This gateway's location.
    pub(crate) fn own(&self) -> &str {
        &self.locations[0]
    }

    /// Where a rank's stream is served: everywhere, but ranks begin at different gateways so that the
    /// fleet shares the work.
    pub(crate) fn locations(&self, rank: u32) -> impl Iterator<Item = &str> {
        let first = rank as usize % self.locations.len();
        let (before, from) = self.locations.split_at(first);
        from.iter().chain(before).map(String::as_str)
    }
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

fn location(address: &str) -> String {
    if address.contains("://") { address.to_owned() } else { format!("grpc://{address}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_is_told_every_gateway_once() {
        let fleet = Fleet::new("a:1", &["b:1".to_owned(), "grpc://a:1".to_owned(), "c:1".to_owned()]);
        let told = |rank| fleet.locations(rank).collect::<Vec<_>>();
        assert_eq!(told(0), ["grpc://a:1", "grpc://b:1", "grpc://c:1"]);
        assert_eq!(told(4), ["grpc://b:1", "grpc://c:1", "grpc://a:1"]);
    }

    #[test]
    fn a_wildcard_is_told_as_the_machines_name() {
        let name = || Some("node7".to_owned());
        assert_eq!(advertised("0.0.0.0:81".parse().unwrap(), name), "node7:81");
        assert_eq!(advertised("[::]:81".parse().unwrap(), || None), "[::1]:81");
        assert_eq!(advertised("10.0.0.1:81".parse().unwrap(), name), "10.0.0.1:81");
    }
}
