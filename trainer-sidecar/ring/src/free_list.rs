//! Which slots are free, being written, or with the trainer.
//!
//! *In:* take, hand out, give back, release. *Out:* exclusive possession of a slot's memory, as a
//! value. *Promise:* a slot is in one state; slots come back in any order; what was not handed out
//! cannot be released. *Knows nothing* of memory: it passes any `T` on, by value.

use std::collections::VecDeque;

/// Index of a slot in its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub u32);

impl std::fmt::Display for SlotId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A trainer gave back what it does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// There is no such slot.
    #[error("the trainer released slot {slot}, but the ring has {slots}")]
    Unknown {
        /// The number it sent.
        slot: SlotId,
        /// Slots of the ring.
        slots: usize,
    },
    /// The slot is free or being written.
    #[error("the trainer released slot {slot}, which it does not hold")]
    NotHeld {
        /// The number it sent.
        slot: SlotId,
    },
}

pub(crate) struct FreeList<T> {
    slots: Vec<State<T>>,
    free: VecDeque<SlotId>,
}

enum State<T> {
    Free(T),
    Writing,
    HandedOut(T),
}

impl<T> FreeList<T> {
    pub(crate) fn new(slots: impl IntoIterator<Item = T>) -> FreeList<T> {
        let slots: Vec<_> = slots.into_iter().map(State::Free).collect();
        let free = (0..).take(slots.len()).map(SlotId).collect();
        FreeList { slots, free }
    }

    /// The slot that has been free the longest.
    pub(crate) fn take(&mut self) -> Option<(SlotId, T)> {
        let id = self.free.pop_front()?;
        match std::mem::replace(&mut self.slots[id.0 as usize], State::Writing) {
            State::Free(slot) => Some((id, slot)),
            State::Writing | State::HandedOut(_) => unreachable!("only free slots are queued"),
        }
    }

    /// Returns a taken slot unused.
    pub(crate) fn give_back(&mut self, id: SlotId, slot: T) {
        self.settle(id, State::Free(slot));
        self.free.push_back(id);
    }

    /// Marks a taken slot as being with the trainer.
    pub(crate) fn hand_out(&mut self, id: SlotId, slot: T) {
        self.settle(id, State::HandedOut(slot));
    }

    /// Frees a slot that the trainer held.
    pub(crate) fn release(&mut self, id: SlotId) -> Result<(), ReleaseError> {
        let slots = self.slots.len();
        let state = self.slots.get_mut(id.0 as usize).ok_or(ReleaseError::Unknown { slot: id, slots })?;
        match std::mem::replace(state, State::Writing) {
            State::HandedOut(slot) => {
                self.give_back(id, slot);
                Ok(())
            }
            other => {
                *state = other;
                Err(ReleaseError::NotHeld { slot: id })
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    fn settle(&mut self, id: SlotId, next: State<T>) {
        let state = &mut self.slots[id.0 as usize];
        assert!(matches!(state, State::Writing), "slot {id} was not taken");
        *state = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_back_in_any_order_and_only_once() {
        let mut list = FreeList::new(["a", "b", "c"]);
        let taken: Vec<_> = std::iter::from_fn(|| list.take()).collect();
        assert_eq!(taken, [(SlotId(0), "a"), (SlotId(1), "b"), (SlotId(2), "c")]);
        assert_eq!(
            list.release(SlotId(1)),
            Err(ReleaseError::NotHeld { slot: SlotId(1) }),
            "still being written"
        );
        for (id, slot) in taken {
            list.hand_out(id, slot);
        }
        assert_eq!(list.take(), None);
        assert_eq!(list.release(SlotId(2)), Ok(()));
        assert_eq!(list.release(SlotId(0)), Ok(()));
        assert_eq!(list.release(SlotId(0)), Err(ReleaseError::NotHeld { slot: SlotId(0) }));
        assert_eq!(list.release(SlotId(9)), Err(ReleaseError::Unknown { slot: SlotId(9), slots: 3 }));
        assert_eq!(list.take(), Some((SlotId(2), "c")));
        list.give_back(SlotId(2), "c");
        assert_eq!(list.take(), Some((SlotId(0), "a")));
        assert_eq!(list.take(), Some((SlotId(2), "c")));
        assert_eq!(list.take(), None);
    }
}
