//! Packets of a block on their way from a DataNode, and what proves them whole.
//!
//! In: a packet's first bytes, as a DataNode says them, and its data with their checksums. Out: where its data
//! belong and how many there are; whether they are what was written. The promise: whatever the bytes are, the
//! answer is a packet that fits what was asked for, or an error. It reads nothing.

use std::ops::Range;

use crc_fast::CrcAlgorithm;
use prost::Message as _;

use super::wire;

/// Hadoop's own limit of a packet.
const MAX_PACKET_BYTES: usize = 16 << 20;
/// A header has at most 33 bytes today.
const MAX_HEADER_BYTES: usize = 256;
/// Of one checksum's data. Hadoop writes 512 unless told otherwise.
const MAX_CHUNK_BYTES: usize = 1 << 20;
/// Of what comes before a header: two lengths.
pub(super) const PRELUDE_BYTES: usize = 6;
pub(super) const CHECKSUM_BYTES: usize = 4;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum PacketError {
    #[error("it sends checksums of kind {kind} over {chunk_bytes} bytes, which is none that HDFS has")]
    Kind { kind: i32, chunk_bytes: u32 },
    #[error("it sends a packet of {packet} bytes with a header of {header}, which HDFS never does")]
    Lengths { packet: usize, header: usize },
    #[error("it sends a packet whose header is not one")]
    Header(#[source] prost::DecodeError),
    #[error("it sends {data} bytes and {checksums} bytes of checksums in a packet of {packet}")]
    Sizes { packet: usize, data: i32, checksums: i64 },
    #[error("it sends bytes {} to {} of the block where {} to {} were wanted", sent.start, sent.end, wanted.start, wanted.end)]
    Place { sent: Range<u64>, wanted: Range<u64> },
    #[error("bytes {start} to {end} of the block do not match their checksum")]
    Corrupt { start: u64, end: u64 },
    #[error("it ends the block {missing} bytes early")]
    Early { missing: u64 },
}

/// How a DataNode's data are proved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Checksums {
    algorithm: Option<CrcAlgorithm>,
    pub(super) chunk_bytes: usize,
}

/// What a packet's header says, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packet {
    /// The bytes of the block in it, none in the last one.
    pub(super) data: Range<u64>,
    /// Bytes of checksums between header and data.
    pub(super) checksums: usize,
}

/// The lengths that a packet begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Prelude {
    packet: usize,
    pub(super) header: usize,
}

impl Checksums {
    pub(super) fn of(said: Option<wire::ChecksumInfo>) -> Result<Self, PacketError> {
        let wire::Checksum { kind, chunk_bytes } = said.map(|said| said.checksum).unwrap_or_default();
        let algorithm = match kind {
            0 => None,
            1 => Some(CrcAlgorithm::Crc32IsoHdlc),
            2 => Some(CrcAlgorithm::Crc32Iscsi),
            _ => return Err(PacketError::Kind { kind, chunk_bytes }),
        };
        match usize::try_from(chunk_bytes) {
            // Without checksums a chunk is of any size.
            Ok(0) if algorithm.is_none() => Ok(Self { algorithm, chunk_bytes: 1 }),
            Ok(chunk_bytes) if (1..=MAX_CHUNK_BYTES).contains(&chunk_bytes) => {
                Ok(Self { algorithm, chunk_bytes })
            }
            _ => Err(PacketError::Kind { kind, chunk_bytes }),
        }
    }

    /// Bytes of the checksums of some data, which begin a chunk.
    pub(super) fn of_data(self, data_bytes: usize) -> usize {
        if self.algorithm.is_some() { data_bytes.div_ceil(self.chunk_bytes) * CHECKSUM_BYTES } else { 0 }
    }

    /// Compares data, which begin a chunk, with their checksums; of others, how many bytes are good before
    /// the first that is not.
    pub(super) fn verify(self, data: &[u8], checksums: &[u8]) -> Result<(), usize> {
        let Some(algorithm) = self.algorithm else { return Ok(()) };
        let (checksums, _) = checksums.as_chunks::<CHECKSUM_BYTES>();
        let chunks = data.chunks(self.chunk_bytes);
        let is_good = |(chunk, sum): (&[u8], &[u8; CHECKSUM_BYTES])| {
            crc_fast::checksum(algorithm, chunk) == u64::from(u32::from_be_bytes(*sum))
        };
        match chunks.zip(checksums).position(|pair| !is_good(pair)) {
            None => Ok(()),
            Some(chunk) => Err(chunk * self.chunk_bytes),
        }
    }
}

impl Prelude {
    pub(super) fn parse(bytes: [u8; PRELUDE_BYTES]) -> Result<Self, PacketError> {
        let [a, b, c, d, e, f] = bytes;
        // The length counts itself, the header's length and the header are extra.
        let packet = u32::from_be_bytes([a, b, c, d]) as usize;
        let header = usize::from(u16::from_be_bytes([e, f]));
        if (4..=MAX_PACKET_BYTES).contains(&packet) && (1..=MAX_HEADER_BYTES).contains(&header) {
            Ok(Self { packet, header })
        } else {
            Err(PacketError::Lengths { packet, header })
        }
    }
}

impl Packet {
    /// Reads the header of a packet that is to begin in the chunk of `wanted.start` and to end with the chunk of
    /// `wanted.end`.
    pub(super) fn parse(
        prelude: Prelude,
        header: &[u8],
        sums: Checksums,
        wanted: Range<u64>,
    ) -> Result<Self, PacketError> {
        let wire::PacketHeader { offset, data_bytes, is_last, .. } =
            wire::PacketHeader::decode(header).map_err(PacketError::Header)?;
        let checksums = prelude.packet as i64 - 4 - i64::from(data_bytes);
        let sizes = || PacketError::Sizes { packet: prelude.packet, data: data_bytes, checksums };
        let data = usize::try_from(data_bytes).map_err(|_| sizes())?;
        if data == 0 {
            // The last packet has neither.
            let missing = wanted.end - wanted.start;
            return match (missing, checksums) {
                (0, 0) if is_last => Ok(Self { data: wanted.end..wanted.end, checksums: 0 }),
                (1.., 0) if is_last => Err(PacketError::Early { missing }),
                _ => Err(sizes()),
            };
        }
        let expected = sums.of_data(data);
        if checksums != expected as i64 {
            return Err(sizes());
        }
        let chunk = sums.chunk_bytes as u64;
        let place = |sent| PacketError::Place { sent, wanted: wanted.clone() };
        let start = u64::try_from(offset).map_err(|_| place(0..0))?;
        let sent = start..start.saturating_add(data as u64);
        let begins = start <= wanted.start && wanted.start - start < chunk && start % chunk == 0;
        let ends = sent.end > wanted.start && sent.end < wanted.end.saturating_add(chunk);
        if begins && ends && !wanted.is_empty() {
            Ok(Self { data: sent, checksums: expected })
        } else {
            Err(place(sent))
        }
    }
}

#[cfg(test)]
mod tests;
