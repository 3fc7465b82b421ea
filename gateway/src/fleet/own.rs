//! How a gateway knows itself in a list.
//!
//! In: the location that clients are told, what was bound, and locations. Out: which of them is this gateway. The
//! promise: what the operator says (`--advertise`) counts first; else a location is this gateway's if its port is
//! the one that was bound and its host is this machine. Behind a translated address neither can be seen from here,
//! and `--advertise` must say it.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use futures::future::join_all;
use tokio::time::timeout;

use super::source::LOOK_UP;

/// This gateway, as it knows itself.
pub(super) struct Own {
    /// As clients are told it.
    pub(super) location: String,
    /// The port behind it, if there is one.
    pub(super) bound: Option<SocketAddr>,
}

impl Own {
    /// The place of this gateway among some locations.
    pub(super) async fn find(&self, locations: &[String]) -> Option<usize> {
        let said = locations.iter().position(|location| *location == self.location);
        if said.is_some() {
            return said;
        }
        let asked = locations.iter().map(|location| self.answers_at(location));
        join_all(asked).await.into_iter().position(|is_own| is_own)
    }

    async fn answers_at(&self, location: &str) -> bool {
        let Some(bound) = self.bound else { return false };
        let Some((_, host_and_port)) = location.split_once("://") else { return false };
        let port = host_and_port.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        // Names are asked for only where the port leaves it open.
        if port != Some(bound.port()) {
            return false;
        }
        match timeout(LOOK_UP, tokio::net::lookup_host(host_and_port)).await {
            Ok(Ok(mut addresses)) => addresses.any(|address| is_behind(bound.ip(), address.ip())),
            Ok(Err(_)) | Err(_) => false,
        }
    }
}

/// Whether who listens at `bound` is reached at `ip`: only an address of this machine can be bound.
fn is_behind(bound: IpAddr, ip: IpAddr) -> bool {
    if bound.is_unspecified() { UdpSocket::bind((ip, 0)).is_ok() } else { ip == bound }
}
