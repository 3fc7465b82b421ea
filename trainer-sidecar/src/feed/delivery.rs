//! What one rank's trainers have acknowledged of a delivery: kept for as long as the sidecar lives, so
//! that a trainer that comes back is offered what the one before it left undone.
//!
//! In: steps handed out, slots given back, acknowledgements. Out: which steps are still to be offered.
//! The promise: a step is done when it was acknowledged and not before; one that was given back without
//! is offered again, the lowest first; one consumer at a time, the latest. It holds no rows: what must be
//! offered again is read again. It knows no gateway and no connection.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use penstock_proto::delivery::Tally;
use penstock_proto::{Code, Error, Rank, SnapshotId};
use penstock_ring::SlotId;
use tokio::sync::watch;
use tokio::time::timeout;

/// Deliveries that are remembered when all is done; a job has one at a time and kind.
const MOST: usize = 256;
/// For a predecessor's connection to be read to its end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// All deliveries of a sidecar.
#[derive(Default)]
pub(crate) struct Deliveries(Mutex<VecDeque<Arc<Delivery>>>);

/// What makes feeds the same for all consumers of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) snapshot: SnapshotId,
    pub(super) steps_per_epoch: u64,
    /// The first step, counted from the first of epoch 0.
    pub(super) first: u64,
    /// The step behind the last.
    pub(super) end: u64,
}

struct Delivery {
    name: String,
    rank: Rank,
    extent: Extent,
    state: Mutex<State>,
    /// Told of every change.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    /// Every step below is done.
    done_below: u64,
    /// Done beyond that.
    done: BTreeSet<u64>,
    /// With the present consumer.
    held: BTreeMap<SlotId, u64>,
    /// Every step below was handed out before.
    offered: u64,
    consumers: u64,
    /// Consumers that are still there, superseded ones included.
    present: u32,
}

/// A connection's part in a delivery.
pub(super) struct Consumer {
    delivery: Arc<Delivery>,
    /// Which of its consumers this is.
    number: u64,
    changed: watch::Receiver<()>,
}

impl Deliveries {
    /// A new consumer of the delivery; the one before it is superseded.
    ///
    /// # Errors
    /// The delivery is one of another feed.
    pub(super) fn enter(&self, name: &str, rank: Rank, extent: &Extent) -> Result<Consumer, Error> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().find(|known| known.name == name && known.rank == rank);
        let delivery = if let Some(delivery) = found {
            Arc::clone(delivery)
        } else {
            let state = State { done_below: extent.first, offered: extent.first, ..State::default() };
            let delivery = Arc::new(Delivery {
                name: name.to_owned(),
                rank,
                extent: extent.clone(),
                state: Mutex::new(state),
                changed: watch::Sender::new(()),
            });
            if known.len() >= MOST
                && let Some(over) = known.iter().position(|delivery| delivery.tally().is_done())
            {
                known.remove(over);
            }
            known.push_back(Arc::clone(&delivery));
            delivery
        };
        if delivery.extent != *extent {
            return Err(Error::new(
                Code::InvalidFeed,
                format!("delivery \"{name}\" was begun with another feed: give every pass a name of its own"),
            ));
        }
        let changed = delivery.changed.subscribe();
        let mut state = delivery.state();
        state.consumers += 1;
        state.present += 1;
        // What its predecessor held and did not acknowledge is nobody's now.
        state.held.clear();
        let number = state.consumers;
        drop(state);
        delivery.changed.send_replace(());
        Ok(Consumer { delivery, number, changed })
    }
}

impl Delivery {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tally(&self) -> Tally {
        let (state, Extent { first, end, .. }) = (self.state(), &self.extent);
        let acknowledged = state.done_below - first + state.done.len() as u64;
        Tally { acknowledged, steps: end - first }
    }
}

impl State {
    fn is_done(&self, step: u64) -> bool {
        step < self.done_below || self.done.contains(&step)
    }

    fn finish(&mut self, step: u64) {
        if step >= self.done_below {
            self.done.insert(step);
            while self.done.remove(&self.done_below) {
                self.done_below += 1;
            }
        }
    }
}

/// Completes the tally for this module.
trait IsDone {
    fn is_done(&self) -> bool;
}

impl IsDone for Tally {
    fn is_done(&self) -> bool {
        self.acknowledged >= self.steps
    }
}

