//! Numbers stored as differences: DELTA_BINARY_PACKED of the Parquet format.
//!
//! In: a page's bytes. Out: its numbers, one by one. The promise: a block of 32 differences or more is
//! written out, never the page; nothing is read outside the bytes.

use bytes::Bytes;

use super::Odd;
use super::runs::eight_bytes;

const CUT: Odd = Odd::Other("differences that end before their values do");

/// Numbers that are not passed yet.
pub(super) struct Deltas {
    bytes: Bytes,
    /// Of the next byte that is not taken.
    at: usize,
    block_size: usize,
    /// Differences of one width.
    batch_size: usize,
    /// Numbers that are not told yet.
    left: usize,
    /// The number that is told next.
    number: i64,
    smallest: i64,
    /// Widths of the batches of this block that are not begun.
    widths: Vec<u8>,
    batch: Batch,
}

/// Differences of one width, packed from a byte on.
#[derive(Default)]
struct Batch {
    start: usize,
    width: usize,
    passed: usize,
    size: usize,
}

impl Deltas {
    pub(super) fn new(bytes: Bytes) -> Result<Self, Odd> {
        let mut at = 0;
        let mut number = || unsigned(&bytes, &mut at).ok_or(CUT);
        let size = |number: u64| usize::try_from(number).map_err(|_| CUT);
        let (block_size, batches, left) = (size(number()?)?, size(number()?)?, size(number()?)?);
        let first = signed(number()?);
        let batch_size = block_size.checked_div(batches).unwrap_or(0);
        let is_sound = batch_size > 0 && batch_size % 32 == 0 && batch_size * batches == block_size;
        if !is_sound || batches > bytes.len() {
            return Err(Odd::Other("blocks of differences of an odd size"));
        }
        let (widths, batch) = (Vec::new(), Batch::default());
        Ok(Self { at, block_size, batch_size, left, number: first, smallest: 0, widths, batch, bytes })
    }

    /// Tells the next `count` numbers.
    pub(super) fn take(&mut self, count: usize, mut tell: impl FnMut(i64)) -> Result<(), Odd> {
        for _ in 0..count {
            self.left = self.left.checked_sub(1).ok_or(CUT)?;
            tell(self.number);
            if self.left > 0 {
                let difference = self.difference()?;
                self.number = self.number.wrapping_add(difference);
            }
        }
        Ok(())
    }

    fn difference(&mut self) -> Result<i64, Odd> {
        if self.batch.passed == self.batch.size {
            self.begin_batch()?;
        }
        let Batch { start, width, passed, .. } = self.batch;
        self.batch.passed += 1;
        let bit = passed * width;
        let low = eight_bytes(&self.bytes, start + bit / 8) >> (bit % 8);
        // Beyond 57 bits a ninth byte is needed.
        let high = match bit % 8 {
            0 => 0,
            odd => u64::from(self.bytes.get(start + bit / 8 + 8).copied().unwrap_or(0)) << (64 - odd),
        };
        let packed = if width == 64 { low | high } else { (low | high) & ((1 << width) - 1) };
        Ok(self.smallest.wrapping_add(packed as i64))
    }

    fn begin_batch(&mut self) -> Result<(), Odd> {
        if self.widths.is_empty() {
            self.smallest = signed(unsigned(&self.bytes, &mut self.at).ok_or(CUT)?);
            let batches = self.block_size / self.batch_size;
            let widths = self.bytes.get(self.at..self.at + batches).ok_or(CUT)?;
            self.widths = widths.iter().rev().copied().collect();
            self.at += batches;
        }
        let width = usize::from(self.widths.pop().ok_or(CUT)?);
        let length = self.batch_size.checked_mul(width).ok_or(CUT)? / 8;
        // The last batch may be cut where the numbers end.
        let needed = (self.batch_size.min(self.left) * width).div_ceil(8);
        if width > 64 || needed > self.bytes.len() - self.at {
            return Err(CUT);
        }
        self.batch = Batch { start: self.at, width, passed: 0, size: self.batch_size };
        self.at += length.min(self.bytes.len() - self.at);
        Ok(())
    }
}

/// A number in groups of seven bits.
fn unsigned(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0;
    for shift in (0..70).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// A number whose lowest bit is its sign.
fn signed(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_from_their_differences() {
        // 7, 5, 3, 1, 2, 3, 4, 5: the example of the format's own text.
        let mut bytes = vec![0x80, 1, 4, 8, 14, 3, 2, 0, 0, 0];
        bytes.extend([0b1100_0000, 0b0011_1111, 0, 0, 0, 0, 0, 0]);
        let mut deltas = Deltas::new(Bytes::from(bytes)).unwrap();
        let mut numbers = Vec::new();
        deltas.take(3, |number| numbers.push(number)).unwrap();
        deltas.take(5, |number| numbers.push(number)).unwrap();
        assert_eq!(numbers, [7, 5, 3, 1, 2, 3, 4, 5]);
        assert!(deltas.take(1, |_| {}).is_err(), "there are no more");
    }

    #[test]
    fn blocks_that_lie_are_refused() {
        let refused: [&[u8]; 5] =
            [&[], &[0, 0, 1, 0], &[0x80, 1, 0, 1, 0], &[33, 1, 1, 0], &[0x80, 0x80, 0x80, 0x80, 0x40, 1, 1]];
        for bytes in refused {
            assert!(Deltas::new(Bytes::from_static(bytes)).is_err(), "{bytes:?}");
        }
        let mut cut = Deltas::new(Bytes::from_static(&[0x80, 1, 4, 8, 14, 3, 64, 0, 0, 0, 1])).unwrap();
        assert!(cut.take(2, |_| {}).is_err());
    }
}
