//! Sorted files, one schema, blocks, and an id for all of it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use object_store::{ObjectMeta, ObjectStore};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::file::metadata::RowGroupMetaData;
use penstock_proto::SnapshotId;
use sha2::{Digest, Sha256};

use super::aligned::{Alignment, align, is_aligned};
use super::footer::Footer;
use super::footers::{FooterMemory, Hold};
use super::listing::Found;
use super::projection::Weight;
use super::schema::{Common, Unlike};
use super::{DatasetError, Filter, Origin, Projection, estimate, schema};
use crate::expression::ExpressionError;
use crate::plan::BlockShape;

/// A row group of more bytes, uncompressed, is several blocks if its pages can be found.
const LARGE_ROW_GROUP_BYTES: u64 = 64 << 20;

/// What a dataset held when it was looked at. It never changes; a changed dataset has another.
pub struct Snapshot {
    /// SHA-256 of a version, then of every file in order: its name below the dataset's root, its size, its
    /// version (the time of its last change) and the SHA-256 of its footer, which holds
    /// schema and row groups. Where the dataset is mounted plays no part.
    pub id: SnapshotId,
    /// Sorted by name.
    pub files: Vec<File>,
    /// The columns that all files have alike.
    pub schema: SchemaRef,
    /// The others.
    unlike: Vec<Unlike>,
    /// In the order of files and of rows.
    pub blocks: Vec<Block>,
}

/// One file of a snapshot.
#[derive(Clone)]
pub struct File {
    /// The path below the dataset's root.
    pub name: String,
    pub store: Arc<dyn ObjectStore>,
    /// What stands before its location where people read it: `/`, or `hdfs://NAMESERVICE/`.
    pub root: Arc<str>,
    /// Its `e_tag` can be demanded of the store, to learn of a file that was replaced.
    pub meta: ObjectMeta,
    /// With page locations (the offset index) where every column has them and they are small. Of the dataset's columns,
    /// in their order.
    pub footer: ArrowReaderMetadata,
    /// How the file's own columns are laid out as the dataset's, where they are others.
    pub(super) alignment: Option<Arc<Alignment>>,
    pub(super) _hold: Option<Arc<Hold>>,
}

/// A row group, or a range of a large one's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Place in [`Snapshot::files`].
    pub file: u32,
    pub row_group: u32,
    /// Rows of the row group.
    pub rows: Range<u64>,
}

impl Snapshot {
    /// `footers` are those of `found`, in its order.
    pub(super) fn new(origin: &Origin, found: &[Found], footers: &[Footer]) -> Result<Self, DatasetError> {
        let mut files: Vec<File> = found
            .iter()
            .zip(footers)
            .map(|(found, footer)| File {
                name: found.name.clone(),
                store: Arc::clone(&origin.store),
                root: Arc::clone(&origin.root),
                meta: found.meta.clone(),
                footer: footer.arrow.clone(),
                alignment: None,
                _hold: footer.hold.clone(),
            })
            .collect();
        let Common { schema, unlike } = schema::unify(files.iter().map(|file| (file, file.footer.schema())))?;
        for file in files.iter_mut().filter(|file| !is_aligned(&file.footer, &schema)) {
            let (footer, alignment) = align(&file.footer, &schema).map_err(|error| {
                let reason = format!("its columns cannot be told apart ({error})");
                DatasetError::NotParquet { file: file.to_string(), reason }
            })?;
            (file.footer, file.alignment) = (footer, Some(Arc::new(alignment)));
        }
        let blocks = files.iter().zip(0u32..).flat_map(|(file, index)| blocks(file, index)).collect();
        Ok(Self { id: id(found, footers), files, schema, unlike, blocks })
    }

    /// Counts what was made of footers beside those that were read.
    pub(super) async fn hold(&mut self, memory: &FooterMemory) -> Result<(), DatasetError> {
        for file in self.files.iter_mut().filter(|file| file.alignment.is_some()) {
            file._hold = Some(Arc::new(memory.hold(&file.footer).await?));
        }
        Ok(())
    }

    pub fn rows(&self) -> u64 {
        self.blocks.iter().map(|block| block.rows.end - block.rows.start).sum()
    }

