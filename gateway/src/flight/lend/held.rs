//! Which bytes of a memory a reader holds.
//!
//! In: lengths, and places that became free. Out: places. The promise: no two that are held overlap. The
//! lowest place that fits is taken, for memory that was touched a moment ago is the quickest to write.

use std::collections::BTreeMap;

use penstock_proto::loan::ALIGNMENT;

pub(super) struct Held {
    size: u64,
    /// Ends by beginnings.
    held: BTreeMap<u64, u64>,
}

impl Held {
    pub(super) fn new(size: u64) -> Self {
        Self { size, held: BTreeMap::new() }
    }

    /// Bytes of the memory.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// A place for so many bytes, if there is one.
    pub(super) fn place(&mut self, bytes: u64) -> Option<u64> {
        let mut start = 0_u64;
        for (&held, &end) in &self.held {
            if held - start >= bytes {
                break;
            }
            start = end.next_multiple_of(ALIGNMENT);
        }
        let end = start.checked_add(bytes).filter(|&end| end <= self.size)?;
        self.held.insert(start, end);
        Some(start)
    }

    /// Whether that was held.
    pub(super) fn free(&mut self, place: u64) -> bool {
        self.held.remove(&place).is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_lowest_place_that_fits_is_taken() {
        let mut held = Held::new(1000);
        assert_eq!((held.place(100), held.place(100), held.place(700)), (Some(0), Some(128), Some(256)));
        assert_eq!(held.place(50), None);
        assert!(held.free(0) && held.free(128));
        assert!(!held.free(128), "it is free already");
        assert_eq!((held.place(257), held.place(256)), (None, Some(0)));
        assert_eq!(held.place(u64::MAX), None);
    }

    proptest! {
        #[test]
        fn no_two_overlap(lengths in proptest::collection::vec((1_u64..400, any::<bool>()), 1..60)) {
            let mut held = Held::new(2000);
            let mut given: Vec<(u64, u64)> = Vec::new();
            for (length, frees) in lengths {
                if frees && !given.is_empty() {
                    let (place, _) = given.swap_remove(length as usize % given.len());
                    prop_assert!(held.free(place));
                }
                if let Some(place) = held.place(length) {
                    prop_assert!(place.is_multiple_of(ALIGNMENT) && place + length <= 2000);
                    prop_assert!(given.iter().all(|&(start, bytes)| place >= start + bytes || start >= place + length));
                    given.push((place, length));
                }
            }
        }
    }
}
