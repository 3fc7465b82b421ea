//! How a feed divides its memory. Pure.

/// Slots when there is memory for them: prefetch, what the trainer holds, and some to spare.
const MOST_SLOTS: u64 = 8;
/// A trainer copies what takes the last slot, so one will do.
const FEWEST_SLOTS: u64 = 1;
/// One in the trainer's hands, one on its way there, one being written: a trainer that takes nothing ahead copies nothing.
const FAIR_SLOTS: u64 = 3;
/// Two prefetched, one in the trainer's hands, one on its way there, one being written.
const EASY_SLOTS: u64 = 5;
const LEAST_CONNECTION: u64 = 64 << 10;
const MOST_CONNECTION: u64 = 32 << 20;

/// Bytes that HTTP/2 may have in flight: half of the connection's. The other half is memory that waits to
/// be received into again.
pub(super) fn window(memory: u64) -> u32 {
    u32::try_from(connection(memory) / 2).expect("the largest window fits")
}

/// Bytes of a feed's connection: a sixteenth.
fn connection(memory: u64) -> u64 {
    (memory / 16).clamp(LEAST_CONNECTION, MOST_CONNECTION)
}

/// Ring and queue of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Division {
    pub(super) slots: u32,
    /// Bytes received and not packed yet.
    pub(super) queue: u64,
}

/// The least memory for slots of that size: the ring's fewest, and a step on its way into them.
pub(super) fn needed(slot_bytes: u64) -> u64 {
    let slots = slot_bytes.saturating_mul(FEWEST_SLOTS + 1);
    // The connection's is a sixteenth of the whole.
    slots.saturating_add((slots / 15).clamp(LEAST_CONNECTION, MOST_CONNECTION))
}

/// Memory with which no trainer that keeps one batch has to copy it.
pub(super) fn fair(slot_bytes: u64) -> u64 {
    let slots = slot_bytes.saturating_mul(FAIR_SLOTS + 1);
    slots.saturating_add((slots / 15 + 1).clamp(LEAST_CONNECTION, MOST_CONNECTION))
}

/// Memory with which no trainer that prefetches two batches has to give a slot back early.
pub(super) fn easy(slot_bytes: u64) -> u64 {
    let halves = slot_bytes.saturating_mul(2 * EASY_SLOTS);
    halves.saturating_add((halves / 15 + 1).clamp(LEAST_CONNECTION, MOST_CONNECTION))
}

/// Half for slots, as far as they are wanted, the rest for the queue, which has room for one step at least. `None`
/// below [`needed`].
pub(super) fn divide(memory: u64, slot_bytes: u64) -> Option<Division> {
    if memory < needed(slot_bytes) {
        return None;
    }
    let left = memory - connection(memory);
    let slot_bytes = slot_bytes.max(1);
    let fewest = (left / slot_bytes).saturating_sub(1).clamp(FEWEST_SLOTS, FAIR_SLOTS);
    let slots = (left / 2 / slot_bytes).clamp(fewest, MOST_SLOTS);
    let queue = left.checked_sub(slots * slot_bytes)?;
    Some(Division { slots: u32::try_from(slots).expect("few"), queue })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_large_memory_has_all_slots_and_a_small_one_one() {
        assert_eq!(divide(256 << 20, 1 << 20).unwrap().slots, 8);
        assert_eq!(divide(needed(8 << 20), 8 << 20).unwrap().slots, 1);
        assert_eq!(divide(needed(8 << 20) - 1, 8 << 20), None);
        assert_eq!(divide(needed(8 << 20) + (9 << 20), 8 << 20).unwrap().slots, 2, "before a longer queue");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn the_parts_are_the_whole(slot_bytes in 4096_u64..(1 << 34), more in 0_u64..(1 << 34)) {
            let memory = needed(slot_bytes) + more;
            let Division { slots, queue } = divide(memory, slot_bytes).unwrap();
            prop_assert_eq!(u64::from(slots) * slot_bytes + queue + connection(memory), memory);
            prop_assert!(queue >= slot_bytes, "a step on its way fits");
        }

        #[test]
        fn what_is_easy_has_its_slots(slot_bytes in 4096_u64..(1 << 34)) {
            prop_assert!(u64::from(divide(easy(slot_bytes), slot_bytes).unwrap().slots) >= EASY_SLOTS);
            prop_assert!(u64::from(divide(fair(slot_bytes), slot_bytes).unwrap().slots) >= FAIR_SLOTS);
        }
    }
}
