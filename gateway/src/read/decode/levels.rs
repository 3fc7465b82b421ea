//! Where the lists of one page begin, told by its levels without writing them out.
//!
//! In: a page's repetition and definition levels. Out: for any number of lists where each begins among the
//! values, and how many values they hold. The promise: where levels repeat, thousands of values cost one
//! step, elsewhere a word of them does; a null, or a list that goes on before it has begun, is odd. It knows
//! no values.

use bytes::Bytes;

use super::Odd;
use super::runs::{Run, Runs};

/// The definition levels of a column of lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Of a value that is there: the highest, at most 3.
    pub(super) present: u32,
    /// Of a list that holds nothing.
    pub(super) empty: u32,
}

/// The levels of one page that are not passed yet.
pub(super) struct Levels {
    repetition: Runs,
    definition: Runs,
    left: usize,
    shape: Shape,
    before: Before,
}

/// What lies before a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// Nothing: a list must begin.
    Nothing,
    /// A list that holds nothing: another must begin.
    Empty,
    /// A list that may go on.
    Value,
}

impl Levels {
    /// `count` levels of one page.
    pub(super) fn new(
        repetition: Bytes,
        definition: Bytes,
        count: usize,
        shape: Shape,
        before: Before,
    ) -> Result<Self, Odd> {
        let width = shape.present.ilog2() as usize + 1;
        Ok(Self {
            repetition: Runs::new(repetition, 1, count)?,
            definition: Runs::new(definition, width, count)?,
            left: count,
            shape,
            before,
        })
    }

    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// What the last level was of.
    pub(super) fn before(&self) -> Before {
        self.before
    }

    /// Passes as many lists as `rows` says, counting it down, and stops where another begins or the page ends.
    /// `begin` is told of each list how many values lie before it, from here on. Returns how many values
    /// were passed.
    pub(super) fn pass(&mut self, rows: &mut usize, mut begin: impl FnMut(usize)) -> Result<usize, Odd> {
        let mut values = 0;
        while self.left > 0 {
            let [repetition, definition] = [&mut self.repetition, &mut self.definition].map(Runs::current);
            let repetition = repetition.map_err(|_| Odd::CutLevels)?;
            let definition = definition.map_err(|_| Odd::CutLevels)?;
            if let Run::Repeated { value: 1, left: repeated } = repetition
                && let Run::Repeated { value, left: defined } = definition
                && value == self.shape.present
            {
                if self.before != Before::Value {
                    return Err(Odd::Other("a list that goes on before it begins"));
                }
                let count = repeated.min(defined);
                values += count;
                self.consume(count);
                continue;
            }
            let count = self.repetition.in_planes().min(self.definition.in_planes());
            let (begins, present, empty) = self.words(count, repetition)?;
            let wanted = match begins.count_ones() as usize {
                all if all <= *rows => count,
                _ => place_of(begins, *rows),
            };
            let mut wanted_begins = begins & ones(wanted);
            *rows -= wanted_begins.count_ones() as usize;
            while wanted_begins != 0 {
                let place = wanted_begins.trailing_zeros() as usize;
                let before = if empty == 0 { place } else { (present & ones(place)).count_ones() as usize };
                begin(values + before);
                wanted_begins &= wanted_begins - 1;
            }
            values += (present & ones(wanted)).count_ones() as usize;
            if wanted > 0 {
                let is_empty = empty >> (wanted - 1) & 1 == 1;
                self.before = if is_empty { Before::Empty } else { Before::Value };
                self.consume(wanted);
            }
            if wanted < count {
                break;
            }
        }
        Ok(values)
    }

    /// The next `count` levels, a bit each: whether a list begins, a value is there, a list is empty.
    fn words(&self, count: usize, repetition: Run) -> Result<(u64, u64, u64), Odd> {
        let all = ones(count);
        if matches!(repetition, Run::Repeated { value: 2.., .. }) {
            return Err(Odd::Other("a repetition level out of range"));
        }
        let goes_on = self.repetition.planes().0 & all;
        let (low, high) = self.definition.planes();
        let of_level = |level: u32| {
            let same = |plane: u64, bit: u32| if bit & 1 == 1 { plane } else { !plane };
            same(low, level) & same(high, level >> 1) & all
        };
        let (present, empty) = (of_level(self.shape.present), of_level(self.shape.empty));
        if present | empty != all {
            return Err(Odd::Other("a null"));
        }
        // A list can go on only behind one of its values.
        let last_was_value = u64::from(self.before == Before::Value);
        if goes_on & (empty | !(present << 1 | last_was_value)) != 0 {
            return Err(Odd::Other("a list that goes on before it begins"));
        }
        Ok((!goes_on & all, present, empty))
    }

    fn consume(&mut self, count: usize) {
        self.repetition.pass(count);
        self.definition.pass(count);
        self.left -= count;
    }
}

/// The lowest `count` bits, of fewer than 64.
fn ones(count: usize) -> u64 {
    (1 << count) - 1
}

/// The place of the bit before which `count` others are set.
fn place_of(mut word: u64, count: usize) -> usize {
    for _ in 0..count {
        word &= word - 1;
    }
    word.trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Levels as bit-packed runs of eight.
    fn packed(levels: &[u8], width: usize) -> Bytes {
        let mut bytes = vec![(levels.len().div_ceil(8) << 1 | 1) as u8];
        for eight in levels.chunks(8) {
            let word = eight.iter().rev().fold(0u64, |word, &level| word << width | u64::from(level));
            bytes.extend(&word.to_le_bytes()[..width]);
        }
        Bytes::from(bytes)
    }

    /// The lists of optional values in a nullable column: where they begin, `take` at a time, and how many
    /// values there are.
    fn check(repetition: &[u8], definition: &[u8], take: usize) -> Result<(Vec<usize>, usize), Odd> {
        let shape = Shape { present: 3, empty: 1 };
        let (bits, pairs) = (packed(repetition, 1), packed(definition, 2));
        let mut levels = Levels::new(bits, pairs, repetition.len(), shape, Before::Nothing)?;
        let (mut begins, mut values) = (Vec::new(), 0);
        while levels.left() > 0 {
            let before = values;
            values += levels.pass(&mut take.clone(), |begin| begins.push(before + begin))?;
        }
        Ok((begins, values))
    }

    #[test]
    fn lists_begin_where_nothing_is_repeated() {
        for take in [1, 2, 3, 100] {
            let found = check(&[0, 1, 1, 0, 0, 1, 0], &[3, 3, 3, 1, 3, 3, 3], take).unwrap();
            assert_eq!(found, (vec![0, 3, 3, 5], 6), "{take} at a time");
        }
        let long: Vec<u8> = (0..400).map(|level| u8::from(level % 7 != 0)).collect();
        let begins: Vec<usize> = (0..400).step_by(7).collect();
        for take in [1, 9, 1000] {
            assert_eq!(check(&long, &[3; 400], take).unwrap(), (begins.clone(), 400));
        }
    }

    #[test]
    fn what_is_no_list_of_values_is_odd() {
        assert!(check(&[1, 1], &[3, 3], 1).is_err(), "goes on before it begins");
        assert!(check(&[0, 1], &[1, 3], 1).is_err(), "an empty list that goes on");
        assert!(check(&[0, 1], &[3, 2], 1).is_err(), "a null value");
        assert!(check(&[0, 0], &[3, 0], 1).is_err(), "a null list");
    }
}
