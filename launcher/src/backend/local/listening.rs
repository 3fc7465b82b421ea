//! Which ports somebody on this machine listens on.
//!
//! In: the kernel's tables of TCP sockets. Out: port numbers. The promise: nobody is connected to, since a server that
//! is not quite up takes a stranger's connection for a peer's.

use std::collections::BTreeSet;

/// The state of a listening socket, `TCP_LISTEN` of the kernel's `tcp_states.h`.
const LISTEN: &str = "0A";

/// Ports of sockets that listen, on any address.
pub(super) fn ports() -> BTreeSet<u16> {
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines()).filter_map(listening_port).collect()
}

/// `  0: 0100007F:1F90 00000000:0000 0A …`: a number, the local address, the remote one, the state.
fn listening_port(line: &str) -> Option<u16> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (_, port) = fields.next()?.rsplit_once(':')?;
    (fields.nth(1)? == LISTEN).then(|| u16::from_str_radix(port, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn ports_are_found_as_long_as_somebody_listens() {
        for address in ["127.0.0.1:0", "[::]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let port = listener.local_addr().unwrap().port();
            assert!(ports().contains(&port), "{address}");
            drop(listener);
            assert!(!ports().contains(&port), "{address}");
        }
    }

    #[test]
    fn other_lines_are_no_listeners() {
        assert_eq!(listening_port("  1: 0100007F:1F90 0100007F:A3C4 01 00000000:00000000"), None);
        assert_eq!(listening_port("  sl  local_address rem_address   st tx_queue"), None);
        assert_eq!(listening_port(""), None);
    }
}
