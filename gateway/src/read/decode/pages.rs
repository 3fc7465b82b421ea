//! The pages of one column chunk, as far as some rows need them.
//!
//! In: where a chunk lies, which of its rows are wanted, and later the bytes. Out: the ranges to fetch, then
//! one page after the other. The promise: with page locations only pages with wanted rows are fetched; one
//! page is decompressed at a time. It knows neither levels nor values.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf as _, Bytes, buf};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, RowSelection};
use parquet::basic::Encoding;
use parquet::column::page::Page;
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use super::Odd;
use super::decompress::Decompressed;

/// Where the bytes of a column chunk lie.
#[derive(Clone)]
pub(super) struct Chunk {
    leaf: usize,
    ranges: Vec<Range<u64>>,
    locations: Option<Vec<PageLocation>>,
}

/// A column chunk being read.
pub(super) struct Pages {
    reader: Decompressed<Held>,
    /// Whether every page begins with a row.
    is_indexed: bool,
}

/// A page's parts.
pub(super) enum Parts {
    Dictionary {
        values: Bytes,
        count: usize,
    },
    Data {
        repetition: Bytes,
        definition: Bytes,
        values: Bytes,
        encoding: Encoding,
        levels: usize,
        /// Whether its first level must be that of a row.
        is_new_row: bool,
    },
}

/// Bytes of a file that were fetched.
#[derive(Clone, Default)]
pub(super) struct Held(Vec<(Range<u64>, Bytes)>);

impl Chunk {
    /// The chunk of one leaf column; `None` where the footer's page locations cannot be right.
    pub(super) fn new(
        footer: &ArrowReaderMetadata,
        row_group: usize,
        leaf: usize,
        rows: Option<&RowSelection>,
    ) -> Option<Self> {
        let group = footer.metadata().row_group(row_group);
        let (start, length) = group.column(leaf).byte_range();
        let whole = start..start.checked_add(length)?;
        let index = footer.metadata().page_index_for_row_group(row_group);
        let locations = index.page_locations(leaf);
        let is_sound = |locations: &Vec<PageLocation>| are_sound(locations, &whole, group.num_rows());
        // All rows are all pages.
        let rows = rows.filter(|rows| u64::try_from(group.num_rows()) != Ok(rows.row_count() as u64));
        let (Some(rows), Some(locations)) = (rows, locations) else {
            let locations = locations.filter(|locations| is_sound(locations)).cloned();
            return Some(Self { leaf, ranges: vec![whole], locations });
        };
        if !is_sound(locations) {
            return None;
        }
        let mut ranges = rows.scan_ranges(locations);
        let first = locations.first()?.offset as u64;
        if first != whole.start {
            ranges.insert(0, whole.start..first);
        }
        Some(Self { leaf, ranges, locations: Some(locations.clone()) })
    }

    /// The same, without page locations where they cannot be right.
    pub(super) fn of_any(
        footer: &ArrowReaderMetadata,
        row_group: usize,
        leaf: usize,
        rows: &RowSelection,
    ) -> Self {
        Self::new(footer, row_group, leaf, Some(rows)).unwrap_or_else(|| {
            let (start, length) = footer.metadata().row_group(row_group).column(leaf).byte_range();
            let whole = start..start.saturating_add(length);
            Self { leaf, ranges: vec![whole], locations: None }
        })
    }

    pub(super) fn leaf(&self) -> usize {
        self.leaf
    }

    /// What must be fetched.
    pub(super) fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Reads the pages in `held`, which has all of [`ranges`](Self::ranges).
    pub(super) fn open(
        self,
        footer: &ArrowReaderMetadata,
        row_group: usize,
        held: &Held,
    ) -> Result<Pages, Odd> {
        let is_indexed = self.locations.is_some();
        let group = footer.metadata().row_group(row_group);
        let (own, rows) = (self.own(held), rows(group));
        let reader = Decompressed::new(own, group.column(self.leaf), rows, self.locations);
        Ok(Pages { reader: reader.map_err(unreadable)?, is_indexed })
    }

    /// The same as parquet's own readers take them.
    pub(super) fn reader(
        self,
        footer: &ArrowReaderMetadata,
        row_group: usize,
        held: &Held,
    ) -> Result<SerializedPageReader<Held>, ParquetError> {
        let group = footer.metadata().row_group(row_group);
        let (own, rows) = (Arc::new(self.own(held)), rows(group));
        SerializedPageReader::new(own, group.column(self.leaf), rows, self.locations)
    }

    /// What it needs of what is held.
    fn own(&self, held: &Held) -> Held {
        Held(self.ranges.iter().filter_map(|range| Some((range.clone(), held.find(range)?))).collect())
    }
}

fn rows(group: &RowGroupMetaData) -> usize {
    usize::try_from(group.num_rows()).unwrap_or(0)
}

