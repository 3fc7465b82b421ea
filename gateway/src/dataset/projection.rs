//! The columns a feed wants: those of a snapshot's schema, and those that are computed of them.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;

use super::{DatasetError, Vocabulary, estimate};
use crate::expression::{Expression, Input};
use penstock_proto::{hint, sql_name};

/// Resolved columns, in the order they were asked for.
#[derive(Debug, Clone)]
pub struct Projection {
    schema: SchemaRef,
    /// Places in the dataset's schema of all that must be decoded, rising: as a file's reader returns them.
    decoded: Vec<usize>,
    columns: Vec<Column>,
}

/// A column of the projection.
#[derive(Debug, Clone)]
enum Column {
    /// One that is decoded: its place among those.
    Decoded(usize),
    Computed(Expression),
    /// Codes of the texts that another gives.
    Coded(Box<Column>, Arc<Vocabulary>),
}

impl Projection {
    /// Finds columns by name; no name at all means every column.
    ///
    /// # Errors
    /// When the dataset lacks one, or one is asked for twice.
    pub(super) fn new(schema: &SchemaRef, names: &[String]) -> Result<Self, DatasetError> {
        let wanted: Vec<usize> = if names.is_empty() {
            (0..schema.fields().len()).collect()
        } else {
            let unknown =
                |column: &String, hint| DatasetError::UnknownColumn { column: column.clone(), hint };
            names
                .iter()
                .map(|name| find(schema, name).map_err(|hint| unknown(name, hint)))
                .collect::<Result<_, _>>()?
        };
        let mut decoded = wanted.clone();
        decoded.sort_unstable();
        if let Some(twice) = decoded.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(DatasetError::ColumnTwice { column: schema.field(twice[0]).name().clone() });
        }
        let fields: Vec<_> = wanted.iter().map(|&column| Arc::clone(&schema.fields()[column])).collect();
        let columns =
            wanted.iter().map(|column| Column::Decoded(decoded.partition_point(|c| c < column))).collect();
        Ok(Self { schema: Arc::new(Schema::new(fields)), decoded, columns })
    }

    /// Reads expressions with names.
    ///
    /// # Errors
    /// When one is none over this schema, or two have the same name.
    pub(super) fn select(schema: &SchemaRef, select: &[String]) -> Result<Self, DatasetError> {
        let read = |text: &String| {
            Expression::parse(text, schema)
                .map_err(|source| DatasetError::Select { text: text.clone(), source })
        };
        let made = select.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let mut names: Vec<&str> = made.iter().map(|expression| expression.field().name().as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(DatasetError::ColumnTwice { column: twice[0].to_owned() });
        }
        let mut decoded: Vec<usize> = made.iter().flat_map(|made| made.columns().iter().copied()).collect();
        decoded.sort_unstable();
        decoded.dedup();
        let fields: Vec<_> = made.iter().map(|expression| Arc::clone(expression.field())).collect();
        let columns = made
            .into_iter()
            .map(|expression| match expression.plain_column() {
                Some(place) => Column::Decoded(decoded.partition_point(|&column| column < place)),
                None => Column::Computed(expression),
            })
            .collect();
        Ok(Self { schema: Arc::new(Schema::new(fields)), decoded, columns })
    }

    /// Some of its columns alone, all of them texts, in the order given.
    ///
    /// # Errors
    /// When there is no such column, one is named twice, or one holds no texts.
    pub(crate) fn texts(&self, names: &[String]) -> Result<Self, DatasetError> {
        let place = |name: &String| {
            find(&self.schema, name).map_err(|hint| DatasetError::UnknownText { column: name.clone(), hint })
        };
        let places = names.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        for (at, &place) in places.iter().enumerate() {
            let field = self.schema.field(place);
            if places[..at].contains(&place) {
                return Err(DatasetError::ColumnTwice { column: field.name().clone() });
            }
            if !holds_texts(field.data_type()) {
                let (column, found) = (field.name().clone(), field.data_type().to_string());
                return Err(DatasetError::NoTexts { column, found });
            }
        }
        let mut decoded: Vec<usize> =
            places.iter().flat_map(|&place| self.columns[place].reads(&self.decoded)).collect();
        decoded.sort_unstable();
        decoded.dedup();
        let columns = places.iter().map(|&place| match &self.columns[place] {
            Column::Decoded(at) => {
                let wanted = self.decoded[*at];
                Column::Decoded(decoded.partition_point(|&column| column < wanted))
            }
            other => other.clone(),
        });
        let columns = columns.collect();
        let fields: Vec<_> = places.iter().map(|&place| Arc::clone(&self.schema.fields()[place])).collect();
        Ok(Self { schema: Arc::new(Schema::new(fields)), decoded, columns })
    }

    /// The same with codes instead of the texts of some columns, all of which there are.
    pub(crate) fn with_codes(mut self, names: &[String], vocabularies: &[Arc<Vocabulary>]) -> Self {
        let mut fields: Vec<_> = self.schema.fields().iter().cloned().collect();
        for (name, vocabulary) in names.iter().zip(vocabularies) {
            let place = self.schema.index_of(name).expect("their texts were collected");
            let is_nullable = fields[place].is_nullable();
            fields[place] = Arc::new(Field::new(name, DataType::Int32, is_nullable));
            let texts = self.columns[place].clone();
            self.columns[place] = Column::Coded(Box::new(texts), Arc::clone(vocabulary));
        }
        self.schema = Arc::new(Schema::new(fields));
        self
    }

    /// The schema of every batch of this projection, whichever file it comes from.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Places in the dataset's schema of the columns that are as the files have them, or codes of such, by their names here.
    pub(crate) fn plain(&self) -> Vec<(&str, usize)> {
        let names = self.schema.fields().iter().map(|field| field.name().as_str());
        let places = self.columns.iter().map(|column| match column {
            Column::Coded(texts, _) => texts.plain_place(&self.decoded),
            column => column.plain_place(&self.decoded),
        });
        names.zip(places).filter_map(|(name, place)| Some((name, place?))).collect()
    }

    /// What a reader of one file must decode.
    pub fn mask(&self, footer: &ArrowReaderMetadata) -> ProjectionMask {
        ProjectionMask::roots(footer.parquet_schema(), self.decoded.iter().copied())
    }

    /// The leaf columns of one file that [`mask`](Self::mask) selects.
    pub fn leaves(&self, footer: &ArrowReaderMetadata) -> Vec<usize> {
        leaves(footer, self.decoded.iter().copied())
    }

    /// What rows of one file take under this projection, as the estimate counts it.
    pub(super) fn weight(&self, footer: &ArrowReaderMetadata) -> Weight {
        let (mut roots, mut bits) = (Vec::new(), 0);
        for (column, field) in self.columns.iter().zip(self.schema.fields()) {
            match column {
                Column::Decoded(place) => roots.push(self.decoded[*place]),
                Column::Computed(made) => match estimate::value_bits_of(field.data_type()) {
                    // The values, and whether they are there.
                    Some(value) => bits += value + 1,
                    // A text made of others is about as long as they are.
                    None => roots.extend(made.columns()),
                },
                Column::Coded(..) => bits += 1 + estimate::CODE_BITS,
            }
        }
        Weight { leaves: leaves(footer, roots), bits }
    }

    /// Puts a batch that was decoded through [`mask`](Self::mask) into the order asked for, under the one
    /// schema, and computes what is not decoded. Copies nothing else.
    ///
    /// # Errors
    /// When the batch is not of this projection, or a CAST is not possible for a value.
    pub fn arrange(&self, decoded: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let input = Input { batch: decoded, places: &self.decoded };
        let columns = self.columns.iter().map(|column| column.of(input)).collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(decoded.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}

impl Column {
    /// Its values in a decoded batch.
    fn of(&self, input: Input<'_>) -> Result<ArrayRef, ArrowError> {
        let lacks = || ArrowError::SchemaError("a decoded batch lacks columns".to_owned());
        match self {
            Self::Decoded(place) => input.batch.columns().get(*place).cloned().ok_or_else(lacks),
            Self::Computed(made) => made.evaluate(input),
            Self::Coded(texts, vocabulary) => vocabulary.codes(&texts.of(input)?),
        }
    }

    fn plain_place(&self, decoded: &[usize]) -> Option<usize> {
        match self {
            Self::Decoded(place) => Some(decoded[*place]),
            Self::Computed(_) | Self::Coded(..) => None,
        }
    }

    /// Places in the dataset's schema of what it is made of; `decoded` are those of all that are decoded.
    fn reads(&self, decoded: &[usize]) -> Vec<usize> {
        match self {
            Self::Decoded(place) => vec![decoded[*place]],
            Self::Computed(made) => made.columns().to_vec(),
            Self::Coded(texts, _) => texts.reads(decoded),
        }
    }
}

fn holds_texts(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => holds_texts(values),
        _ => false,
    }
}

