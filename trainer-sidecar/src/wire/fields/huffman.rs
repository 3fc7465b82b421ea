//! The Huffman code of HPACK (RFC 7541, appendix B).
//!
//! The code is canonical: symbols of one length follow one another in their own order, so the lengths say
//! all of it.

use super::Fault;

const LONGEST: usize = 30;
const SYMBOLS: usize = 257;
/// Marks the end of a text, and may not be in one.
const END: u16 = 256;

/// Bits of each symbol.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
     6, 10, 10, 12, 13,  6,  8, 11, 10, 10,  8, 11,  8,  6,  6,  6,
     5,  5,  5,  6,  6,  6,  6,  6,  6,  6,  7,  8, 15,  6, 12, 10,
    13,  6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,
     7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8, 13, 19, 13, 14,  6,
    15,  5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5,
     6,  7,  6,  5,  5,  6,  7,  7,  7,  7,  7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// Symbols by length, then by themselves, and how many there are of each length.
const CODE: ([u16; SYMBOLS], [u32; LONGEST + 1]) = {
    let mut symbols = [0; SYMBOLS];
    let mut counts = [0; LONGEST + 1];
    let (mut length, mut place) = (1, 0);
    while length <= LONGEST {
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                symbols[place] = symbol as u16;
                place += 1;
                counts[length] += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    (symbols, counts)
};

/// Decodes a text.
pub(super) fn decode(text: &[u8]) -> Result<Vec<u8>, Fault> {
    let (symbols, counts) = &CODE;
    let mut out = Vec::with_capacity(text.len() * 8 / 5);
    let mut walk = Walk::default();
    for bit in text.iter().flat_map(|byte| (0..8).rev().map(move |shift| u32::from(byte >> shift & 1))) {
        walk.length += 1;
        walk.ones &= bit == 1;
        walk.code = walk.code << 1 | bit;
        let count = counts[walk.length];
        if walk.code - walk.first < count {
            match symbols[walk.place + (walk.code - walk.first) as usize] {
                END => return Err(Fault::Foreign("a compressed header goes on after its end")),
                symbol => out.push(symbol as u8),
            }
            walk = Walk::default();
        } else {
            walk.place += count as usize;
            walk.first = (walk.first + count) << 1;
        }
    }
    // What fills the last byte is the beginning of the end mark, which is all ones.
    if walk.length > 7 || !walk.ones {
        return Err(Fault::Foreign("a compressed header with a malformed end"));
    }
    Ok(out)
}

/// The bits of a symbol that were read.
struct Walk {
    length: usize,
    code: u32,
    /// The first code of that length, and the place of its symbol.
    first: u32,
    place: usize,
    ones: bool,
}

impl Default for Walk {
    fn default() -> Self {
        Self { length: 0, code: 0, first: 0, place: 0, ones: true }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Examples of RFC 7541, appendix C.
    #[test]
    fn the_examples_of_the_standard_read_as_it_says() {
        for (code, text) in [
            (
                &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff][..],
                "www.example.com",
            ),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], "no-cache"),
            (&[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f], "custom-key"),
            (&[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xb8, 0xe8, 0xb4, 0xbf], "custom-value"),
            (&[0x64, 0x02], "302"),
            (&[0xae, 0xc3, 0x77, 0x1a, 0x4b], "private"),
            (
                &[
                    0xd0, 0x7a, 0xbe, 0x94, 0x10, 0x54, 0xd4, 0x44, 0xa8, 0x20, 0x05, 0x95, 0x04, 0x0b, 0x81,
                    0x66, 0xe0, 0x82, 0xa6, 0x2d, 0x1b, 0xff,
                ],
                "Mon, 21 Oct 2013 20:13:21 GMT",
            ),
            (
                &[
                    0x9d, 0x29, 0xad, 0x17, 0x18, 0x63, 0xc7, 0x8f, 0x0b, 0x97, 0xc8, 0xe9, 0xae, 0x82, 0xae,
                    0x43, 0xd3,
                ],
                "https://www.example.com",
            ),
        ] {
            assert_eq!(decode(code).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn an_end_is_less_than_a_byte_of_ones() {
        assert!(decode(&[0x64, 0x02, 0xff]).is_err(), "eight ones more");
        assert_eq!(decode(&[0x07]).unwrap(), b"0");
        assert!(decode(&[0x00]).is_err(), "zeros");
        assert!(decode(&[0xff; 4]).is_err(), "the end mark itself");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn any_bytes_are_a_text_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode(&bytes);
        }
    }
}
