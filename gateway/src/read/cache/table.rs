//! Which blocks are kept, and which leave: bytes and names, no data.
//!
//! In: chunks of blocks as they are decoded, and blocks that streams begin to read. Out: the chunks that are
//! still there. The promise: never more bytes than the capacity, and what is read once does not drive out what
//! was kept before. It knows no clock: as a pure function of what it was told it is the same on every machine.
//!
//! Chunks enter a queue of *recent* blocks, about a quarter of all bytes, where readers find them who are a little
//! behind. A block that comes to the queue's end is *kept* if it is whole and there is room, or if it was wanted
//! more often than those that it would drive out: the admission of TinyLFU (Einziger et al., 2017) with exact
//! counters, behind the queue of 2Q (Johnson and Shasha, 1994), in which being read again counts for nothing.

use std::collections::{HashMap, VecDeque};

use super::Key;
use super::frequency::Frequencies;

/// Kept blocks are given no more without a contest than what leaves recent ones this part of all bytes.
const RECENT_PART: u64 = 4;
/// Kept blocks leave where recent ones have less than this part.
const LEAST_RECENT_PART: u64 = 8;
/// A block must have been wanted so much more often: those of one epoch, read and not yet read again, differ by one.
const MARGIN: u8 = 2;
/// By so much more to be worth it at all: where numbers are halved in the midst of an epoch, those differ by two.
const WORTH: u8 = MARGIN + 1;
/// Kept blocks that are looked at to find the one that is wanted least.
const LOOKS: usize = 32;

/// How a block is cut into chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::read) struct Grid {
    /// Rows of the block.
    pub(in crate::read) rows: u64,
    /// Rows of every chunk but the last.
    pub(in crate::read) chunk_rows: u64,
}

pub(super) struct Table<C> {
    capacity: u64,
    bytes: u64,
    recent_bytes: u64,
    blocks: HashMap<Key, Block<C>>,
    /// Blocks that came lately, the oldest first.
    recent: VecDeque<Key>,
    /// Blocks that stay, the one that was looked at last behind.
    kept: VecDeque<Key>,
    frequencies: Frequencies,
    /// What left and was not yet taken.
    left: Vec<Named<C>>,
}

/// A chunk and its name.
pub(super) struct Named<C> {
    pub(super) key: Key,
    pub(super) grid: Grid,
    pub(super) index: u64,
    pub(super) content: C,
}

struct Block<C> {
    grid: Grid,
    chunks: Vec<Option<Chunk<C>>>,
    bytes: u64,
    is_kept: bool,
}

struct Chunk<C> {
    bytes: u64,
    content: C,
}

impl Grid {
    pub(in crate::read) fn chunks(&self) -> u64 {
        self.rows.div_ceil(self.chunk_rows)
    }

    /// Whether chunks of so many rows are about as large.
    pub(in crate::read) fn is_near(&self, chunk_rows: u64) -> bool {
        self.chunk_rows <= chunk_rows.saturating_mul(2) && chunk_rows <= self.chunk_rows.saturating_mul(2)
    }

    /// The rows of a chunk.
    pub(in crate::read) fn chunk(&self, index: u64) -> std::ops::Range<u64> {
        let start = index * self.chunk_rows;
        start..(start + self.chunk_rows).min(self.rows)
    }
}

