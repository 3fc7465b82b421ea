//! How often blocks were wanted lately.
//!
//! In: names of blocks. Out: a small number for each, those that are not in memory included. The promise: bounded;
//! what is wanted no more is forgotten by and by.

use std::collections::HashMap;

use super::Key;

/// A block is not wanted more often than this: it can be forgotten soon.
const MOST: u8 = 3;
/// Blocks that are remembered.
const BLOCKS: usize = 1 << 16;
/// All numbers are halved after so many counts a block.
const COUNTS: usize = 2;
const LEAST_COUNTS: usize = 16;

#[derive(Default)]
pub(super) struct Frequencies {
    of: HashMap<Key, u8>,
    /// Since the numbers were halved.
    counted: usize,
}

impl Frequencies {
    pub(super) fn of(&self, key: &Key) -> u8 {
        self.of.get(key).copied().unwrap_or(0)
    }

    pub(super) fn count(&mut self, key: Key) {
        self.counted += 1;
        if self.counted > (COUNTS * self.of.len()).max(LEAST_COUNTS) || self.of.len() >= BLOCKS {
            self.counted = 0;
            self.of.retain(|_, number| {
                *number /= 2;
                *number > 0
            });
        }
        let number = self.of.entry(key).or_insert(0);
        *number = (*number + 1).min(MOST);
    }
}
