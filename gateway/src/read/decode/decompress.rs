//! Pages decompressed into the memory of the one before.
//!
//! In: the bytes of a column chunk. Out: its pages, one after the other. The promise: they are what parquet's own reader
//! makes of them, none takes more than the footer says that all of them do, and no page is kept but the last. Parquet's own
//! reader writes zeros to fresh memory, and decompresses there. It knows neither levels nor values.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parquet::basic::Compression;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;
use snap::raw::decompress_len;
use zstd::zstd_safe::get_frame_content_size;

/// A column chunk's pages.
pub(super) struct Decompressed<R: ChunkReader> {
    pages: SerializedPageReader<R>,
    /// `None` where the pages come decompressed.
    codec: Option<Codec>,
    memory: Memory,
}

/// What is decompressed here; all else is by parquet's own reader.
enum Codec {
    Snappy(snap::raw::Decoder),
    Zstd(zstd::bulk::Decompressor<'static>),
}

/// What pages are in.
struct Memory {
    /// Bytes of a page, at most.
    limit: usize,
    /// The last one: of use again when nobody else holds it.
    last: Option<Bytes>,
}

impl<R: ChunkReader> Decompressed<R> {
    /// The pages of a column chunk with so many rows.
    pub(super) fn new(
        bytes: R,
        column: &ColumnChunkMetaData,
        rows: usize,
        locations: Option<Vec<PageLocation>>,
    ) -> Result<Self, ParquetError> {
        let codec = Codec::of(column)?;
        let stored = column.clone().into_builder().set_compression(Compression::UNCOMPRESSED);
        let stored = codec.is_some().then(|| stored.build()).transpose()?;
        let column = stored.as_ref().unwrap_or(column);
        let pages = SerializedPageReader::new(Arc::new(bytes), column, rows, locations)?;
        let limit = usize::try_from(column.uncompressed_size()).unwrap_or(0);
        Ok(Self { pages, codec, memory: Memory { limit, last: None } })
    }

    pub(super) fn next(&mut self) -> Result<Option<Page>, ParquetError> {
        let page = self.pages.get_next_page()?;
        page.map(|page| self.decompressed(page)).transpose()
    }

    /// What is known of the next page without decompressing it.
    pub(super) fn peek(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.pages.peek_next_page()
    }

    pub(super) fn skip(&mut self) -> Result<(), ParquetError> {
        self.pages.skip_next_page()
    }

    fn decompressed(&mut self, mut page: Page) -> Result<Page, ParquetError> {
        let Some(codec) = &mut self.codec else { return Ok(page) };
        // Levels of the second version are not compressed.
        let (bytes, plain) = match &mut page {
            Page::DictionaryPage { buf, .. } | Page::DataPage { buf, .. } => (buf, 0),
            Page::DataPageV2 { is_compressed: false, .. } => return Ok(page),
            Page::DataPageV2 { buf, rep_levels_byte_len, def_levels_byte_len, .. } => {
                (buf, u64::from(*rep_levels_byte_len) + u64::from(*def_levels_byte_len))
            }
        };
        let plain = usize::try_from(plain).ok().filter(|&plain| plain <= bytes.len());
        let (levels, values) = bytes.split_at(plain.ok_or_else(|| broken("its levels do not fit into it"))?);
        let most = if values.is_empty() { Some(0) } else { codec.length(values)? };
        let most = most.map_or(self.memory.limit, |length| levels.len().saturating_add(length));
        let mut memory = self.memory.take(most)?;
        let (before, rest) = memory.split_at_mut(levels.len());
        before.copy_from_slice(levels);
        let length =
            if values.is_empty() { 0 } else { codec.decompress(values, &mut rest[..most - levels.len()])? };
        *bytes = self.memory.give(memory, levels.len() + length);
        Ok(page)
    }
}

impl Codec {
    fn of(column: &ColumnChunkMetaData) -> Result<Option<Self>, ParquetError> {
        Ok(match column.compression() {
            Compression::SNAPPY => Some(Self::Snappy(snap::raw::Decoder::new())),
            Compression::ZSTD(_) => Some(Self::Zstd(zstd::bulk::Decompressor::new()?)),
            _ => None,
        })
    }

    /// How long it is decompressed, if it says so itself.
    fn length(&self, compressed: &[u8]) -> Result<Option<usize>, ParquetError> {
        match self {
            Self::Snappy(_) => Ok(Some(decompress_len(compressed)?)),
            Self::Zstd(_) => {
                let length = get_frame_content_size(compressed).ok().flatten();
                Ok(length.map(|length| usize::try_from(length).unwrap_or(usize::MAX)))
            }
        }
    }

    fn decompress(&mut self, compressed: &[u8], into: &mut [u8]) -> Result<usize, ParquetError> {
        match self {
            Self::Snappy(decoder) => Ok(decoder.decompress(compressed, into)?),
            Self::Zstd(decoder) => Ok(decoder.decompress_to_buffer(compressed, into)?),
        }
    }
}

impl Memory {
    /// Room for so many bytes, or more.
    fn take(&mut self, bytes: usize) -> Result<BytesMut, ParquetError> {
        if bytes > self.limit {
            return Err(broken("it is longer than its column"));
        }
        let last = self.last.take().filter(|last| last.is_unique() && last.len() >= bytes);
        Ok(last.and_then(|last| last.try_into_mut().ok()).unwrap_or_else(|| BytesMut::zeroed(bytes)))
    }

    /// The first bytes of what was taken.
    fn give(&mut self, memory: BytesMut, bytes: usize) -> Bytes {
        let memory = memory.freeze();
        let page = memory.slice(..bytes);
        self.last = Some(memory);
        page
    }
}

fn broken(what: &str) -> ParquetError {
    ParquetError::General(format!("a page cannot be decompressed: {what}"))
}