impl<C> Table<C> {
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            capacity,
            bytes: 0,
            recent_bytes: 0,
            blocks: HashMap::new(),
            recent: VecDeque::new(),
            kept: VecDeque::new(),
            frequencies: Frequencies::default(),
            left: Vec::new(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts that a block is wanted.
    pub(super) fn want(&mut self, key: Key) {
        if self.blocks.get(&key).is_none_or(|block| block.is_kept) {
            self.frequencies.count(key);
        }
    }

    /// How a block is cut, if any of it is here.
    pub(super) fn grid(&self, key: &Key) -> Option<Grid> {
        self.blocks.get(key).map(|block| block.grid)
    }

    pub(super) fn get(&self, key: &Key, index: u64) -> Option<&C> {
        let chunk = self.blocks.get(key)?.chunks.get(index as usize)?;
        chunk.as_ref().map(|chunk| &chunk.content)
    }

    /// Whether a block is here from a chunk on to its end.
    pub(super) fn has_rest(&self, key: &Key, index: u64) -> bool {
        let chunks = self.blocks.get(key).and_then(|block| block.chunks.get(index as usize..));
        chunks.is_some_and(|rest| rest.iter().all(Option::is_some))
    }

    /// Whether it pays to take in a chunk: there is room, or its block was wanted more often than one that is kept.
    pub(super) fn is_worth(&mut self, key: &Key, bytes: u64) -> bool {
        if self.bytes + bytes <= self.capacity {
            return true;
        }
        self.settle();
        // None is kept where none is whole.
        let Some(victim) = self.least_wanted() else { return true };
        self.kept.push_back(victim);
        self.frequencies.of(&victim) + WORTH <= self.frequencies.of(key)
    }

    /// Makes chunks leave until there is room for so many bytes more; says whether there is.
    pub(super) fn make_room(&mut self, bytes: u64) -> bool {
        if bytes > self.capacity {
            return false;
        }
        while self.bytes + bytes > self.capacity {
            if !self.evict() {
                return false;
            }
        }
        true
    }

    /// Makes chunks of so many bytes leave; says whether any did.
    pub(super) fn shrink(&mut self, bytes: u64) -> bool {
        let before = self.bytes;
        while self.bytes > before.saturating_sub(bytes) && self.evict() {}
        self.bytes < before
    }

    /// Takes in a chunk that there is room for.
    pub(super) fn put(&mut self, key: Key, grid: Grid, index: u64, bytes: u64, content: C) {
        let block = self.blocks.entry(key).or_insert_with(|| {
            self.recent.push_back(key);
            let chunks = std::iter::repeat_with(|| None).take(grid.chunks() as usize).collect();
            Block { grid, chunks, bytes: 0, is_kept: false }
        });
        // One that is there, or of a block cut otherwise, would be in nobody's way and in nobody's sight.
        if block.grid == grid
            && let Some(place @ None) = block.chunks.get_mut(index as usize)
        {
            *place = Some(Chunk { bytes, content });
            block.bytes += bytes;
            self.bytes += bytes;
            if !block.is_kept {
                self.recent_bytes += bytes;
            }
        }
    }

    /// What left since it was asked for last.
    pub(super) fn take_left(&mut self) -> Vec<Named<C>> {
        std::mem::take(&mut self.left)
    }

    /// Makes a block leave that is no use.
    pub(super) fn forget(&mut self, key: Key) {
        let Some(block) = self.blocks.get(&key) else { return };
        if !block.is_kept {
            self.recent_bytes -= block.bytes;
        }
        let line = if block.is_kept { &mut self.kept } else { &mut self.recent };
        line.retain(|other| *other != key);
        self.remove(key);
    }

    /// Keeps blocks while they are whole and the recent ones have more than their part.
    fn settle(&mut self) {
        while self.recent_bytes > self.bytes / RECENT_PART
            && let Some(&oldest) = self.recent.front()
            && self.keep(oldest)
        {}
    }

    /// Makes one chunk, or a kept block, leave; or settles that a block stays. False when nothing is left.
    fn evict(&mut self) -> bool {
        if (self.recent_bytes >= self.bytes / LEAST_RECENT_PART || self.kept.is_empty())
            && let Some(&oldest) = self.recent.front()
        {
            if !self.keep(oldest) {
                self.cut(oldest);
            }
            return true;
        }
        let Some(victim) = self.least_wanted() else { return false };
        self.remove(victim);
        true
    }

    /// Keeps the oldest of the recent blocks if it is whole, and worth more than what must leave for it.
    fn keep(&mut self, oldest: Key) -> bool {
        let block = &self.blocks[&oldest];
        let (bytes, is_whole) = (block.bytes, block.chunks.iter().all(Option::is_some));
        if !is_whole {
            return false;
        }
        let wanted = self.frequencies.of(&oldest);
        let (mut victims, mut missing) = (Vec::new(), self.overrun(bytes));
        while missing > 0
            && let Some(victim) = self.least_wanted()
        {
            if self.frequencies.of(&victim) + MARGIN > wanted {
                self.kept.push_back(victim);
                break;
            }
            missing = missing.saturating_sub(self.blocks[&victim].bytes);
            victims.push(victim);
        }
        if missing > 0 {
            self.kept.extend(victims);
            return false;
        }
        victims.into_iter().for_each(|victim| self.remove(victim));
        self.recent.pop_front();
        self.kept.push_back(oldest);
        self.recent_bytes -= bytes;
        if let Some(block) = self.blocks.get_mut(&oldest) {
            block.is_kept = true;
        }
        true
    }

    /// Bytes by which kept blocks would have more than their part if there were so many more.
    fn overrun(&self, bytes: u64) -> u64 {
        let kept = self.bytes - self.recent_bytes;
        (kept + bytes).saturating_sub(self.bytes - self.bytes / RECENT_PART)
    }

    /// Takes the first remaining chunk out of the oldest of the recent blocks, and with the last the block.
    fn cut(&mut self, oldest: Key) {
        let Some(block) = self.blocks.get_mut(&oldest) else { return };
        let mut chunks = (0..).zip(&mut block.chunks);
        if let Some((index, Chunk { bytes, content })) =
            chunks.find_map(|(index, chunk)| Some((index, chunk.take()?)))
        {
            self.left.push(Named { key: oldest, grid: block.grid, index, content });
            block.bytes -= bytes;
            self.bytes -= bytes;
            self.recent_bytes -= bytes;
        }
        if block.chunks.iter().all(Option::is_none) {
            self.blocks.remove(&oldest);
            self.recent.pop_front();
        }
    }

    /// Takes the least wanted of some kept blocks out of their line.
    fn least_wanted(&mut self) -> Option<Key> {
        let mut least = self.kept.pop_front()?;
        for _ in 1..LOOKS.min(self.kept.len() + 1) {
            let Some(mut next) = self.kept.pop_front() else { break };
            if self.frequencies.of(&next) < self.frequencies.of(&least) {
                std::mem::swap(&mut next, &mut least);
            }
            self.kept.push_back(next);
        }
        Some(least)
    }

    /// Makes a block leave that is out of line.
    fn remove(&mut self, victim: Key) {
        if let Some(Block { grid, chunks, bytes, .. }) = self.blocks.remove(&victim) {
            self.bytes -= bytes;
            let chunks = (0..).zip(chunks).filter_map(|(index, chunk)| Some((index, chunk?.content)));
            self.left.extend(chunks.map(|(index, content)| Named { key: victim, grid, index, content }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::cache::Content;

    const GRID: Grid = Grid { rows: 10, chunk_rows: 4 };

    /// Reads blocks of three chunks of 10 bytes through a table, as streams do, and says how many it found whole.
    fn read(table: &mut Table<u32>, blocks: impl IntoIterator<Item = u32>) -> usize {
        let mut found = 0;
        for block in blocks {
            let key = Key { content: Content::of("d"), block, class: 0 };
            table.want(key);
            let missing: Vec<u64> =
                (0..GRID.chunks()).filter(|&index| table.get(&key, index).is_none()).collect();
            found += usize::from(missing.is_empty());
            for index in missing {
                assert!(table.make_room(10));
                table.put(key, GRID, index, 10, block);
            }
            assert!((0..GRID.chunks()).all(|index| table.get(&key, index).is_none_or(|&of| of == block)));
            let held: u64 = table.blocks.values().map(|block| block.bytes).sum();
            assert!(held == table.bytes && held <= table.capacity);
            assert_eq!(table.blocks.len(), table.recent.len() + table.kept.len());
        }
        found
    }

    /// Reads blocks through a table that takes in what is worth it, and says how many it found whole and how many
    /// chunks it took in.
    fn read_if_worth(table: &mut Table<u32>, blocks: impl IntoIterator<Item = u32>) -> (usize, usize) {
        let (mut found, mut taken) = (0, 0);
        for block in blocks {
            let key = Key { content: Content::of("d"), block, class: 0 };
            table.want(key);
            found += usize::from(table.has_rest(&key, 0));
            for index in 0..GRID.chunks() {
                if table.get(&key, index).is_none() && table.is_worth(&key, 10) {
                    assert!(table.make_room(10));
                    table.put(key, GRID, index, 10, block);
                    taken += 1;
                }
            }
        }
        (found, taken)
    }

    /// An order of so many blocks, another for every seed.
    fn shuffled(blocks: u64, seed: u64) -> impl Iterator<Item = u32> {
        let mut order: Vec<u64> = (0..blocks).collect();
        order.sort_by_key(|&block| ((block + 1) * (seed + 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20);
        order.into_iter().map(|block| block as u32)
    }

    #[test]
    fn what_fits_is_found_in_the_next_epoch() {
        let mut table = Table::new(30 * 20);
        assert_eq!(read(&mut table, 0..20), 0);
        assert_eq!(read(&mut table, shuffled(20, 1)), 20);
    }

    #[test]
    fn of_a_set_that_does_not_fit_most_of_the_capacity_is_found_in_every_order() {
        let mut table = Table::new(30 * 40);
        for epoch in 0..8 {
            let found = read(&mut table, shuffled(100, epoch));
            assert!(epoch == 0 || (28..=40).contains(&found), "{found} in epoch {epoch}");
        }
        for _ in 0..8 {
            let found = read(&mut table, 0..100);
            assert!((28..=40).contains(&found), "{found}");
        }
    }

    #[test]
    fn one_pass_over_a_large_set_drives_out_nothing_that_is_kept() {
        let mut table = Table::new(30 * 40);
        let mut passes = 1_000;
        // Read a little or often, and whatever was forgotten in between.
        for epochs in [1, 2, 3, 4, 9, 20] {
            for epoch in 0..epochs {
                read(&mut table, shuffled(28, epoch));
            }
            read(&mut table, passes..passes + 5_000);
            passes += 5_000;
            assert_eq!(read(&mut table, shuffled(28, 99)), 28, "after {epochs} epochs");
        }
    }

    #[test]
    fn a_set_that_is_read_no_more_makes_way_for_one_that_is() {
        let mut table = Table::new(30 * 40);
        for epoch in 0..20 {
            read(&mut table, shuffled(40, epoch));
        }
        let found =
            (0..12).map(|epoch| read(&mut table, shuffled(60, epoch).map(|block| 500 + block))).last();
        assert!(found.is_some_and(|found| found >= 28), "{found:?}");
    }

    #[test]
    fn a_table_of_what_is_worth_it_comes_to_rest() {
        let mut table = Table::new(30 * 40);
        for epoch in 0..8 {
            let (found, taken) = read_if_worth(&mut table, shuffled(100, epoch));
            assert!(epoch == 0 || found == 40, "{found} in epoch {epoch}");
            // The first epoch fills it, and settles what is kept.
            assert!(taken == if epoch == 0 { 3 * 40 } else { 0 }, "{taken} in epoch {epoch}");
        }
        // A pass that nobody repeats is not even taken in.
        let (found, taken) = read_if_worth(&mut table, 1_000..3_000);
        assert_eq!((found, taken), (0, 0));
        assert_eq!(read_if_worth(&mut table, shuffled(100, 9)), (40, 0));
    }

    #[test]
    fn what_is_read_from_now_on_becomes_worth_the_place_of_what_is_no_more() {
        let mut table = Table::new(30 * 40);
        for epoch in 0..20 {
            read_if_worth(&mut table, shuffled(40, epoch));
        }
        let last = (0..12)
            .map(|epoch| read_if_worth(&mut table, shuffled(60, epoch).map(|block| 500 + block)))
            .last();
        assert!(last.is_some_and(|(found, _)| found >= 28), "{last:?}");
    }

    #[test]
    fn what_leaves_is_told_by_name() {
        let mut table = Table::new(30 * 4);
        read(&mut table, 0..4);
        assert!(table.take_left().is_empty());
        table.forget(Key { content: Content::of("d"), block: 1, class: 0 });
        let left = |table: &mut Table<u32>| -> Vec<(u32, u64)> {
            table.take_left().into_iter().map(|left| (left.content, left.index)).collect()
        };
        assert_eq!(left(&mut table), [(1, 0), (1, 1), (1, 2)]);
        while table.shrink(1) {}
        let mut rest = left(&mut table);
        rest.sort_unstable();
        assert_eq!(rest, [0, 2, 3].map(|block| [0, 1, 2].map(|index| (block, index))).concat());
        assert_eq!((table.bytes(), table.recent_bytes), (0, 0));
    }

    #[test]
    fn a_reader_a_little_behind_finds_what_the_first_read() {
        let mut table = Table::new(30 * 40);
        for block in 0..1_000 {
            read(&mut table, [block]);
            assert!(block < 9 || read(&mut table, [block - 9]) == 1, "block {block}");
        }
    }

    #[test]
    fn a_block_larger_than_all_passes_through() {
        let mut table = Table::new(25);
        assert_eq!(read(&mut table, [1, 1, 2]), 0);
        assert!(!table.make_room(26));
        assert!(table.shrink(1) && table.shrink(100) && !table.shrink(1));
        assert_eq!((table.bytes(), table.blocks.len(), table.recent.len()), (0, 0, 0));
    }
}