/// What rows take once they are decoded and computed.
pub(super) struct Weight {
    /// Leaf columns of the file that count.
    pub(super) leaves: Vec<usize>,
    /// Bits a row beside them.
    pub(super) bits: u64,
}

/// The leaf columns of one file below some columns.
pub(super) fn leaves(footer: &ArrowReaderMetadata, roots: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let schema = footer.parquet_schema();
    let mut is_wanted = vec![false; schema.root_schema().get_fields().len()];
    roots.into_iter().for_each(|root| is_wanted[root] = true);
    (0..schema.num_columns()).filter(|&leaf| is_wanted[schema.get_column_root_idx(leaf)]).collect()
}

/// The place of a column, or what its name may have been meant to be.
fn find(schema: &Schema, name: &str) -> Result<usize, String> {
    schema.index_of(name).map_err(|_| {
        if let Some(bare) = unquoted(name)
            && schema.index_of(&bare).is_ok()
        {
            return format!("names in columns are written without quotes, {bare:?}");
        }
        if let Some(path) = member(schema, name) {
            let written: Vec<_> = path.iter().map(|name| sql_name(name)).collect();
            let (column, member) = (path[0], &written[written.len() - 1]);
            let written = written.join(".");
            return format!(
                "it is a member of column {column:?}, to be had with select=['{written} AS {member}']"
            );
        }
        let known: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        hint(name, &known)
    })
}

/// A name that was written as SQL has it.
fn unquoted(name: &str) -> Option<String> {
    let inner = name.strip_prefix('"')?.strip_suffix('"')?;
    Some(inner.replace("\"\"", "\""))
}

/// The column of structures and the members, inward, that a name with dots stands for.
fn member<'a>(schema: &Schema, name: &'a str) -> Option<Vec<&'a str>> {
    let path: Vec<&str> = name.split('.').collect();
    let [column, members @ ..] = path.as_slice() else { return None };
    let mut data_type = schema.field_with_name(column).ok()?.data_type();
    for member in members {
        let DataType::Struct(fields) = data_type else { return None };
        data_type = fields.find(member)?.1.data_type();
    }
    Some(path)
}
