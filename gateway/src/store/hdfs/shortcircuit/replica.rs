//! A replica's two files.
//!
//! In: which bytes. Out: those bytes, proved. The layout is `BlockMetadataHeader`'s: a version, the kind of the
//! checksums, what one is of, and then the checksums of the block from its first byte on.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use bytes::BytesMut;

use super::super::connection::TransferError;
use super::super::packet::{CHECKSUM_BYTES, Checksums, PacketError};
use super::super::wire;

const VERSION: [u8; 2] = [0, 1];
const HEADER_BYTES: u64 = 7;
/// Read and proved at once: small enough to lie in a core's own cache meanwhile.
const PIECE_BYTES: usize = 128 << 10;

#[derive(Debug)]
pub(super) struct Replica {
    data: File,
    sums: File,
    checksums: Checksums,
}

impl Replica {
    pub(super) fn new(data: File, sums: File) -> Result<Self, TransferError> {
        let mut header = [0; HEADER_BYTES as usize];
        sums.read_exact_at(&mut header, 0).map_err(TransferError::Broken)?;
        let [a, b, kind, chunk @ ..] = header;
        if [a, b] != VERSION {
            return Err(TransferError::Broken(io::Error::other(
                "its checksums are of no version known here",
            )));
        }
        let checksum = wire::Checksum { kind: i32::from(kind), chunk_bytes: u32::from_be_bytes(chunk) };
        let checksums = Checksums::of(Some(wire::ChecksumInfo { checksum }))?;
        Ok(Self { data, sums, checksums })
    }

    /// Appends bytes of the block to `into`. After an error `into` has those that were good.
    pub(super) fn read(&self, range: Range<u64>, into: &mut BytesMut) -> Result<(), TransferError> {
        let chunk = self.checksums.chunk_bytes;
        let mut piece = vec![0; (PIECE_BYTES / chunk).max(1) * chunk];
        let mut sums = vec![0; self.checksums.of_data(piece.len())];
        let mut at = range.start - range.start % chunk as u64;
        while at < range.end {
            // The last chunk of a block may be a part of one.
            let wanted = piece.len().min((range.end - at).next_multiple_of(chunk as u64) as usize);
            let data = &mut piece[..wanted];
            let read = read_at(&self.data, data, at).map_err(TransferError::Broken)?;
            let data = &data[..read];
            let sums = &mut sums[..self.checksums.of_data(read)];
            let first = HEADER_BYTES + at / chunk as u64 * CHECKSUM_BYTES as u64;
            self.sums.read_exact_at(sums, first).map_err(TransferError::Broken)?;
            let good = self.checksums.verify(data, sums).err();
            let end = at + good.unwrap_or(read) as u64;
            let within = |position: u64| (position.clamp(at, end) - at) as usize;
            into.extend_from_slice(&data[within(range.start)..within(range.end)]);
            if good.is_some() {
                return Err(PacketError::Corrupt { start: end, end: end + chunk as u64 }.into());
            }
            at = end;
            if at < range.end && read < wanted {
                let ended = io::Error::new(io::ErrorKind::UnexpectedEof, "its file ends early");
                return Err(TransferError::Broken(ended));
            }
        }
        Ok(())
    }
}

/// Reads until `into` is full or the file ends.
fn read_at(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < into.len() {
        match file.read_at(&mut into[read..], at + read as u64) {
            Ok(0) => break,
            Ok(bytes) => read += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
