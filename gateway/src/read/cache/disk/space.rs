//! Which parts of a file are free.
//!
//! In: sizes, and parts that are free again. Out: parts that are not. The promise: no byte is taken twice, and what is
//! free can be taken, in several parts where it does not lie together. It knows no file.

use std::collections::BTreeMap;
use std::ops::Range;

/// Parts begin and end at multiples of this, as pages and blocks of file systems do.
const UNIT: u64 = 4 << 10;
/// Free parts that are looked at to find one that is large enough.
const LOOKS: usize = 64;

pub(super) struct Space {
    /// Where free parts begin and end; between two of them something is taken.
    free: BTreeMap<u64, u64>,
    bytes: u64,
}

/// What so many bytes take.
pub(super) fn rounded(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(UNIT)
}

impl Space {
    pub(super) fn new(bytes: u64) -> Self {
        let bytes = bytes - bytes % UNIT;
        let free = if bytes == 0 { BTreeMap::new() } else { BTreeMap::from([(0, bytes)]) };
        Self { free, bytes }
    }

    /// Parts for so many bytes, one if one is found, the lowest if several must do.
    pub(super) fn take(&mut self, bytes: u64) -> Option<Vec<Range<u64>>> {
        let mut missing = rounded(bytes);
        self.bytes = self.bytes.checked_sub(missing)?;
        let mut parts = self.free.iter().take(LOOKS);
        let mut whole = parts.find(|&(start, end)| end - start >= missing).map(|(&start, _)| start);
        let mut taken = Vec::with_capacity(1);
        while missing > 0 {
            let part = match whole.take() {
                Some(start) => self.free.remove_entry(&start),
                None => self.free.pop_first(),
            };
            let (start, end) = part.expect("free parts have the bytes that are free");
            let cut = end.min(start + missing);
            if cut < end {
                self.free.insert(cut, end);
            }
            missing -= cut - start;
            taken.push(start..cut);
        }
        Some(taken)
    }

    /// A part is free again.
    pub(super) fn give_back(&mut self, Range { mut start, mut end }: Range<u64>) {
        self.bytes += end - start;
        if let Some((&before, &until)) = self.free.range(..start).next_back()
            && until == start
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(until) = self.free.remove(&end) {
            end = until;
        }
        self.free.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BYTES: u64 = 100 * UNIT;

    proptest! {
        #[test]
        fn no_byte_is_taken_twice_and_every_free_one_can_be(
            acts in prop::collection::vec((any::<bool>(), 0..20 * UNIT, any::<prop::sample::Index>()), 1..200)
        ) {
            let mut space = Space::new(BYTES + UNIT - 1);
            let mut taken: Vec<Vec<Range<u64>>> = Vec::new();
            let bytes = |parts: &[Range<u64>]| parts.iter().map(|part| part.end - part.start).sum::<u64>();
            for (takes, size, which) in acts {
                if takes || taken.is_empty() {
                    let free = BYTES - taken.iter().map(|parts| bytes(parts)).sum::<u64>();
                    let parts = space.take(size);
                    prop_assert_eq!(parts.is_some(), rounded(size) <= free);
                    if let Some(parts) = parts {
                        prop_assert_eq!(bytes(&parts), rounded(size));
                        taken.push(parts);
                    }
                } else {
                    let parts = taken.swap_remove(which.index(taken.len()));
                    parts.into_iter().for_each(|part| space.give_back(part));
                }
                let mut all: Vec<(u64, u64)> = taken.iter().flatten().map(|part| (part.start, part.end)).collect();
                all.extend(space.free.iter().map(|(&start, &end)| (start, end)));
                all.sort_unstable();
                prop_assert!(all.is_sorted_by(|before, after| before.1 == after.0));
                prop_assert_eq!((all[0].0, all[all.len() - 1].1), (0, BYTES));
            }
            taken.into_iter().flatten().for_each(|part| space.give_back(part));
            let whole = space.take(BYTES).unwrap();
            prop_assert_eq!((whole.len(), &whole[0]), (1, &(0..BYTES)));
        }
    }
}
