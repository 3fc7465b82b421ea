//! One file's footer, read with as few requests as it takes.
//!
//! In: a store and a file. Out: the parsed footer, with page locations where they are cheap to have, and
//! its digest. The promise: a file that is cut short, garbled or encrypted is refused by name, and a
//! footer that lies about sizes costs no memory.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use object_store::{GetOptions, ObjectMeta, ObjectStore};
use parquet::DecodeResult;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMask, FooterTail, PageIndexPolicy, ParquetMetaData, ParquetMetaDataOptions,
    ParquetMetaDataPushDecoder, ParquetMetaDataReader, ParquetStatisticsPolicy,
};
use sha2::{Digest, Sha256};

use super::footers::Hold;
use super::{DatasetError, File, FooterMemory, Origin, off_thread};

/// The last bytes asked for at once: most footers are smaller.
const TAIL_BYTES: u64 = 64 << 10;
/// Length and magic at the very end of every Parquet file.
const END_BYTES: u64 = 8;
/// A longer footer is taken for a lie.
const MAX_FOOTER_BYTES: u64 = 256 << 20;
/// Page locations of one file beyond this are left in the file: they would outweigh what they save.
const MAX_OFFSET_INDEX_BYTES: u64 = 1 << 20;
/// The page index of a filter's columns beyond this is left in the file: the pages themselves are read.
const MAX_PAGE_INDEX_BYTES: u64 = 8 << 20;

/// A parsed footer. Cloning shares it.
#[derive(Clone)]
pub(super) struct Footer {
    pub(super) arrow: ArrowReaderMetadata,
    /// SHA-256 of the footer's bytes.
    pub(super) digest: [u8; 32],
    /// Its bytes, where they are counted.
    pub(super) hold: Option<Arc<Hold>>,
}

pub(super) async fn read(
    origin: &Origin,
    meta: &ObjectMeta,
    memory: Option<&FooterMemory>,
) -> Result<Footer, DatasetError> {
    let source = Source { store: origin.store.as_ref(), meta };
    let file = Named { file: origin.shown(meta), size: meta.size };
    let (footer, bytes) = source.footer(&file).await?;
    let digest = Sha256::digest(&bytes).into();
    let metadata = parse(&file, move || decode(&bytes)).await?;
    file.check_chunks(&metadata, footer.start)?;
    let metadata = match offset_index_range(&metadata, meta.size) {
        Some(range) => {
            let bytes = source.fetch(&file, range.clone()).await?;
            let size = meta.size;
            let plain = metadata.clone();
            // Page locations only save work: a file whose index is garbled is read without.
            parse(&file, move || attach_offset_index(metadata, size, range, bytes)).await.unwrap_or(plain)
        }
        None => metadata,
    };
    let arrow =
        parse(&file, move || ArrowReaderMetadata::try_new(Arc::new(metadata), ArrowReaderOptions::new()))
            .await?;
    let hold = match memory {
        Some(memory) => Some(Arc::new(memory.hold(&arrow).await?)),
        None => None,
    };
    Ok(Footer { arrow, digest, hold })
}

/// The footer of a snapshot's file once more, with the statistics of some leaf columns.
pub(crate) async fn statistics(file: &File, leaves: &[usize]) -> Result<ParquetMetaData, DatasetError> {
    let source = Source { store: file.store.as_ref(), meta: &file.meta };
    let named = Named { file: file.to_string(), size: file.meta.size };
    let (_, bytes) = source.footer(&named).await?;
    let alignment = file.alignment.clone();
    let in_file = alignment.as_ref().map_or_else(|| leaves.to_vec(), |alignment| alignment.in_file(leaves));
    let options = ParquetMetaDataOptions::new()
        .with_column_stats_policy(ParquetStatisticsPolicy::skip_except(&in_file))
        .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll);
    parse(&named, move || {
        let metadata = ParquetMetaDataReader::decode_metadata_with_options(&bytes, Some(&options))?;
        match alignment {
            Some(alignment) => alignment.metadata(&metadata),
            None => Ok(metadata),
        }
    })
    .await
}

