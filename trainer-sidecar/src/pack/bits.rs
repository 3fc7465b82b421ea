//! Arrow's bits as bytes of 0 and 1, eight at a time.

use arrow::buffer::BooleanBuffer;

/// Writes one byte a bit; `place` has as many bytes as there are bits.
pub(super) fn spread(bits: &BooleanBuffer, place: &mut [u8]) {
    assert_eq!(bits.len(), place.len(), "a byte a bit");
    let chunks = bits.bit_chunks();
    let (whole, rest) = place.split_at_mut(bits.len() / 64 * 64);
    for (word, bytes) in chunks.iter().zip(whole.chunks_exact_mut(64)) {
        for (byte, eight) in word.to_le_bytes().into_iter().zip(bytes.chunks_exact_mut(8)) {
            eight.copy_from_slice(&spread_byte(byte).to_le_bytes());
        }
    }
    let tail = chunks.remainder_bits();
    for (i, byte) in rest.iter_mut().enumerate() {
        *byte = (tail >> i & 1) as u8;
    }
}

/// Bit i of `byte` becomes byte i: a copy of the byte in each place, all but one of its bits masked
/// out, and what is not zero carried into the top bit.
fn spread_byte(byte: u8) -> u64 {
    let copies = u64::from(byte) * 0x0101_0101_0101_0101;
    let masked = copies & 0x8040_2010_0804_0201;
    (masked + 0x7f7f_7f7f_7f7f_7f7f) >> 7 & 0x0101_0101_0101_0101
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_spreads_as_its_bits_do() {
        for byte in 0..=u8::MAX {
            let expected: [u8; 8] = std::array::from_fn(|i| byte >> i & 1);
            assert_eq!(spread_byte(byte).to_le_bytes(), expected);
        }
    }

    #[test]
    fn bits_at_any_offset_and_length_spread() {
        let all = BooleanBuffer::collect_bool(400, |i| i % 3 == 0 || i % 7 == 0);
        for offset in 0..70 {
            for length in [0, 1, 7, 63, 64, 65, 130, 300] {
                let bits = all.slice(offset, length);
                let mut bytes = vec![9; length];
                spread(&bits, &mut bytes);
                assert_eq!(bytes, bits.iter().map(u8::from).collect::<Vec<_>>());
            }
        }
    }
}
