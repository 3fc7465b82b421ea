//! Pages that have as many repetition levels as they say.
//!
//! In: the pages of a column chunk. Out: the same pages, or an error where levels end early. The promise: a
//! page costs a look at its runs, not at its levels. It knows no values.

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;
use parquet::file::serialized_reader::SerializedPageReader;

use super::Odd;
use super::pages::Held;

/// A reader of pages that counts.
pub(super) struct Counted {
    pages: SerializedPageReader<Held>,
    /// Bits of a repetition level; 0 in a column that does not repeat.
    width: usize,
}

impl Counted {
    /// Of a column whose repetition levels go up to `highest`.
    pub(super) fn new(pages: SerializedPageReader<Held>, highest: i16) -> Self {
        let width = highest.checked_ilog2().map_or(0, |bits| bits as usize + 1);
        Self { pages, width }
    }

    fn counted(&self, page: Page) -> Result<Page, ParquetError> {
        let is_whole = match &page {
            _ if self.width == 0 => true,
            Page::DictionaryPage { .. } => true,
            Page::DataPage { buf, num_values, rep_level_encoding: Encoding::RLE, .. } => {
                let length = buf.first_chunk().map(|length| u32::from_le_bytes(*length) as usize);
                let levels = length.and_then(|length| buf.get(4..)?.get(..length));
                levels.is_some_and(|levels| holds(levels, self.width, *num_values as usize))
            }
            // Packed without runs; what else there is parquet's reader refuses.
            Page::DataPage { buf, num_values, .. } => {
                (*num_values as usize).saturating_mul(self.width).div_ceil(8) <= buf.len()
            }
            Page::DataPageV2 { buf, num_values, rep_levels_byte_len, .. } => {
                let levels = buf.get(..*rep_levels_byte_len as usize);
                levels.is_some_and(|levels| holds(levels, self.width, *num_values as usize))
            }
        };
        if is_whole { Ok(page) } else { Err(ParquetError::General(Odd::CutLevels.to_string())) }
    }
}

impl PageReader for Counted {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        let page = self.pages.get_next_page()?;
        page.map(|page| self.counted(page)).transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.pages.skip_next_page()
    }

    fn supports_deferred_dictionary(&self) -> bool {
        self.pages.supports_deferred_dictionary()
    }

    fn take_deferred_dictionary(&mut self) -> Result<Option<Page>, ParquetError> {
        self.pages.take_deferred_dictionary()
    }

    fn at_record_boundary(&mut self) -> Result<bool, ParquetError> {
        self.pages.at_record_boundary()
    }
}

impl Iterator for Counted {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

/// Whether runs of `width` bits hold `count` values.
fn holds(mut runs: &[u8], width: usize, count: usize) -> bool {
    let mut found: usize = 0;
    while found < count {
        let Some(header) = header(&mut runs) else { return false };
        let length = usize::try_from(header >> 1).unwrap_or(usize::MAX);
        let bytes;
        (found, bytes) = if header & 1 == 1 {
            // Groups of eight, of which writers may cut the last.
            let bytes = length.saturating_mul(width).min(runs.len());
            (found.saturating_add(length.saturating_mul(8).min(bytes * 8 / width)), bytes)
        } else {
            (found.saturating_add(length), width.div_ceil(8).min(runs.len()))
        };
        runs = &runs[bytes..];
    }
    true
}

/// A number in groups of seven bits, lowest first.
fn header(bytes: &mut &[u8]) -> Option<u64> {
    let length = bytes.iter().take(9).position(|byte| byte & 0x80 == 0)? + 1;
    let (number, rest) = bytes.split_at(length);
    *bytes = rest;
    Some(number.iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_hold_what_their_headers_and_bytes_do() {
        // Five times the same, then two groups of eight in two bits.
        let runs = [&[5 << 1, 1][..], &[2 << 1 | 1, 0, 0, 0, 0]].concat();
        for (cut, count) in [(7, 21), (6, 17), (2, 5), (1, 5), (0, 0)] {
            assert!(holds(&runs[..cut], 2, count), "{cut}");
            assert!(!holds(&runs[..cut], 2, count + 1), "{cut}");
        }
        let endless = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert!(!holds(&endless, 1, 1), "no writer makes such a header");
        assert!(holds(&[0xfe, 0xff, 0xff, 0xff, 0x0f, 1], 1, i32::MAX as usize));
    }
}