/// A footer with the page index of some leaf columns, where the file has one that is whole and not too large.
pub(crate) async fn page_index(
    file: &File,
    metadata: ParquetMetaData,
    leaves: &[usize],
) -> Option<ParquetMetaData> {
    let source = Source { store: file.store.as_ref(), meta: &file.meta };
    let (named, size) = (Named { file: file.to_string(), size: file.meta.size }, file.meta.size);
    let length = page_index_bytes(&metadata, leaves)?;
    if length > MAX_PAGE_INDEX_BYTES {
        return None;
    }
    let mut decoder = ParquetMetaDataPushDecoder::try_new_with_metadata(size, metadata)
        .ok()?
        .with_page_index_policy(PageIndexPolicy::Required)
        .with_page_index_mask(ColumnChunkMask::columns(leaves.iter().copied()));
    loop {
        let (returned, next) = parse(&named, move || {
            let next = decoder.try_decode()?;
            Ok((decoder, next))
        })
        .await
        .ok()?;
        decoder = returned;
        match next {
            DecodeResult::NeedsData(ranges) => {
                for range in ranges {
                    if range.end > size || range.end - range.start > 2 * MAX_PAGE_INDEX_BYTES {
                        return None;
                    }
                    let bytes = source.fetch(&named, range.clone()).await.ok()?;
                    decoder.push_range(range, bytes).ok()?;
                }
            }
            DecodeResult::Data(metadata) => return Some(metadata),
            DecodeResult::Finished => return None,
        }
    }
}

/// `None` where a chunk has no index.
fn page_index_bytes(metadata: &ParquetMetaData, leaves: &[usize]) -> Option<u64> {
    let chunks = metadata.row_groups().iter().flat_map(|group| leaves.iter().map(|&leaf| group.column(leaf)));
    let mut lengths = chunks.map(|chunk| {
        let (index, offsets) = (chunk.column_index_range()?, chunk.offset_index_range()?);
        Some((index.end - index.start).saturating_add(offsets.end - offsets.start))
    });
    lengths.try_fold(0u64, |sum, length| Some(sum.saturating_add(length?)))
}

/// Where a footer's bytes are had from.
struct Source<'a> {
    store: &'a dyn ObjectStore,
    meta: &'a ObjectMeta,
}

impl Source<'_> {
    /// Where the footer lies, and its bytes.
    async fn footer(&self, file: &Named) -> Result<(Range<u64>, Bytes), DatasetError> {
        let size = self.meta.size;
        if size < END_BYTES {
            return Err(file.broken(format!("it has only {size} bytes")));
        }
        let tail_start = size.saturating_sub(TAIL_BYTES);
        let tail = self.fetch(file, tail_start..size).await?;
        let footer = file.footer_range(&tail)?;
        let bytes = if footer.start >= tail_start {
            tail.slice((footer.start - tail_start) as usize..(footer.end - tail_start) as usize)
        } else {
            self.fetch(file, footer.clone()).await?
        };
        Ok((footer, bytes))
    }

    /// Bytes of the very version that was listed.
    async fn fetch(&self, file: &Named, range: Range<u64>) -> Result<Bytes, DatasetError> {
        let wanted = range.end - range.start;
        let if_match = self.meta.e_tag.clone();
        let options = GetOptions { range: Some(range.into()), if_match, ..GetOptions::default() };
        let get = async { self.store.get_opts(&self.meta.location, options).await?.bytes().await };
        let bytes = get
            .await
            .map_err(|source| DatasetError::Read { file: file.file.clone(), source: source.into() })?;
        if bytes.len() as u64 == wanted { Ok(bytes) } else { Err(file.broken("it became shorter just now")) }
    }
}

/// Decodes what reading needs: statistics of values are for filters, which ask for them on their own.
fn decode(footer: &[u8]) -> Result<ParquetMetaData, ParquetError> {
    let options = ParquetMetaDataOptions::new()
        .with_column_stats_policy(ParquetStatisticsPolicy::SkipAll)
        .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll);
    ParquetMetaDataReader::decode_metadata_with_options(footer, Some(&options))
}

