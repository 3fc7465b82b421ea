//! Which address a delegation token is made out to.
//!
//! In: a NameNode's `HOST:PORT` and a token file. Out: the address that the file has a token for. Hadoop writes
//! tokens of a single NameNode out to its IP address unless told otherwise, and looks them up by that; the crate
//! looks up the address as it was given. A nameservice's tokens bear its name and need nothing of this.

use std::net::ToSocketAddrs as _;

/// The address itself, or the one of its IP addresses that a token is made out to. Asks the name service.
pub(super) fn address_with_token(address: &str, tokens: &[u8]) -> String {
    if has(tokens, address) {
        return address.to_owned();
    }
    let ips = address.to_socket_addrs().into_iter().flatten().map(|ip| ip.to_string());
    ips.into_iter().find(|ip| has(tokens, ip)).unwrap_or_else(|| address.to_owned())
}

/// Whether a token is made out to a service. Its name stands in the file as it is, in either of the two formats,
/// and nothing else there looks like an address.
fn has(tokens: &[u8], service: &str) -> bool {
    tokens.windows(service.len()).any(|bytes| bytes == service.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_to_the_ip_address_is_found() {
        assert_eq!(address_with_token("localhost:9", b"HDTS..127.0.0.1:9.."), "127.0.0.1:9");
        assert_eq!(address_with_token("localhost:9", b"HDTS..localhost:9.."), "localhost:9");
        assert_eq!(address_with_token("localhost:9", b"HDTS..10.0.0.1:9.."), "localhost:9");
        assert_eq!(address_with_token("no host:9", b""), "no host:9");
    }
}
