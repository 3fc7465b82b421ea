//! Writing TensorFlow's strings.
//!
//! *In:* bytes and the place of a string. *Out:* a string that TensorFlow owns. *Promise:* the layout of
//! `ctstring_internal.h`, the same since TensorFlow 2.3: up to 22 bytes inline, longer ones in memory
//! from `malloc`, which TensorFlow returns by `free`. Views into a slot would save the copy but outlive
//! it: ops such as `gather` copy the view and drop the tensor that guards the slot.
#![expect(unsafe_code, reason = "TensorFlow frees what malloc gave, through a pointer inside its string")]

use std::ops::Range;

/// Bytes of a string's place.
pub(crate) const SIZE: usize = 24;
const INLINE: usize = 22;
const LARGE: u64 = 1;

/// An empty place for one string, as TensorFlow's allocator leaves it.
pub(crate) type Place = [u64; 3];

/// Of each inline length the bytes of a place that are text.
const TEXT: [Place; INLINE + 1] = {
    let mut masks = [[0; 3]; INLINE + 1];
    let mut length = 0;
    while length <= INLINE {
        let mut at = 1;
        while at <= length {
            masks[length][at / 8] |= 0xff << (at % 8 * 8);
            at += 1;
        }
        length += 1;
    }
    masks
};

/// Writes the text at `range` of `data` into a place that holds an empty string.
pub(crate) fn write(place: &mut Place, data: &[u8], range: Range<usize>) {
    if range.len() <= INLINE {
        *place = inline(data, range);
        return;
    }
    let text = &data[range];
    let capacity = (text.len() + 1).next_multiple_of(16) - 1;
    // SAFETY: malloc may be called with any size.
    let memory = unsafe { libc::malloc(capacity + 1) }.cast::<u8>();
    assert!(!memory.is_null(), "no memory for a string of {} bytes", text.len());
    // SAFETY: the allocation is new and has room for the text.
    unsafe { memory.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
    // SAFETY: `capacity + 1` bytes were allocated, and the text has at most `capacity`.
    let end = unsafe { memory.add(text.len()) };
    // SAFETY: inside the allocation. C readers expect a zero behind the text.
    unsafe { end.write(0) };
    *place = [(text.len() as u64) << 2 | LARGE, capacity as u64, memory as u64];
}

/// Whole words are read and what is not of the text is masked out, which is several times as fast as
/// copying some bytes. Where no whole words are left the text is copied in front of zeros.
fn inline(data: &[u8], range: Range<usize>) -> Place {
    let mut end = [0; SIZE];
    let run = match data[range.start..].first_chunk::<SIZE>() {
        Some(run) => run,
        None => {
            end[..range.len()].copy_from_slice(&data[range.clone()]);
            &end
        }
    };
    let word = |i: usize| u64::from_le_bytes(run.as_chunks::<8>().0[i]);
    let (a, b, c) = (word(0), word(1), word(2));
    let [first, second, third] = TEXT[range.len()];
    [a << 8 & first | (range.len() as u64) << 2, (a >> 56 | b << 8) & second, (b >> 56 | c << 8) & third]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads as TensorFlow does, and frees as it does.
    fn read(place: Place) -> Vec<u8> {
        let bytes: Vec<u8> = place.iter().flat_map(|word| word.to_le_bytes()).collect();
        if bytes[0] & 3 == 0 {
            let (text, behind) = bytes[1..].split_at((bytes[0] >> 2) as usize);
            assert!(behind.iter().all(|&byte| byte == 0), "C readers find the end");
            return text.to_vec();
        }
        assert_eq!(place[0] & 3, LARGE);
        let (length, memory) = ((place[0] >> 2) as usize, place[2] as *mut u8);
        assert!(place[1] as usize >= length);
        // SAFETY: written by `write` just now: `length` bytes and a zero.
        let text = unsafe { std::slice::from_raw_parts(memory, length + 1) }.to_vec();
        // SAFETY: from malloc, and not used again.
        unsafe { libc::free(memory.cast()) };
        assert_eq!(text[length], 0, "C readers find the end");
        text[..length].to_vec()
    }

    #[test]
    fn short_and_long_strings_are_what_tensorflow_reads() {
        for length in [0, 1, 21, 22, 23, 24, 255, 100_000] {
            for (before, after) in [(0, 0), (0, 40), (3, 2), (40, 0)] {
                let data: Vec<u8> = (0..before + length + after).map(|i| i as u8 | 1).collect();
                let range = before..before + length;
                let mut place = [0; 3];
                write(&mut place, &data, range.clone());
                assert_eq!(read(place), data[range], "{length} bytes, {after} after them");
            }
        }
    }
}
