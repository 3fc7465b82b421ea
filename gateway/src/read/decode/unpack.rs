//! Bit-packed numbers written out.
//!
//! In: bytes, the width of a number, which of them. Out: the numbers. The promise: eight at a time with
//! shifts known when this is compiled, for widths that dictionaries have; nothing is read outside the bytes.

use super::runs::eight_bytes;

/// Writes numbers `first..first + out.len()` of `width` bits; all of them must lie in `bytes`.
pub(super) fn unpack(bytes: &[u8], width: usize, first: usize, out: &mut [u32]) {
    // Up to where a number begins a byte.
    let odd = out.len().min(first.next_multiple_of(8) - first);
    let (head, out) = out.split_at_mut(odd);
    one_by_one(bytes, width, first, head);
    let first = first + odd;
    let whole = bytes.get(first / 8 * width..).unwrap_or_default();
    let (eights, _) = out.as_chunks_mut::<8>();
    let done = match width {
        1 => eight_by_eight::<1>(whole, eights),
        2 => eight_by_eight::<2>(whole, eights),
        3 => eight_by_eight::<3>(whole, eights),
        4 => eight_by_eight::<4>(whole, eights),
        5 => eight_by_eight::<5>(whole, eights),
        6 => eight_by_eight::<6>(whole, eights),
        7 => eight_by_eight::<7>(whole, eights),
        8 => eight_by_eight::<8>(whole, eights),
        9 => eight_by_eight::<9>(whole, eights),
        10 => eight_by_eight::<10>(whole, eights),
        11 => eight_by_eight::<11>(whole, eights),
        12 => eight_by_eight::<12>(whole, eights),
        13 => eight_by_eight::<13>(whole, eights),
        14 => eight_by_eight::<14>(whole, eights),
        15 => eight_by_eight::<15>(whole, eights),
        16 => eight_by_eight::<16>(whole, eights),
        17 => eight_by_eight::<17>(whole, eights),
        18 => eight_by_eight::<18>(whole, eights),
        19 => eight_by_eight::<19>(whole, eights),
        20 => eight_by_eight::<20>(whole, eights),
        _ => 0,
    };
    one_by_one(bytes, width, first + done, &mut out[done..]);
}

/// Returns how many numbers were written: fewer where the bytes end.
fn eight_by_eight<const WIDTH: usize>(bytes: &[u8], out: &mut [[u32; 8]]) -> usize {
    let mask = (1u32 << WIDTH) - 1;
    let mut done = 0;
    for (step, eight) in out.iter_mut().enumerate() {
        // Of the last number four bytes are read, too.
        let Some(window) = bytes.get(step * WIDTH..step * WIDTH + WIDTH + 4) else { break };
        for (place, number) in eight.iter_mut().enumerate() {
            let bit = place * WIDTH;
            let at = bit / 8;
            let word = u32::from_le_bytes([window[at], window[at + 1], window[at + 2], window[at + 3]]);
            *number = word >> (bit % 8) & mask;
        }
        done += 8;
    }
    done
}

fn one_by_one(bytes: &[u8], width: usize, first: usize, out: &mut [u32]) {
    let mask = (1u64 << width) - 1;
    for (number, place) in out.iter_mut().zip(first..) {
        let bit = place * width;
        *number = (eight_bytes(bytes, bit / 8) >> (bit % 8) & mask) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_width_come_back_from_anywhere() {
        for width in 1..=32usize {
            let number =
                |place: usize| (place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7 & ((1 << width) - 1);
            let mut bits = vec![0u8; (width * 200).div_ceil(8)];
            for place in 0..200 {
                for bit in 0..width {
                    let at = place * width + bit;
                    bits[at / 8] |= ((number(place) >> bit & 1) as u8) << (at % 8);
                }
            }
            for (first, count) in [(0, 200), (1, 199), (7, 2), (8, 100), (190, 10), (3, 0)] {
                let mut out = vec![0; count];
                unpack(&bits, width, first, &mut out);
                let expected: Vec<u32> = (first..first + count).map(|place| number(place) as u32).collect();
                assert_eq!(out, expected, "{width} bits, {count} from {first}");
            }
        }
    }
}