impl Consumer {
    fn index(&self, epoch: u64, step: u64) -> u64 {
        epoch.saturating_mul(self.delivery.extent.steps_per_epoch).saturating_add(step)
    }

    /// Epoch and step to read from for everything that is not done.
    pub(super) fn position(&self, index: u64) -> (u64, u64) {
        let steps = self.delivery.extent.steps_per_epoch.max(1);
        (index / steps, index % steps)
    }

    /// Waits until no other consumer is there, within reason: what a trainer that has just died said before
    /// may not have been read yet.
    pub(super) async fn alone(&self) {
        let mut changed = self.changed.clone();
        let others_left = async {
            loop {
                changed.mark_unchanged();
                if self.delivery.state().present <= 1 {
                    return;
                }
                drop(changed.changed().await);
            }
        };
        // One that lives on is told that it was superseded, and is not waited for.
        let _in_time = timeout(LAST_WORDS, others_left).await;
    }

    /// The first step that is not done.
    pub(super) fn first_undone(&self) -> u64 {
        self.delivery.state().done_below
    }

    /// Whether a step that was read is to be handed out.
    pub(super) fn wants(&self, epoch: u64, step: u64) -> bool {
        let (index, state) = (self.index(epoch, step), self.delivery.state());
        !state.is_done(index) && !state.held.values().any(|held| *held == index)
    }

    /// Notes that the trainer gets a step; says whether it, or another before it, was offered it before.
    pub(super) fn hand_out(&self, slot: SlotId, epoch: u64, step: u64) -> bool {
        let index = self.index(epoch, step);
        let mut state = self.delivery.state();
        if state.consumers == self.number {
            state.held.insert(slot, index);
        }
        let again = index < state.offered;
        state.offered = state.offered.max(index + 1);
        again
    }

    /// Notes that the trainer gave a slot back. What it did not acknowledge is to be offered again.
    pub(super) fn give_back(&self, slot: SlotId) {
        let mut state = self.delivery.state();
        if state.consumers == self.number {
            state.held.remove(&slot);
            drop(state);
            self.delivery.changed.send_replace(());
        }
    }

    /// Notes that a step is done. A consumer that was superseded may still say so of what it had.
    ///
    /// # Errors
    /// There is no such step.
    pub(super) fn acknowledge(&self, epoch: u64, step: u64) -> Result<(), Error> {
        let index = self.index(epoch, step);
        let Extent { first, end, steps_per_epoch, .. } = self.delivery.extent;
        if step >= steps_per_epoch || !(first..end).contains(&index) {
            return Err(Error::new(
                Code::Internal,
                format!(
                    "the trainer acknowledged step {step} of epoch {epoch}, which the feed does not have"
                ),
            ));
        }
        self.delivery.state().finish(index);
        self.delivery.changed.send_replace(());
        Ok(())
    }

    /// Waits until a step must be offered again and gives the lowest; `None` when all are done.
    pub(super) async fn outstanding(&self) -> Option<u64> {
        let mut changed = self.changed.clone();
        loop {
            changed.mark_unchanged();
            match self.outlook() {
                Outlook::Offer(step) => return Some(step),
                Outlook::Done => return None,
                // The sender is ours.
                Outlook::Held => drop(changed.changed().await),
            }
        }
    }

    fn outlook(&self) -> Outlook {
        let (state, end) = (self.delivery.state(), self.delivery.extent.end);
        if state.done_below >= end {
            return Outlook::Done;
        }
        let held: BTreeSet<u64> = state.held.values().copied().collect();
        let open = (state.done_below..end).find(|step| !state.is_done(*step) && !held.contains(step));
        open.map_or(Outlook::Held, Outlook::Offer)
    }

    /// Returns when a later consumer has taken over.
    pub(super) async fn superseded(&self) -> Error {
        let mut changed = self.changed.clone();
        loop {
            changed.mark_unchanged();
            if self.delivery.state().consumers != self.number {
                return Error::new(
                    Code::Cancelled,
                    "another consumer has taken over this delivery: one at a time is fed",
                );
            }
            drop(changed.changed().await);
        }
    }

    pub(super) fn tally(&self) -> Tally {
        self.delivery.tally()
    }
}

enum Outlook {
    Offer(u64),
    Held,
    Done,
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let mut state = self.delivery.state();
        state.present -= 1;
        if state.consumers == self.number {
            state.held.clear();
        }
        drop(state);
        self.delivery.changed.send_replace(());
    }
}

#[cfg(test)]
mod tests;