    /// Bytes of all files together.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.meta.size).sum()
    }

    /// The named columns; no name at all means every column.
    ///
    /// # Errors
    /// When the dataset lacks one (near names are told), one is not in all files alike, or one is asked for twice.
    pub fn project(&self, columns: &[String]) -> Result<Projection, DatasetError> {
        match self.first_unlike() {
            Some(refusal) if columns.is_empty() => Err(refusal),
            _ => Projection::new(&self.schema, columns).map_err(|error| self.explained(error)),
        }
    }

    /// Every column that all files have alike.
    pub fn common(&self) -> Projection {
        Projection::new(&self.schema, &[]).expect("every column there is can be had")
    }

    /// What keeps the columns from being fed that not all files have alike.
    pub(super) fn refusals(&self) -> impl Iterator<Item = (&str, DatasetError)> {
        self.unlike.iter().map(|unlike| (unlike.column.as_str(), unlike.refusal()))
    }

    pub(super) fn first_unlike(&self) -> Option<DatasetError> {
        self.unlike.first().map(Unlike::refusal)
    }

    /// A column that is unknown may be one of some files.
    fn explained(&self, error: DatasetError) -> DatasetError {
        let (DatasetError::UnknownColumn { column, .. }
        | DatasetError::Select { source: ExpressionError::UnknownColumn { column, .. }, .. }
        | DatasetError::Filter { source: ExpressionError::UnknownColumn { column, .. }, .. }) = &error
        else {
            return error;
        };
        self.unlike.iter().find(|unlike| unlike.column == *column).map_or(error, Unlike::refusal)
    }

    /// Expressions with names, instead of columns.
    ///
    /// # Errors
    /// When one is no expression over the dataset's columns, or two have the same name.
    pub fn select(&self, select: &[String]) -> Result<Projection, DatasetError> {
        Projection::select(&self.schema, select).map_err(|error| self.explained(error))
    }

    /// A condition on rows.
    ///
    /// # Errors
    /// When it is no condition over the dataset's columns.
    pub fn filter(&self, text: &str) -> Result<Filter, DatasetError> {
        Filter::new(&self.schema, text).map_err(|error| self.explained(error))
    }

    /// Rows and decoded bytes of every block, as the plan wants them. The bytes are estimated from footers
    /// alone, by a rule that does not change between releases. With `counts`, a number a block, only so many
    /// rows of each are there.
    pub fn block_shapes(&self, projection: &Projection, counts: Option<&[u64]>) -> Vec<BlockShape> {
        // Blocks lie in the order of files, so that one file's leaf columns are enough at a time.
        let mut weight = (u32::MAX, Weight { leaves: Vec::new(), bits: 0 });
        self.blocks
            .iter()
            .enumerate()
            .map(|(index, block)| {
                let footer = &self.files[block.file as usize].footer;
                if weight.0 != block.file {
                    weight = (block.file, projection.weight(footer));
                }
                let Weight { leaves, bits } = &weight.1;
                let group = footer.metadata().row_group(block.row_group as usize);
                let computed = u128::from(group_rows(group)) * u128::from(*bits) / 8;
                let bytes = u128::from(estimate::decoded_bytes(group, leaves)) + computed;
                let rows = block.rows.end - block.rows.start;
                let rows = counts.map_or(rows, |counts| counts[index].min(rows));
                let share = (bytes * u128::from(rows)).checked_div(group_rows(group).into()).unwrap_or(0);
                BlockShape { rows, bytes: u64::try_from(share).unwrap_or(u64::MAX) }
            })
            .collect()
    }
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.root, self.meta.location)
    }
}

fn blocks(file: &File, index: u32) -> Vec<Block> {
    let metadata = file.footer.metadata();
    metadata
        .row_groups()
        .iter()
        .zip(0u32..)
        .flat_map(|(group, row_group)| {
            let rows = group_rows(group);
            let has_pages = metadata.page_index().is_some();
            let bytes = u64::try_from(group.total_byte_size()).unwrap_or(0);
            let parts = if has_pages { bytes.div_ceil(LARGE_ROW_GROUP_BYTES).min(rows).max(1) } else { 1 };
            let bound = move |part: u64| (u128::from(part) * u128::from(rows) / u128::from(parts)) as u64;
            (0..parts).map(move |part| Block { file: index, row_group, rows: bound(part)..bound(part + 1) })
        })
        .collect()
}

fn group_rows(group: &RowGroupMetaData) -> u64 {
    u64::try_from(group.num_rows()).expect("footers with negative rows are refused")
}

fn id(found: &[Found], footers: &[Footer]) -> SnapshotId {
    let mut hash = Sha256::new_with_prefix("penstock snapshot 1");
    for (found, footer) in found.iter().zip(footers) {
        for text in [&found.name, &found.version] {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        hash.update(found.meta.size.to_le_bytes());
        hash.update(footer.digest);
    }
    SnapshotId::new(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}
