//! What decoding a column chunk holds beside its rows, told by its footer.
//!
//! In: a column of a row group, and which of its rows. Out: the bytes that are fetched for them, and the dictionary and
//! the page that its decoder keeps. The promise: these are not taken for more than the footer says that the whole chunk is.
//!
//! Where a dictionary lies is said, and where pages do if the file has an offset index; how large they are once decompressed
//! is not. They are taken to be compressed as the chunk is, and to be as large as writers make them: these aim at 1 MiB, and
//! look whether they are there after so many values. Of values of 8 KiB a page, and a dictionary, is 8 MiB.

use std::ops::Range;

use parquet::basic::{Compression, Encoding, Type};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::page_index::offset_index::PageLocation;

/// What writers aim at, of pages and of dictionaries.
const AIM_BYTES: u64 = 1 << 20;
/// Values that they write between looks: Arrow's in C++ and in Rust, and thus pyarrow, Polars and pandas. Java's look sooner.
const BETWEEN_LOOKS: u64 = 1024;
/// What pages of a chunk may have become larger by, compressed.
const EXPANDED_BYTES: u64 = 64 << 10;
/// A writer that aims at 100 MB.
const OF_LARGE_PAGES: &str = "DuckDB";

/// A column of a row group.
pub(super) struct Chunk<'a> {
    column: &'a ColumnChunkMetaData,
    rows: u64,
    locations: Option<&'a [PageLocation]>,
    has_large_pages: bool,
}

impl<'a> Chunk<'a> {
    pub(super) fn new(footer: &'a ParquetMetaData, row_group: usize, leaf: usize) -> Self {
        let group = footer.row_group(row_group);
        let created_by = footer.file_metadata().created_by().unwrap_or_default();
        let index = footer.page_index().and_then(|index| index.offset_index(row_group, leaf));
        Self {
            column: group.column(leaf),
            rows: unsigned(group.num_rows()),
            locations: index.map(|index| index.page_locations().as_slice()),
            has_large_pages: created_by.starts_with(OF_LARGE_PAGES),
        }
    }

    /// What is fetched for some rows: the chunk, or its dictionary and the pages that they lie on.
    pub(super) fn stored(&self, rows: &Range<u64>) -> u64 {
        let all = self.compressed();
        let Some(locations) = self.locations.filter(|_| rows.end - rows.start < self.rows) else {
            return all;
        };
        let firsts = locations.iter().map(|page| unsigned(page.first_row_index));
        let ends = firsts.clone().skip(1).chain([u64::MAX]);
        let pages = locations.iter().zip(firsts.zip(ends));
        let wanted = pages.filter(|(_, (first, end))| *first < rows.end && rows.start < *end);
        let pages = wanted.map(|(page, _)| u64::from(page.compressed_page_size.unsigned_abs()));
        pages.fold(self.stored_dictionary(), u64::saturating_add).min(all)
    }

    /// What its decoder keeps from one batch to the next.
    pub(super) fn kept(&self) -> u64 {
        // A page that is not compressed lies in what was fetched.
        let page = if self.is_compressed() { self.page() } else { 0 };
        self.dictionary().saturating_add(page).min(self.uncompressed())
    }

    /// What is held beside that while the values of its dictionary are taken from their page.
    pub(super) fn opening(&self) -> u64 {
        if self.is_compressed() { self.dictionary() } else { 0 }
    }

    /// The values of its dictionary.
    fn dictionary(&self) -> u64 {
        let stored = self.stored_dictionary();
        if stored == 0 {
            return 0;
        }
        // What is not the dictionary is pages, which were hardly smaller before they were compressed.
        let most = self.uncompressed().saturating_sub(self.compressed() - stored).max(stored);
        let most = most.saturating_add(EXPANDED_BYTES).min(self.uncompressed());
        self.decompressed(stored).max(self.looked_at(self.value())).min(most)
    }

    fn stored_dictionary(&self) -> u64 {
        let all = self.compressed();
        let begin = self.column.dictionary_page_offset();
        let said = begin.and_then(|begin| u64::try_from(self.column.data_page_offset() - begin).ok());
        let is_coded = |encoding| matches!(encoding, Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY);
        match said.filter(|&said| 0 < said && said <= all) {
            Some(said) => said,
            // Some writers do not say where it is.
            None if self.column.encodings().any(is_coded) => all,
            None => 0,
        }
    }

    /// Its largest page.
    fn page(&self) -> u64 {
        if let Some(locations) = self.locations {
            let stored =
                locations.iter().map(|page| u64::from(page.compressed_page_size.unsigned_abs())).max();
            return self.decompressed(stored.unwrap_or(0)).max(AIM_BYTES);
        }
        if self.has_large_pages {
            return self.uncompressed();
        }
        // Of lists no page ends within a row.
        let row = self.uncompressed() / self.rows.max(1);
        self.looked_at(self.value()).max(AIM_BYTES.saturating_add(row))
    }

    /// What a writer has before it sees that it is beyond what it aims at.
    fn looked_at(&self, value: u64) -> u64 {
        AIM_BYTES.saturating_add(value.saturating_mul(BETWEEN_LOOKS))
    }

    /// Bytes of a value as they are written plainly, about.
    fn value(&self) -> u64 {
        let values = unsigned(self.column.num_values()).max(1);
        match self.column.column_type() {
            Type::BYTE_ARRAY => {
                let noted = self.column.unencoded_byte_array_data_bytes().map_or(0, unsigned);
                // Each with its length.
                noted.max(self.uncompressed()).div_ceil(values).saturating_add(4)
            }
            Type::FIXED_LEN_BYTE_ARRAY => unsigned(self.column.column_descr().type_length().into()),
            Type::INT96 => 12,
            Type::INT64 | Type::DOUBLE => 8,
            Type::INT32 | Type::FLOAT => 4,
            Type::BOOLEAN => 1,
        }
    }

    /// Some bytes of it, decompressed.
    fn decompressed(&self, stored: u64) -> u64 {
        let bytes = u128::from(stored) * u128::from(self.uncompressed());
        let bytes = bytes.div_ceil(u128::from(self.compressed().max(1)));
        u64::try_from(bytes).unwrap_or(u64::MAX).max(stored)
    }

    fn is_compressed(&self) -> bool {
        self.column.compression() != Compression::UNCOMPRESSED
    }

    fn compressed(&self) -> u64 {
        unsigned(self.column.compressed_size())
    }

    fn uncompressed(&self) -> u64 {
        unsigned(self.column.uncompressed_size())
    }
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests;
