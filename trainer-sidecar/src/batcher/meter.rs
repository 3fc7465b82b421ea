//! Bytes of a feed that were received and are not packed yet.
//!
//! The reader waits when they reach the limit, and with it the gateway, by way of HTTP/2's window. The
//! limit may be passed by one part; and by a step that alone is larger, for it could never be complete
//! otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Clones count into the same sum.
#[derive(Clone)]
pub(crate) struct Meter(Arc<Shared>);

struct Shared {
    held: AtomicU64,
    limit: AtomicU64,
    /// Another limit, by what there is to read.
    ahead: AtomicU64,
    changed: Notify,
}

/// Bytes counted; uncounted on drop.
pub(crate) struct Held {
    meter: Meter,
    bytes: u64,
}

impl Meter {
    pub(crate) fn new(limit: u64) -> Self {
        let (held, limit, ahead) = (AtomicU64::new(0), AtomicU64::new(limit), AtomicU64::new(u64::MAX));
        Self(Arc::new(Shared { held, limit, ahead, changed: Notify::new() }))
    }

    pub(crate) fn held(&self) -> u64 {
        self.0.held.load(Ordering::Acquire)
    }

    pub(crate) fn set_limit(&self, limit: u64) {
        self.0.limit.store(limit, Ordering::Release);
        self.0.changed.notify_waiters();
    }

    /// Nobody needs more ahead than this, whatever the limit.
    pub(crate) fn set_ahead(&self, bytes: u64) {
        self.0.ahead.store(bytes, Ordering::Release);
        self.0.changed.notify_waiters();
    }

    pub(crate) fn hold(&self, bytes: u64) -> Held {
        self.0.held.fetch_add(bytes, Ordering::AcqRel);
        Held { meter: self.clone(), bytes }
    }

    /// Waits until there is room for more, or until nothing is held but the `own` bytes of the reader's
    /// incomplete step. Cancel-safe.
    pub(crate) async fn room(&self, own: u64) {
        loop {
            // Before looking, so that a change between looking and waiting is seen.
            let mut changed = std::pin::pin!(self.0.changed.notified());
            changed.as_mut().enable();
            let held = self.held();
            let limit = self.0.limit.load(Ordering::Acquire).min(self.0.ahead.load(Ordering::Acquire));
            if held < limit || held <= own {
                return;
            }
            changed.await;
        }
    }
}

impl Held {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.meter.0.held.fetch_sub(self.bytes, Ordering::AcqRel);
        self.meter.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn the_reader_waits_at_the_limit_and_goes_on_when_bytes_are_freed() {
        let meter = Meter::new(10);
        let (first, second) = (meter.hold(6), meter.hold(6));
        let mut room = std::pin::pin!(meter.room(0));
        assert!(room.as_mut().now_or_never().is_none());
        drop(first);
        room.await;
        meter.set_limit(100);
        meter.set_ahead(5);
        let mut room = std::pin::pin!(meter.room(0));
        assert!(room.as_mut().now_or_never().is_none());
        drop(second);
        room.await;
    }

    #[tokio::test]
    async fn a_step_larger_than_the_limit_goes_on_alone() {
        let meter = Meter::new(10);
        let (own, other) = (meter.hold(50), meter.hold(1));
        let mut room = std::pin::pin!(meter.room(own.bytes()));
        assert!(room.as_mut().now_or_never().is_none());
        drop(other);
        room.await;
    }
}
