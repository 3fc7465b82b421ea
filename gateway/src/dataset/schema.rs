//! One schema for all files of a dataset.
//!
//! In: the files' schemas. Out: the columns that all of them have alike, by name, in the first file's order, nullable
//! where any file's are; and of every other column what keeps it from being one of these. The promise: whoever wants
//! such a column is told file and column. Schema-wide metadata is left out, for it describes one file (pandas'
//! index, say); a column's own is the first file's.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};

use super::DatasetError;

/// Metadata of a column that changes its meaning, not only its description.
const EXTENSION_PREFIX: &str = "ARROW:extension:";

/// What files have in common, and what not.
pub(super) struct Common {
    pub(super) schema: SchemaRef,
    /// One of each such column, in the order in which files come.
    pub(super) unlike: Vec<Unlike>,
}

/// A column that is not in all files alike.
#[derive(Debug, Clone)]
pub(super) struct Unlike {
    pub(super) column: String,
    /// The first that differs from the dataset's first.
    file: String,
    first: String,
    how: How,
}

#[derive(Debug, Clone)]
enum How {
    Type { found: String, expected: String },
    Missing,
    Extra,
}

impl Unlike {
    /// What is told to whoever wants the column.
    pub(super) fn refusal(&self) -> DatasetError {
        let Self { column, file, first, how } = self.clone();
        match how {
            How::Type { found, expected } => {
                DatasetError::ColumnType { file, column, found, first, expected }
            }
            How::Missing => DatasetError::MissingColumn { file, column, first },
            How::Extra => DatasetError::ExtraColumn { file, column, first },
        }
    }
}

/// Joins the schemas of files, given with what names each in their order.
///
/// # Errors
/// When a file has two columns of one name.
pub(super) fn unify<'a, F: Display + 'a>(
    files: impl IntoIterator<Item = (&'a F, &'a SchemaRef)>,
) -> Result<Common, DatasetError> {
    let mut files = files.into_iter();
    let Some((first, schema)) = files.next() else {
        return Ok(Common { schema: Arc::new(Schema::empty()), unlike: Vec::new() });
    };
    places(first, schema)?;
    let mut joined =
        Joined { first, columns: schema.fields().iter().cloned().map(Some).collect(), unlike: Vec::new() };
    for (file, found) in files {
        // Names are the same almost always; only where they are not are they looked for.
        let is_same = schema.fields().len() == found.fields().len()
            && schema.fields().iter().zip(found.fields()).all(|(one, other)| one.name() == other.name());
        let places = if is_same { None } else { Some(places(file, found)?) };
        for (place, field) in schema.fields().iter().enumerate() {
            let at = places.as_ref().map_or(Some(place), |places| places.get(field.name().as_str()).copied());
            joined.add(place, field, file, at.map(|at| found.field(at)));
        }
        if places.is_some() {
            joined.add_extra(schema, file, found);
        }
    }
    let schema = Arc::new(Schema::new(joined.columns.into_iter().flatten().collect::<Vec<_>>()));
    Ok(Common { schema, unlike: joined.unlike })
}

struct Joined<'a, F> {
    first: &'a F,
    /// The first file's, without those that another has not alike.
    columns: Vec<Option<FieldRef>>,
    unlike: Vec<Unlike>,
}

impl<F: Display> Joined<'_, F> {
    /// Takes in what a file has for a column of the first.
    fn add(&mut self, place: usize, field: &Field, file: &F, found: Option<&Field>) {
        let Some(column) = &mut self.columns[place] else { return };
        let how = match found {
            None => How::Missing,
            Some(found)
                if column.data_type() != found.data_type() || extension(column) != extension(found) =>
            {
                How::Type { found: describe(found), expected: describe(field) }
            }
            Some(found) => {
                if found.is_nullable() && !column.is_nullable() {
                    *column = Arc::new(column.as_ref().clone().with_nullable(true));
                }
                return;
            }
        };
        self.columns[place] = None;
        self.push(field.name(), file, how);
    }

    /// Takes in the columns of a file that the first has not.
    fn add_extra(&mut self, schema: &Schema, file: &F, found: &Schema) {
        for field in found.fields() {
            let is_known = schema.index_of(field.name()).is_ok()
                || self.unlike.iter().any(|unlike| unlike.column == *field.name());
            if !is_known {
                self.push(field.name(), file, How::Extra);
            }
        }
    }

    fn push(&mut self, column: &str, file: &F, how: How) {
        let (file, first) = (file.to_string(), self.first.to_string());
        self.unlike.push(Unlike { column: column.to_owned(), file, first, how });
    }
}

/// Where each column of a file is.
fn places<'a, F: Display>(file: &F, schema: &'a Schema) -> Result<HashMap<&'a str, usize>, DatasetError> {
    let mut places = HashMap::new();
    for (place, field) in schema.fields().iter().enumerate() {
        if places.insert(field.name().as_str(), place).is_some() {
            return Err(DatasetError::DuplicateColumn {
                file: file.to_string(),
                column: field.name().clone(),
            });
        }
    }
    Ok(places)
}

fn extension(field: &Field) -> Vec<(&str, &str)> {
    let mut pairs: Vec<_> = field
        .metadata()
        .iter()
        .filter(|(key, _)| key.starts_with(EXTENSION_PREFIX))
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    pairs.sort_unstable();
    pairs
}

fn describe(field: &Field) -> String {
    match field.extension_type_name() {
        Some(name) => format!("{} ({name})", field.data_type()),
        None => field.data_type().to_string(),
    }
}
