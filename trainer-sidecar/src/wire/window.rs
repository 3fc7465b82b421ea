//! HTTP/2's flow control (RFC 9113, section 5.2), both ways. With one stream on a connection, both
//! windows of a direction move together.

use super::Fault;
use super::frame::COMMON_PAYLOAD;

/// What a window is before anything was said.
pub(super) const INITIAL: u32 = 65_535;
const LARGEST: i64 = (1 << 31) - 1;

/// What the peer may send.
#[derive(Debug)]
pub(super) struct Inbound {
    size: u32,
    stream: i64,
    connection: i64,
    /// Received, and not allowed again yet.
    owed: u64,
}

impl Inbound {
    pub(super) fn new(size: u32) -> Self {
        Self { size, stream: size.into(), connection: size.max(INITIAL).into(), owed: 0 }
    }

    /// Takes in that `bytes` arrive, padding and all.
    pub(super) fn receive(&mut self, bytes: u32) -> Result<(), Fault> {
        self.stream -= i64::from(bytes);
        self.connection -= i64::from(bytes);
        if self.stream.min(self.connection) < 0 {
            return Err(Fault::Foreign("more data than the window allows"));
        }
        self.owed += u64::from(bytes);
        Ok(())
    }

    /// How much the peer is to be allowed again when `kept` bytes wait to be taken; little is not worth
    /// a frame.
    pub(super) fn refund(&mut self, kept: u64) -> Option<u32> {
        let bytes = u32::try_from(self.owed.saturating_sub(kept)).ok()?;
        if bytes == 0 || bytes < self.size / 4 {
            return None;
        }
        self.owed -= u64::from(bytes);
        self.stream += i64::from(bytes);
        self.connection += i64::from(bytes);
        Some(bytes)
    }
}

/// What the peer lets us send.
#[derive(Debug)]
pub(super) struct Outbound {
    initial: i64,
    stream: i64,
    connection: i64,
}

impl Outbound {
    pub(super) fn new() -> Self {
        let initial = INITIAL.into();
        Self { initial, stream: initial, connection: initial }
    }

    /// The peer changes the window that streams begin with, also for one that has begun.
    pub(super) fn set_initial(&mut self, bytes: u32) -> Result<(), Fault> {
        let more = i64::from(bytes) - self.initial;
        self.initial = bytes.into();
        raise(&mut self.stream, more)?;
        if self.initial > LARGEST { Err(TOO_LARGE) } else { Ok(()) }
    }

    pub(super) fn raise_stream(&mut self, bytes: u32) -> Result<(), Fault> {
        raise(&mut self.stream, bytes.into())
    }

    pub(super) fn raise_connection(&mut self, bytes: u32) -> Result<(), Fault> {
        raise(&mut self.connection, bytes.into())
    }

    /// How much of `wanted` may go as one frame; it counts as sent.
    pub(super) fn spend(&mut self, wanted: usize) -> usize {
        let allowed = usize::try_from(self.stream.min(self.connection)).unwrap_or(0);
        let bytes = wanted.min(allowed).min(COMMON_PAYLOAD);
        self.stream -= bytes as i64;
        self.connection -= bytes as i64;
        bytes
    }
}

const TOO_LARGE: Fault = Fault::Foreign("a window larger than there may be");

fn raise(window: &mut i64, bytes: i64) -> Result<(), Fault> {
    *window += bytes;
    if *window > LARGEST { Err(TOO_LARGE) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_is_allowed_again_what_was_taken_in_large_portions() {
        let mut inbound = Inbound::new(100_000);
        inbound.receive(65_000).unwrap();
        assert_eq!(inbound.refund(60_000), None, "60,000 wait, and 5,000 are little");
        assert_eq!(inbound.refund(30_000), Some(35_000));
        assert_eq!(inbound.refund(0), Some(30_000));
        inbound.receive(100_000).unwrap();
        assert!(inbound.receive(1).is_err());
    }

    #[test]
    fn a_window_below_the_first_one_of_connections_holds_for_the_stream() {
        let mut inbound = Inbound::new(1000);
        inbound.receive(1000).unwrap();
        assert!(inbound.receive(1).is_err());
    }

    #[test]
    fn what_is_sent_stays_inside_both_windows_and_a_frame() {
        let mut outbound = Outbound::new();
        assert_eq!(outbound.spend(1 << 20), COMMON_PAYLOAD);
        outbound.set_initial(20_000).unwrap();
        assert_eq!(outbound.spend(1 << 20), 20_000 - COMMON_PAYLOAD);
        assert_eq!(outbound.spend(1), 0);
        outbound.set_initial(0).unwrap();
        outbound.raise_stream(20_001).unwrap();
        assert_eq!(outbound.spend(5), 1);
        assert!(outbound.raise_connection(LARGEST as u32).is_err());
        assert!(outbound.set_initial(1 << 31).is_err());
    }
}
