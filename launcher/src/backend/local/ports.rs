//! Ports for the members of the cluster, held for the life of the job.
//!
//! In: how many. Out: bound sockets. The promise: from here to the end of the job no process of another
//! user and no socket without `SO_REUSEPORT` gets such a port, and TensorFlow, told by
//! `TF_GRPC_REUSE_PORT=true`, binds beside the holder without a gap. A holder does not listen, so no
//! connection ever reaches it.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// A port that is ours.
pub(super) struct HeldPort {
    pub(super) number: u16,
    _socket: OwnedFd,
}

/// A port that could not be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot reserve a port for the cluster: see `ss -lnt` for what occupies them: {source}")]
pub(super) struct PortError {
    source: std::io::Error,
}

impl HeldPort {
    /// Any port that is free on all addresses, since TensorFlow listens on all of them.
    pub(super) fn any() -> Result<Self, PortError> {
        hold(0).map_err(|error| PortError { source: error.into() })
    }
}

fn hold(port: u16) -> rustix::io::Result<HeldPort> {
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        // Closed in every child: the holder is the launcher alone.
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::net::sockopt::set_socket_reuseport(&socket, true)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?;
    let address = SocketAddrV4::try_from(rustix::net::getsockname(&socket)?)?;
    Ok(HeldPort { number: address.port(), _socket: socket })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_port_is_refused_to_others_and_shared_with_who_asks_to() {
        let held = HeldPort::any().unwrap();
        assert!(std::net::TcpListener::bind(("127.0.0.1", held.number)).is_err());
        assert!(hold(held.number).is_ok(), "as TensorFlow does");
    }

    #[test]
    fn ports_differ() {
        let held: Vec<_> = (0..20).map(|_| HeldPort::any().unwrap()).collect();
        let ports: std::collections::BTreeSet<_> = held.iter().map(|port| port.number).collect();
        assert_eq!(ports.len(), held.len());
    }
}
