//! Pieces of bytes in one file that no directory shows.
//!
//! In: buffers. Out: the same bytes, in one allocation, by one read where they lie together. The promise: what comes
//! back is what was written, or an error; the file never grows beyond its size, and its space is the system's again when
//! the process ends, however it does. It does not know what the bytes mean.

use std::fs::File;
use std::hash::Hasher as _;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::buffer::{Buffer, MutableBuffer};
use twox_hash::XxHash64;

use super::space::Space;

/// Smaller buffers are written together.
const WRITE_BYTES: usize = 64 << 10;

pub(super) struct Store {
    file: File,
    space: Mutex<Space>,
}

/// Bytes in the file; their space is free again on drop.
pub(super) struct Piece {
    store: Arc<Store>,
    parts: Vec<Range<u64>>,
    bytes: u64,
    /// XXH64, which is as fast as memory: a torn write, a worn disk or another's hand must not become rows.
    sum: u64,
}

/// Why a piece does not come back.
#[derive(Debug, thiserror::Error)]
pub(super) enum LostError {
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    #[error("it is not what was written")]
    Changed,
}

/// Writes into one part after the other.
struct Parts<'a> {
    file: &'a File,
    now: Range<u64>,
    next: std::slice::Iter<'a, Range<u64>>,
}

impl Store {
    /// A file of at most so many bytes in a directory, which is made if there is none.
    pub(super) fn open(directory: &Path, bytes: u64) -> io::Result<Arc<Self>> {
        std::fs::create_dir_all(directory)?;
        // It has no name, so that nothing is left of it when the process dies.
        Ok(Self::over(tempfile::tempfile_in(directory)?, bytes))
    }

    pub(super) fn over(file: File, bytes: u64) -> Arc<Self> {
        Arc::new(Self { file, space: Mutex::new(Space::new(bytes)) })
    }

    /// Writes buffers as one piece; `None` if there is no space.
    pub(super) fn write(self: &Arc<Self>, buffers: &[Buffer]) -> io::Result<Option<Piece>> {
        let bytes = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let Some(parts) = self.space().take(bytes) else { return Ok(None) };
        let mut piece = Piece { store: Arc::clone(self), parts, bytes, sum: 0 };
        let parts = Parts { file: &self.file, now: 0..0, next: piece.parts.iter() };
        let (mut writer, mut sum) = (BufWriter::with_capacity(WRITE_BYTES, parts), XxHash64::default());
        for buffer in buffers {
            sum.write(buffer);
            writer.write_all(buffer)?;
        }
        writer.flush()?;
        drop(writer);
        piece.sum = sum.finish();
        Ok(Some(piece))
    }

    fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Piece {
    /// Memory for the bytes, aligned as arrays want it.
    pub(super) fn allocate(&self) -> MutableBuffer {
        MutableBuffer::from_len_zeroed(self.bytes as usize)
    }

    /// Reads the bytes into memory for them.
    pub(super) fn read(&self, mut bytes: MutableBuffer) -> Result<Buffer, LostError> {
        let mut rest = bytes.as_slice_mut();
        for part in &self.parts {
            let length = rest.len().min((part.end - part.start) as usize);
            let (now, later) = rest.split_at_mut(length);
            self.store.file.read_exact_at(now, part.start).map_err(LostError::Read)?;
            rest = later;
        }
        Ok(bytes.into())
    }

    /// Whether bytes that were read are those that were written.
    pub(super) fn prove(&self, bytes: &Buffer) -> Result<(), LostError> {
        if XxHash64::oneshot(0, bytes) == self.sum { Ok(()) } else { Err(LostError::Changed) }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let mut space = self.store.space();
        self.parts.drain(..).for_each(|part| space.give_back(part));
    }
}

impl Write for Parts<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.now.is_empty() {
            self.now = self.next.next().cloned().ok_or(io::ErrorKind::WriteZero)?;
        }
        let fitting = bytes.len().min((self.now.end - self.now.start) as usize);
        let written = self.file.write_at(&bytes[..fitting], self.now.start)?;
        self.now.start += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
impl Store {
    /// Changes every byte that is in the file.
    pub(super) fn damage(&self) {
        let mut bytes = vec![0; self.file.metadata().unwrap().len() as usize];
        self.file.read_exact_at(&mut bytes, 0).unwrap();
        bytes.iter_mut().for_each(|byte| *byte ^= 0xff);
        self.file.write_all_at(&bytes, 0).unwrap();
    }

    /// Takes the bytes away.
    pub(super) fn cut(&self) {
        self.file.set_len(0).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(bytes: u64) -> Arc<Store> {
        Store::open(&tempfile::tempdir().unwrap().path().join("made"), bytes).unwrap()
    }

    fn text(byte: u8, bytes: usize) -> Vec<Buffer> {
        vec![Buffer::from(vec![byte; bytes / 3]), Buffer::from(vec![byte + 1; bytes - bytes / 3])]
    }

    fn joined(buffers: &[Buffer]) -> Vec<u8> {
        buffers.iter().flat_map(|buffer| buffer.to_vec()).collect()
    }

    fn read(piece: &Piece) -> Result<Vec<u8>, LostError> {
        let bytes = piece.read(piece.allocate())?;
        piece.prove(&bytes)?;
        Ok(bytes.to_vec())
    }

    #[test]
    fn pieces_that_do_not_lie_together_come_back_as_one() {
        let store = store(100 << 12);
        let mut pieces: Vec<_> =
            (0..20).map(|index| store.write(&text(index, 20_000)).unwrap().unwrap()).collect();
        assert!(store.write(&text(0, 1)).unwrap().is_none(), "it is full");
        // Gaps of five units between pieces.
        let mut index = 0;
        pieces.retain(|_| {
            index += 1;
            index % 2 == 0
        });
        let large = store.write(&text(77, 150_000)).unwrap().unwrap();
        assert!(large.parts.len() > 1);
        assert_eq!(read(&large).unwrap(), joined(&text(77, 150_000)));
        for (piece, index) in pieces.iter().zip(0..) {
            assert_eq!(read(piece).unwrap(), joined(&text(2 * index + 1, 20_000)));
        }
        store.damage();
        assert!(pieces.iter().chain([&large]).all(|piece| matches!(read(piece), Err(LostError::Changed))));
        store.cut();
        assert!(pieces.iter().chain([&large]).all(|piece| matches!(read(piece), Err(LostError::Read(_)))));
    }
}