/// Parses away from the async threads, where a panic over garbled bytes is one more refusal.
async fn parse<T: Send + 'static>(
    file: &Named,
    work: impl FnOnce() -> Result<T, ParquetError> + Send + 'static,
) -> Result<T, DatasetError> {
    match off_thread(move || Ok(work())).await {
        Ok(Ok(parsed)) => Ok(parsed),
        Ok(Err(e)) => Err(file.broken(format!("its footer cannot be parsed ({e})"))),
        Err(_) => Err(file.broken("its footer cannot be parsed")),
    }
}

struct Named {
    file: String,
    size: u64,
}

impl Named {
    fn broken(&self, reason: impl Into<String>) -> DatasetError {
        DatasetError::NotParquet { file: self.file.clone(), reason: reason.into() }
    }

    /// Where the footer lies, told by the file's last bytes.
    fn footer_range(&self, tail: &[u8]) -> Result<Range<u64>, DatasetError> {
        let end = tail.last_chunk::<{ END_BYTES as usize }>().expect("the size was checked");
        let end = FooterTail::try_new(end).map_err(|_| {
            self.broken("its end is missing (cut short, still being written, or another format)")
        })?;
        if end.is_encrypted_footer() {
            return Err(DatasetError::Encrypted { file: self.file.clone() });
        }
        let (length, before_end) = (end.metadata_length() as u64, self.size - END_BYTES);
        if length > before_end || length > MAX_FOOTER_BYTES {
            return Err(self.broken(format!("its footer claims {length} of {} bytes", self.size)));
        }
        Ok(before_end - length..before_end)
    }

    /// Refuses what would send a reader outside the data, which lies before the footer.
    fn check_chunks(&self, metadata: &ParquetMetaData, data_end: u64) -> Result<(), DatasetError> {
        for (index, group) in metadata.row_groups().iter().enumerate() {
            if group.num_rows() < 0 {
                return Err(self.broken(format!("row group {index} claims {} rows", group.num_rows())));
            }
            for column in group.columns() {
                let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
                let within = u64::try_from(start)
                    .ok()
                    .zip(u64::try_from(column.compressed_size()).ok())
                    .and_then(|(start, length)| start.checked_add(length))
                    .is_some_and(|end| end <= data_end);
                if !within {
                    let column = column.column_path();
                    return Err(self.broken(format!(
                        "column {column} of row group {index} lies outside its {data_end} bytes of data"
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Where all page locations lie, if every column has them and they are few bytes close together.
fn offset_index_range(metadata: &ParquetMetaData, size: u64) -> Option<Range<u64>> {
    let ranges = metadata
        .row_groups()
        .iter()
        .flat_map(|group| group.columns())
        .map(|column| column.offset_index_range())
        .collect::<Option<Vec<_>>>()?;
    let start = ranges.iter().map(|range| range.start).min()?;
    let end = ranges.iter().map(|range| range.end).max()?;
    (start < end && end <= size && end - start <= MAX_OFFSET_INDEX_BYTES).then_some(start..end)
}

fn attach_offset_index(
    metadata: ParquetMetaData,
    size: u64,
    range: Range<u64>,
    bytes: Bytes,
) -> Result<ParquetMetaData, ParquetError> {
    let mut decoder = ParquetMetaDataPushDecoder::try_new_with_metadata(size, metadata)?
        .with_column_index_policy(PageIndexPolicy::Skip)
        .with_offset_index_policy(PageIndexPolicy::Required);
    decoder.push_range(range, bytes)?;
    match decoder.try_decode()? {
        DecodeResult::Data(metadata) => Ok(metadata),
        DecodeResult::NeedsData(_) | DecodeResult::Finished => {
            Err(ParquetError::General("the offset index is not where the footer says".to_owned()))
        }
    }
}
