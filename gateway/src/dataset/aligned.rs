//! A file's footer as if the file held the dataset's columns and no others, in their order.
//!
//! In: a footer, and columns that it has, by name. Out: a footer of just these, in that order, and where each of its
//! leaf columns is in the file. The promise: whoever reads by it reads the right bytes, for chunks and pages are found
//! by where they lie; a place in the dataset's schema is a place in every file's. It reads nothing.

use std::any::Any;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::errors::ParquetError;
use parquet::file::metadata::page_index::PageIndexProvider;
use parquet::file::metadata::{FileMetaData, ParquetMetaData, ParquetMetaDataBuilder, RowGroupMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::OffsetIndexMetaData;
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type};

/// Which of a file's columns are the dataset's.
#[derive(Debug)]
pub(crate) struct Alignment {
    schema: SchemaDescPtr,
    /// Of every leaf column of that schema, its number in the file; rising only by chance.
    leaves: Arc<[usize]>,
}

/// Whether a file has a schema's columns as they are there.
pub(super) fn is_aligned(footer: &ArrowReaderMetadata, schema: &Schema) -> bool {
    let (own, wanted) = (footer.schema().fields(), schema.fields());
    own.len() == wanted.len() && own.iter().zip(wanted).all(|(own, wanted)| own.name() == wanted.name())
}

/// Lays a footer out as a schema is, all of whose columns it has.
pub(super) fn align(
    footer: &ArrowReaderMetadata,
    schema: &SchemaRef,
) -> Result<(ArrowReaderMetadata, Alignment), ParquetError> {
    let own = footer.schema();
    let places = schema.fields().iter().map(|field| own.index_of(field.name()));
    let places = places.collect::<Result<Vec<_>, _>>()?;
    let alignment = Alignment::new(footer.parquet_schema(), &places)?;
    let metadata = alignment.metadata(footer.metadata())?;
    // Types are told by the file's own schema, which the whole footer's metadata no longer fits.
    let fields: Vec<_> = places.iter().map(|&place| Arc::clone(&own.fields()[place])).collect();
    let options = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(fields)));
    Ok((ArrowReaderMetadata::try_new(Arc::new(metadata), options)?, alignment))
}

impl Alignment {
    fn new(file: &SchemaDescriptor, places: &[usize]) -> Result<Self, ParquetError> {
        let root = file.root_schema();
        let fields = places.iter().map(|&place| Arc::clone(&root.get_fields()[place])).collect();
        let root = Type::group_type_builder(root.name()).with_fields(fields).build()?;
        let of_root = |&place: &usize| {
            (0..file.num_columns()).filter(move |&leaf| file.get_column_root_idx(leaf) == place)
        };
        let leaves = places.iter().flat_map(of_root).collect();
        Ok(Self { schema: Arc::new(SchemaDescriptor::new(Arc::new(root))), leaves })
    }

    /// The numbers in the file of some leaf columns.
    pub(super) fn in_file(&self, leaves: &[usize]) -> Vec<usize> {
        leaves.iter().map(|&leaf| self.leaves[leaf]).collect()
    }

    /// A footer of the file, laid out.
    pub(super) fn metadata(&self, of_file: &ParquetMetaData) -> Result<ParquetMetaData, ParquetError> {
        let file = of_file.file_metadata();
        let orders =
            file.column_orders().map(|orders| self.leaves.iter().map(|&leaf| orders[leaf]).collect());
        let created_by = file.created_by().map(str::to_owned);
        let schema = Arc::clone(&self.schema);
        let file = FileMetaData::new(file.version(), file.num_rows(), created_by, None, schema, orders);
        let groups = of_file.row_groups().iter().map(|group| self.row_group(group));
        let index = of_file.page_index().map(|index| {
            let leaves = Arc::clone(&self.leaves);
            Arc::new(Index { of_file: Arc::clone(index), leaves }) as Arc<dyn PageIndexProvider>
        });
        let laid_out = ParquetMetaDataBuilder::new(file).set_row_groups(groups.collect::<Result<_, _>>()?);
        Ok(laid_out.set_page_index(index).build())
    }

    fn row_group(&self, group: &RowGroupMetaData) -> Result<RowGroupMetaData, ParquetError> {
        let columns = self.leaves.iter().map(|&leaf| group.column(leaf).clone()).collect();
        RowGroupMetaData::builder(Arc::clone(&self.schema))
            .set_num_rows(group.num_rows())
            .set_total_byte_size(group.total_byte_size())
            .set_column_metadata(columns)
            .build()
    }
}

/// The page index of a file by the numbers of columns that are laid out.
#[derive(Debug)]
struct Index {
    of_file: Arc<dyn PageIndexProvider>,
    leaves: Arc<[usize]>,
}

impl PageIndexProvider for Index {
    fn has_offset_indexes(&self) -> bool {
        self.of_file.has_offset_indexes()
    }

    fn has_column_indexes(&self) -> bool {
        self.of_file.has_column_indexes()
    }

    fn column_index(&self, row_group: usize, column: usize) -> Option<&ColumnIndexMetaData> {
        self.of_file.column_index(row_group, *self.leaves.get(column)?)
    }

    fn offset_index(&self, row_group: usize, column: usize) -> Option<&OffsetIndexMetaData> {
        self.of_file.offset_index(row_group, *self.leaves.get(column)?)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
