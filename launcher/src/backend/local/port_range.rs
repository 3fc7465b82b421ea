//! Which ports a launcher may choose.
//!
//! In: the kernel's range for whoever asks for any port. Out: ports outside it. The promise: none of them goes to a
//! client's connection or to a program that lets the kernel choose.

use std::ops::RangeInclusive;
use std::time::{SystemTime, UNIX_EPOCH};

const KERNELS: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// Above the ports of well-known services and below those that Kubernetes gives to its.
const OURS: RangeInclusive<u16> = 10_000..=29_999;
/// A prime, so that two launchers of one moment begin far from each other.
const STRIDE: u32 = 7_919;

/// All ports that are ours to choose, each once, from a place on that differs between launchers: two that
/// start at once seldom want the same, and the one that comes second takes the next.
pub(super) fn candidates() -> impl Iterator<Item = u16> {
    let kernels = of_the_kernel();
    let ours: Vec<u16> = OURS.filter(|port| !kernels.contains(port)).collect();
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    let place = nanos.wrapping_add(std::process::id().wrapping_mul(STRIDE)) as usize;
    let first = place.checked_rem(ours.len()).unwrap_or(0);
    let length = ours.len();
    ours.into_iter().cycle().skip(first).take(length)
}

/// `32768 60999` unless somebody has set it.
pub(super) fn of_the_kernel() -> RangeInclusive<u16> {
    let text = std::fs::read_to_string(KERNELS).unwrap_or_default();
    parse(&text).unwrap_or(32_768..=60_999)
}

fn parse(text: &str) -> Option<RangeInclusive<u16>> {
    let mut bounds = text.split_ascii_whitespace().map(str::parse);
    Some(bounds.next()?.ok()?..=bounds.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_range_is_read() {
        assert_eq!(parse("32768\t60999\n"), Some(32_768..=60_999));
        assert_eq!(parse(""), None);
    }

    #[test]
    fn every_candidate_comes_once_and_is_outside() {
        let kernels = of_the_kernel();
        let all: Vec<_> = candidates().collect();
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert!(all.iter().all(|port| OURS.contains(port) && !kernels.contains(port)));
    }
}
