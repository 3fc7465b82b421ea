//! Bit-packed numbers, and what they stand for.
//!
//! In: bytes, the width of a number, which of them, what a number stands for. Out: that. The promise: eight
//! at a time with shifts known when this is compiled, for widths that dictionaries have; nothing is read
//! outside the bytes.

use super::runs::eight_bytes;

/// Writes `of` numbers `first..first + out.len()` of `width` bits, which all must lie in `bytes`, and returns
/// the largest of the numbers.
pub(super) fn unpack<T>(
    bytes: &[u8],
    width: usize,
    first: usize,
    out: &mut [T],
    of: impl Fn(u32) -> T + Copy,
) -> u32 {
    // Up to where a number begins a byte.
    let odd = out.len().min(first.next_multiple_of(8) - first);
    let (head, out) = out.split_at_mut(odd);
    let of_head = one_by_one(bytes, width, first, head, of);
    let first = first + odd;
    let whole = bytes.get(first / 8 * width..).unwrap_or_default();
    let (eights, _) = out.as_chunks_mut::<8>();
    let (done, of_eights) = match width {
        1 => eight_by_eight::<1, T>(whole, eights, of),
        2 => eight_by_eight::<2, T>(whole, eights, of),
        3 => eight_by_eight::<3, T>(whole, eights, of),
        4 => eight_by_eight::<4, T>(whole, eights, of),
        5 => eight_by_eight::<5, T>(whole, eights, of),
        6 => eight_by_eight::<6, T>(whole, eights, of),
        7 => eight_by_eight::<7, T>(whole, eights, of),
        8 => eight_by_eight::<8, T>(whole, eights, of),
        9 => eight_by_eight::<9, T>(whole, eights, of),
        10 => eight_by_eight::<10, T>(whole, eights, of),
        11 => eight_by_eight::<11, T>(whole, eights, of),
        12 => eight_by_eight::<12, T>(whole, eights, of),
        13 => eight_by_eight::<13, T>(whole, eights, of),
        14 => eight_by_eight::<14, T>(whole, eights, of),
        15 => eight_by_eight::<15, T>(whole, eights, of),
        16 => eight_by_eight::<16, T>(whole, eights, of),
        17 => eight_by_eight::<17, T>(whole, eights, of),
        18 => eight_by_eight::<18, T>(whole, eights, of),
        19 => eight_by_eight::<19, T>(whole, eights, of),
        20 => eight_by_eight::<20, T>(whole, eights, of),
        _ => (0, 0),
    };
    let of_tail = one_by_one(bytes, width, first + done, &mut out[done..], of);
    of_head.max(of_eights).max(of_tail)
}

/// Returns how many were written, fewer where the bytes end, and the largest of their numbers.
fn eight_by_eight<const WIDTH: usize, T>(
    bytes: &[u8],
    out: &mut [[T; 8]],
    of: impl Fn(u32) -> T,
) -> (usize, u32) {
    let (mut done, mut most) = (0, 0);
    for (step, eight) in out.iter_mut().enumerate() {
        // Of the last number four bytes are read, too.
        let Some(window) = bytes.get(step * WIDTH..step * WIDTH + WIDTH + 4) else { break };
        for (place, value) in eight.iter_mut().enumerate() {
            let bit = place * WIDTH;
            let word = window[bit / 8..].first_chunk().expect("the window is four bytes longer");
            let number = u32::from_le_bytes(*word) >> (bit % 8) & ((1 << WIDTH) - 1);
            most = number.max(most);
            *value = of(number);
        }
        done += 8;
    }
    (done, most)
}

fn one_by_one<T>(bytes: &[u8], width: usize, first: usize, out: &mut [T], of: impl Fn(u32) -> T) -> u32 {
    let mask = (1u64 << width) - 1;
    let mut most = 0;
    for (value, place) in out.iter_mut().zip(first..) {
        let bit = place * width;
        let number = (eight_bytes(bytes, bit / 8) >> (bit % 8) & mask) as u32;
        most = most.max(number);
        *value = of(number);
    }
    most
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
                let most = unpack(&bits, width, first, &mut out, |number| number);
                let expected: Vec<u32> = (first..first + count).map(|place| number(place) as u32).collect();
                assert_eq!(out, expected, "{width} bits, {count} from {first}");
                assert_eq!(most, expected.into_iter().max().unwrap_or(0));
            }
        }
    }
}
