//! Parquet's hybrid of repeated and bit-packed runs, run by run.
//!
//! In: the bytes of one page's levels or dictionary indices, the width of a value and how many there may be.
//! Out: one run after the other, of which any part can be passed. The promise: no value is written out
//! before somebody wants it, so a run of two billion values costs nothing; nothing is read outside the
//! bytes. It does not know what the values mean.

use bytes::Bytes;

use super::Odd;

/// Bits that [`Runs::planes`] can be sure of in eight bytes that begin anywhere in a byte.
const SURE_BITS: usize = 56;

/// Where reading stands.
pub(super) struct Runs {
    bytes: Bytes,
    /// Bits of a value: at most 32.
    width: usize,
    /// Of the header of the run behind the current one.
    next: usize,
    /// Values behind the current run.
    behind: usize,
    run: Run,
}

/// What is left of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    Repeated {
        value: u32,
        left: usize,
    },
    /// Packed from byte `start` on; `passed` values are done with.
    Packed {
        start: usize,
        passed: usize,
        left: usize,
    },
}

impl Runs {
    /// At most `values` values of `width` bits.
    pub(super) fn new(bytes: Bytes, width: usize, values: usize) -> Result<Self, Odd> {
        if width > 32 {
            return Err(Odd::Other("values of more than 32 bits"));
        }
        Ok(Self { bytes, width, next: 0, behind: values, run: Run::Repeated { value: 0, left: 0 } })
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// The bytes in which [`Run::Packed`] counts.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The current run, of which something is left.
    #[inline]
    pub(super) fn current(&mut self) -> Result<Run, Odd> {
        if self.run.left() == 0 {
            self.run = self.load()?;
        }
        Ok(self.run)
    }

    /// Passes values of the current run.
    #[inline]
    pub(super) fn pass(&mut self, count: usize) {
        match &mut self.run {
            Run::Repeated { left, .. } => *left -= count,
            Run::Packed { passed, left, .. } => {
                *passed += count;
                *left -= count;
            }
        }
    }

    /// How many values of the current run [`planes`](Self::planes) can tell.
    pub(super) fn in_planes(&self) -> usize {
        match self.run {
            Run::Repeated { left, .. } => left.min(SURE_BITS),
            Run::Packed { left, .. } => left.min(SURE_BITS / self.width.max(1)),
        }
    }

    /// The next values of the current run, of one or two bits each: their low bits and their high bits, the
    /// first value lowest. Bits beyond [`in_planes`](Self::in_planes) mean nothing.
    pub(super) fn planes(&self) -> (u64, u64) {
        let spread = |bit: u32| if bit & 1 == 1 { u64::MAX } else { 0 };
        match self.run {
            Run::Repeated { value, .. } => (spread(value), spread(value >> 1)),
            Run::Packed { start, passed, .. } => {
                let bit = passed * self.width;
                let word = eight_bytes(&self.bytes, start + bit / 8) >> (bit % 8);
                if self.width == 1 { (word, 0) } else { (even_bits(word), even_bits(word >> 1)) }
            }
        }
    }

    fn load(&mut self) -> Result<Run, Odd> {
        const CUT: Odd = Odd::Other("runs that end before their values do");
        if self.behind == 0 {
            return Err(CUT);
        }
        let header = self.header().ok_or(CUT)?;
        let count = usize::try_from(header >> 1).unwrap_or(usize::MAX);
        if count == 0 {
            return Err(Odd::Other("a run of nothing"));
        }
        let rest = self.bytes.len() - self.next;
        let start = self.next;
        let run = if header & 1 == 1 {
            // Groups of eight, of which the last may be cut where the values end.
            let left = count.saturating_mul(8).min(self.behind);
            let whole = count.saturating_mul(self.width);
            if left.saturating_mul(self.width).div_ceil(8) > rest {
                return Err(CUT);
            }
            self.next += whole.min(rest);
            Run::Packed { start, passed: 0, left }
        } else {
            let size = self.width.div_ceil(8);
            let value = self.bytes.get(start..start + size).ok_or(CUT)?;
            self.next += size;
            let value = value.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte));
            Run::Repeated { value, left: count.min(self.behind) }
        };
        self.behind -= run.left();
        Ok(run)
    }

    /// A run's header: a number in groups of seven bits.
    fn header(&mut self) -> Option<u64> {
        let mut header = 0;
        for shift in (0..63).step_by(7) {
            let byte = *self.bytes.get(self.next)?;
            self.next += 1;
            header |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(header);
            }
        }
        None
    }
}

impl Run {
    pub(super) fn left(&self) -> usize {
        match *self {
            Self::Repeated { left, .. } | Self::Packed { left, .. } => left,
        }
    }
}

/// Eight bytes from `at` on, little end first; zeros where there are none.
pub(super) fn eight_bytes(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..).unwrap_or_default();
    match bytes.first_chunk() {
        Some(&eight) => u64::from_le_bytes(eight),
        None => bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

/// Every second bit, from the lowest on, moved together.
fn even_bits(word: u64) -> u64 {
    let word = word & 0x5555_5555_5555_5555;
    let word = (word | word >> 1) & 0x3333_3333_3333_3333;
    let word = (word | word >> 2) & 0x0f0f_0f0f_0f0f_0f0f;
    let word = (word | word >> 4) & 0x00ff_00ff_00ff_00ff;
    let word = (word | word >> 8) & 0x0000_ffff_0000_ffff;
    (word | word >> 16) & 0xffff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_told_one_by_one() {
        // Three fives; then eight values of three bits, of which six count.
        let mut runs = Runs::new(Bytes::from_static(&[6, 5, 3, 0x88, 0xc6, 0xfa]), 3, 9).unwrap();
        assert_eq!(runs.current(), Ok(Run::Repeated { value: 5, left: 3 }));
        runs.pass(3);
        assert_eq!(runs.current(), Ok(Run::Packed { start: 3, passed: 0, left: 6 }));
        runs.pass(6);
        assert!(runs.current().is_err(), "there are no more than were said");
    }

    #[test]
    fn runs_that_lie_are_refused() {
        for (bytes, width) in [(&[][..], 1), (&[0x80; 12], 1), (&[0, 1], 1), (&[9, 1], 8), (&[4], 8)] {
            let mut runs = Runs::new(Bytes::copy_from_slice(bytes), width, 100).unwrap();
            assert!(runs.current().is_err(), "{bytes:?}");
        }
        assert!(Runs::new(Bytes::new(), 33, 1).is_err());
    }

    #[test]
    fn planes_split_values_of_two_bits() {
        // 0, 1, 2, 3, 3, 2, 1, 0, of which the first is passed.
        let mut runs = Runs::new(Bytes::from_static(&[3, 0b1110_0100, 0b0001_1011]), 2, 8).unwrap();
        runs.current().unwrap();
        runs.pass(1);
        assert_eq!(runs.in_planes(), 7);
        let (low, high) = runs.planes();
        assert_eq!((low & 0x7f, high & 0x7f), (0b010_1101, 0b001_1110));
    }
}