impl Pages {
    /// Whether every page begins with a row, so that none has to be turned to see where the last row ends.
    pub(super) fn is_indexed(&self) -> bool {
        self.is_indexed
    }

    /// How many rows the next page has, if that can be told without reading it.
    pub(super) fn rows_ahead(&mut self) -> Result<Option<usize>, Odd> {
        let page = self.reader.peek().map_err(unreadable)?;
        Ok(page.and_then(|page| page.num_rows))
    }

    /// Passes the next page.
    pub(super) fn skip(&mut self) -> Result<(), Odd> {
        self.reader.skip().map_err(unreadable)
    }

    pub(super) fn next(&mut self) -> Result<Option<Parts>, Odd> {
        let page = self.reader.next().map_err(unreadable)?;
        page.map(|page| parts(page, self.is_indexed)).transpose()
    }
}

/// Whether pages of so many rows can lie there.
fn are_sound(locations: &[PageLocation], whole: &Range<u64>, rows: i64) -> bool {
    let is_within = |location: &PageLocation| {
        let start = u64::try_from(location.offset).ok()?;
        let end = start.checked_add(u64::try_from(location.compressed_page_size).ok()?)?;
        Some(whole.start <= start && end <= whole.end)
    };
    let (Some(first), Some(last)) = (locations.first(), locations.last()) else { return false };
    locations.iter().all(|location| is_within(location) == Some(true))
        && first.first_row_index == 0
        && locations.is_sorted_by(|a, b| a.first_row_index < b.first_row_index && a.offset < b.offset)
        && last.first_row_index <= rows
}

fn unreadable(_: ParquetError) -> Odd {
    // What is wrong with it is said by parquet's own reader, which is asked next.
    Odd::Other("a page that cannot be read")
}

fn parts(page: Page, is_indexed: bool) -> Result<Parts, Odd> {
    const CUT: Odd = Odd::Other("levels that do not fit into their page");
    match page {
        Page::DictionaryPage { buf, num_values, encoding, .. } => match encoding {
            Encoding::PLAIN | Encoding::PLAIN_DICTIONARY => {
                Ok(Parts::Dictionary { values: buf, count: num_values as usize })
            }
            _ => Err(Odd::Other("a dictionary in another encoding")),
        },
        Page::DataPage { buf, num_values, encoding, def_level_encoding, rep_level_encoding, .. } => {
            if (def_level_encoding, rep_level_encoding) != (Encoding::RLE, Encoding::RLE) {
                return Err(Odd::Other("levels in another encoding"));
            }
            let mut values = buf;
            let mut levels = || {
                let length = u32::from_le_bytes(*values.first_chunk()?) as usize;
                let fits = length <= values.len() - 4;
                values.advance(4);
                fits.then(|| values.split_to(length))
            };
            let (repetition, definition) = (levels().ok_or(CUT)?, levels().ok_or(CUT)?);
            Ok(Parts::Data {
                repetition,
                definition,
                values,
                encoding,
                levels: num_values as usize,
                is_new_row: is_indexed,
            })
        }
        Page::DataPageV2 { buf, num_values, encoding, def_levels_byte_len, rep_levels_byte_len, .. } => {
            let mut values = buf;
            let mut levels = |length: u32| {
                let length = length as usize;
                (length <= values.len()).then(|| values.split_to(length))
            };
            let repetition = levels(rep_levels_byte_len).ok_or(CUT)?;
            let definition = levels(def_levels_byte_len).ok_or(CUT)?;
            Ok(Parts::Data {
                repetition,
                definition,
                values,
                encoding,
                levels: num_values as usize,
                is_new_row: true,
            })
        }
    }
}

impl Held {
    pub(super) fn add(&mut self, ranges: Vec<Range<u64>>, bytes: Vec<Bytes>) {
        self.0.extend(ranges.into_iter().zip(bytes));
    }

    pub(super) fn extend(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }

    /// The bytes of a range, if they were fetched together.
    pub(super) fn find(&self, range: &Range<u64>) -> Option<Bytes> {
        let (held, bytes) =
            self.0.iter().find(|(held, _)| held.start <= range.start && range.end <= held.end)?;
        Some(bytes.slice((range.start - held.start) as usize..(range.end - held.start) as usize))
    }
}

impl Length for Held {
    fn len(&self) -> u64 {
        self.0.iter().map(|(range, _)| range.end).max().unwrap_or(0)
    }
}

impl ChunkReader for Held {
    type T = buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let range = self.0.iter().map(|(range, _)| range).find(|range| range.contains(&start));
        let bytes = range.and_then(|range| self.find(&(start..range.end)));
        Ok(bytes.ok_or_else(missing)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        self.find(&(start..start.saturating_add(length as u64))).ok_or_else(missing)
    }
}

fn missing() -> ParquetError {
    ParquetError::from(io::Error::from(io::ErrorKind::UnexpectedEof))
}
