//! Protobuf's variable-length numbers, as their bytes arrive.

use super::Fault;

/// The bits that have arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Varint {
    value: u64,
    shift: u32,
}

impl Varint {
    pub(super) const NEW: Self = Self { value: 0, shift: 0 };

    pub(super) fn is_new(&self) -> bool {
        self.shift == 0
    }

    /// Takes bytes off `input`; gives the number when its last one is among them.
    pub(super) fn take(&mut self, input: &mut &[u8]) -> Result<Option<u64>, Fault> {
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            // Nine times seven bits, and one.
            if self.shift > 63 || (self.shift == 63 && byte > 1) {
                return Err(Fault::Foreign("a number of more than 64 bits"));
            }
            self.value |= u64::from(byte & 0x7f) << self.shift;
            self.shift += 7;
            if byte < 0x80 {
                return Ok(Some(self.value));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_may_be_cut_anywhere_and_has_64_bits() {
        let mut largest = vec![0xff; 9];
        largest.push(1);
        for (bytes, number) in [(&[0][..], 0), (&[0xac, 0x02], 300), (&largest, u64::MAX)] {
            let mut varint = Varint::NEW;
            let last = bytes.len() - 1;
            for byte in &bytes[..last] {
                assert_eq!(varint.take(&mut &[*byte][..]), Ok(None));
            }
            assert_eq!(varint.take(&mut &bytes[last..]), Ok(Some(number)));
        }
        largest[9] = 2;
        let mut varint = Varint::NEW;
        assert!(varint.take(&mut &largest[..]).is_err());
    }
}
