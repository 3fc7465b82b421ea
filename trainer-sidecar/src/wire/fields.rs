//! Header fields in HPACK (RFC 7541), as far as a client needs it that allows no dynamic table.
//!
//! In: whole header blocks. Out: a status and fields. A peer that was told of a table of no bytes may
//! still write an entry to be remembered; there is nothing to remember it in.

mod huffman;
mod names;

use http::header::{HeaderMap, HeaderName, HeaderValue};

use self::names::STATIC;
use super::Fault;

/// Bytes of all fields of a block, counted as HTTP/2 does: 32 more for each.
pub(super) const MOST_BYTES: usize = 64 << 10;
const OVERHEAD: usize = 32;

/// A block, decoded.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// Of a response; trailers have none.
    pub(super) status: Option<u16>,
    pub(super) map: HeaderMap,
}

/// Decodes a block.
///
/// # Errors
/// A block that is not HPACK, is larger than it may be, or holds fields that no response has.
pub(super) fn decode(mut block: &[u8]) -> Result<Fields, Fault> {
    let mut fields = Fields::default();
    let mut bytes = 0;
    let mut begun = false;
    while let Some(&first) = block.first() {
        let (name, value) = match first {
            0x80.. => {
                let (name, value) = entry(integer(&mut block, 7)?)?;
                (name.as_bytes().to_vec(), value.as_bytes().to_vec())
            }
            0x40..0x80 => literal(&mut block, 6)?,
            0x20..0x40 => {
                if integer(&mut block, 5)? != 0 || begun {
                    return Err(Fault::Foreign("a header table that was not allowed"));
                }
                continue;
            }
            // Never to be indexed, or not this time: the same to who reads.
            0x00..0x20 => literal(&mut block, 4)?,
        };
        begun = true;
        bytes += name.len() + value.len() + OVERHEAD;
        if bytes > MOST_BYTES {
            return Err(Fault::Foreign("more header fields than may be"));
        }
        fields.add(&name, &value)?;
    }
    Ok(fields)
}

/// Appends a field as it is, neither compressed nor remembered.
pub(super) fn encode(out: &mut Vec<u8>, name: &str, value: &str) {
    out.push(0);
    for text in [name, value] {
        let length = text.len();
        if length < 127 {
            out.push(length as u8);
        } else {
            out.push(127);
            let mut rest = length - 127;
            while rest > 127 {
                out.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            out.push(rest as u8);
        }
        out.extend_from_slice(text.as_bytes());
    }
}

impl Fields {
    fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), Fault> {
        if name == b":status" {
            let status = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            if self.status.is_some() || !self.map.is_empty() || status.is_none() {
                return Err(Fault::Foreign("a response with a malformed status"));
            }
            self.status = status;
            return Ok(());
        }
        // Pseudo-fields of requests are refused here too: no name begins with a colon.
        let name = HeaderName::from_lowercase(name).map_err(|_| Fault::Foreign("a malformed header name"))?;
        let value = HeaderValue::from_bytes(value).map_err(|_| Fault::Foreign("a malformed header value"))?;
        let added = self.map.try_append(name, value);
        added.map_err(|_| Fault::Foreign("more header fields than may be"))?;
        Ok(())
    }
}

fn entry(index: usize) -> Result<(&'static str, &'static str), Fault> {
    let found = index.checked_sub(1).and_then(|index| STATIC.get(index));
    found.copied().ok_or(Fault::Foreign("an index into a header table that was not allowed"))
}

fn literal(block: &mut &[u8], prefix: u32) -> Result<(Vec<u8>, Vec<u8>), Fault> {
    let name = match integer(block, prefix)? {
        0 => text(block)?,
        index => entry(index)?.0.as_bytes().to_vec(),
    };
    Ok((name, text(block)?))
}

const CUT: Fault = Fault::Foreign("a header block is cut");

fn text(block: &mut &[u8]) -> Result<Vec<u8>, Fault> {
    let compressed = block.first().ok_or(CUT)? & 0x80 != 0;
    let length = integer(block, 7)?;
    let (text, rest) = block.split_at_checked(length).ok_or(CUT)?;
    *block = rest;
    if compressed { huffman::decode(text) } else { Ok(text.to_vec()) }
}

/// A number whose first bits are the last `prefix` of a byte (RFC 7541, section 5.1).
fn integer(block: &mut &[u8], prefix: u32) -> Result<usize, Fault> {
    let mut next = || {
        let (&byte, rest) = block.split_first().ok_or(CUT)?;
        *block = rest;
        Ok(byte)
    };
    let mask = (1_u8 << prefix) - 1;
    let mut value = usize::from(next()? & mask);
    if value < usize::from(mask) {
        return Ok(value);
    }
    // No length of a block that may be needs more.
    for shift in [0, 7, 14] {
        let byte = next()?;
        value += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Fault::Foreign("a header length beyond all measure"))
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
