//! Slots between a feed and its trainer: which are free, who waits since when, and what large batches have leased.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use penstock_proto::{Code, Error};
use penstock_ring::{FreeSlot, Ring, SlotId};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::delivery::Consumer;
use super::memory::Leased;
use super::waiting::Waiting;
use crate::account::Sitting;
use crate::metrics;

/// The feed's side of its ring. The ring comes when the size of its slots is known.
pub(super) struct Outlet {
    ring: OnceLock<Ring>,
    /// What the feed was given, ring included; given back when the trainer has left.
    leased: OnceLock<Leased>,
    released: Notify,
    with_trainer: AtomicU32,
    waiting: Waiting,
    /// What is counted of the feed; there with the ring.
    sitting: OnceLock<Sitting>,
    /// The feed's part in a delivery, if its steps are acknowledged.
    consumer: OnceLock<Consumer>,
    /// Of batches that have memory of their own, by the slot they occupy.
    leases: Mutex<BTreeMap<SlotId, Leased>>,
}

impl Outlet {
    pub(super) fn new() -> Self {
        Self {
            ring: OnceLock::new(),
            leased: OnceLock::new(),
            released: Notify::new(),
            with_trainer: AtomicU32::new(0),
            waiting: Waiting::default(),
            sitting: OnceLock::new(),
            consumer: OnceLock::new(),
            leases: Mutex::new(BTreeMap::new()),
        }
    }

    /// Gives it its ring, the bytes that this is part of, and what counts it, once.
    pub(super) fn install(&self, ring: Ring, leased: Leased, sitting: Sitting) -> &Ring {
        self.leased.get_or_init(|| leased);
        self.sitting.get_or_init(|| sitting);
        self.ring.get_or_init(|| ring)
    }

    /// Makes it part of a delivery, once.
    pub(super) fn join(&self, consumer: Consumer) -> &Consumer {
        self.consumer.get_or_init(|| consumer)
    }

    /// What is counted of the feed, once it has its ring.
    pub(super) fn sitting(&self) -> Option<&Sitting> {
        self.sitting.get()
    }

    /// Takes note that the trainer, which has received so many steps, waits for the next.
    pub(super) fn ask(&self, received: u64) {
        self.waiting.ask(received, self.with_trainer.load(Ordering::Acquire));
    }

    /// Whether the trainer has nothing to go on with: no ring yet, or no step that it asked for.
    pub(super) fn is_awaited(&self) -> bool {
        self.ring.get().is_none() || self.waiting.is_asked()
    }

    /// Waits for a free slot; there is one task that does.
    pub(super) async fn free_slot(&self) -> FreeSlot {
        loop {
            if let Some(slot) = self.ring.get().and_then(Ring::take) {
                return slot;
            }
            self.released.notified().await;
        }
    }

    /// Counts a slot as the trainer's, before it is told. Says since when it has been waiting for it, if it has.
    pub(super) fn hand_out(
        &self,
        slot: SlotId,
        epoch: u64,
        step: u64,
        leased: Option<Leased>,
    ) -> Option<Instant> {
        self.with_trainer.fetch_add(1, Ordering::AcqRel);
        if let Some(consumer) = self.consumer.get()
            && consumer.hand_out(slot, epoch, step)
        {
            metrics::offered_again();
        }
        if let Some(leased) = leased {
            self.leases.lock().unwrap_or_else(PoisonError::into_inner).insert(slot, leased);
        }
        self.waiting.hand_out()
    }

    /// Takes note that the trainer is done with a step. Where nothing waits for it, it is welcome all the
    /// same.
    ///
    /// # Errors
    /// The feed has no such step.
    pub(super) fn acknowledge(&self, epoch: u64, step: u64) -> Result<(), Error> {
        match self.consumer.get() {
            Some(consumer) => consumer.acknowledge(epoch, step),
            None => Ok(()),
        }
    }

    /// Takes a slot back from the trainer.
    ///
    /// # Errors
    /// It does not hold that slot.
    pub(super) fn take_back(&self, slot: SlotId) -> Result<(), Error> {
        let Some(ring) = self.ring.get() else {
            return Err(Error::new(Code::Internal, "the trainer released a slot before it had a ring"));
        };
        // Before the slot can be another step's.
        if let Some(consumer) = self.consumer.get() {
            consumer.give_back(slot);
        }
        ring.release(slot).map_err(|error| Error::chain(Code::Internal, &error))?;
        self.leases.lock().unwrap_or_else(PoisonError::into_inner).remove(&slot);
        let held = self.with_trainer.fetch_sub(1, Ordering::AcqRel) - 1;
        if let Some(sitting) = self.sitting.get() {
            sitting.taken_back();
        }
        self.waiting.hold(held);
        self.released.notify_one();
        Ok(())
    }
}
