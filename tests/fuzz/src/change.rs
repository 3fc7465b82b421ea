//! One change of an input, of the kinds that decoders trip over.

use std::ops::Range;

use crate::random::Random;

/// Where lengths and counts turn.
const EDGES: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
];

/// Changes `input`, sometimes with a part of `other`.
pub(crate) fn change(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(input.len() + 1);
    match random.below(10) {
        0 => flip(input, random),
        1 => put(input, at, &[random.next() as u8]),
        2 => edge(input, at, random),
        3 => {
            // A neighbour of a number is a number.
            if let Some(byte) = input.get_mut(at) {
                *byte = byte.wrapping_add(if random.below(2) == 0 { 1 } else { u8::MAX });
            }
        }
        4 => drop(input.drain(range(input.len(), random))),
        5 => {
            let repeated = input[range(input.len(), random)].to_vec();
            (0..1 + random.below(3)).for_each(|_| insert(input, at, &repeated));
        }
        6 => insert(input, at, &other[range(other.len(), random)]),
        7 => put(input, at, &other[range(other.len(), random)]),
        8 => {
            input.truncate(at);
            input.extend_from_slice(&other[random.below(other.len() + 1)..]);
        }
        _ => {
            let noise: Vec<u8> = (0..1 + random.below(8)).map(|_| random.next() as u8).collect();
            insert(input, at, &noise);
        }
    }
}

fn flip(input: &mut [u8], random: &mut Random) {
    if !input.is_empty() {
        let at = random.below(input.len());
        input[at] ^= 1 << random.below(8);
    }
}

/// A number of any width, in either order of bytes.
fn edge(input: &mut Vec<u8>, at: usize, random: &mut Random) {
    let number = EDGES[random.below(EDGES.len())].wrapping_sub(random.below(2) as u64);
    let width = 1 << random.below(4);
    if random.below(2) == 0 {
        put(input, at, &number.to_le_bytes()[..width]);
    } else {
        put(input, at, &number.to_be_bytes()[8 - width..]);
    }
}

/// Overwrites what is there.
fn put(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = input.len().min(at + bytes.len());
    input.splice(at..end, bytes.iter().copied());
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    input.splice(at..at, bytes.iter().copied());
}

/// A part, a short one more often than a long one.
fn range(length: usize, random: &mut Random) -> Range<usize> {
    let start = random.below(length + 1);
    let most = (length - start).min(4 << random.below(10));
    start..start + random.below(most + 1)
}
