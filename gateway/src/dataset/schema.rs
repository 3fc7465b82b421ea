//! One schema for all files of a dataset.
//!
//! In: the files' schemas. Out: the first file's, its columns nullable where any file's are. The promise:
//! a file with other columns or types is refused, naming file and column. Schema-wide metadata is left
//! out, for it describes one file (pandas' index, say); a column's own is the first file's.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};

use super::DatasetError;

/// Metadata of a column that changes its meaning, not only its description.
const EXTENSION_PREFIX: &str = "ARROW:extension:";

/// Joins the schemas of files, given with the files' names in their order.
pub(super) fn unify<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a SchemaRef)>,
) -> Result<SchemaRef, DatasetError> {
    let mut files = files.into_iter();
    let Some((first, schema)) = files.next() else { return Ok(Arc::new(Schema::empty())) };
    let mut names = HashSet::new();
    if let Some(twice) = schema.fields().iter().find(|field| !names.insert(field.name().as_str())) {
        return Err(DatasetError::DuplicateColumn { file: first.to_owned(), column: twice.name().clone() });
    }
    let mut columns: Vec<FieldRef> = schema.fields().to_vec();
    for (file, schema) in files {
        check_columns(first, &columns, file, schema)?;
        for (column, found) in columns.iter_mut().zip(schema.fields()) {
            if found.is_nullable() && !column.is_nullable() {
                *column = Arc::new(column.as_ref().clone().with_nullable(true));
            }
        }
    }
    Ok(Arc::new(Schema::new(columns)))
}

fn check_columns(first: &str, columns: &[FieldRef], file: &str, schema: &Schema) -> Result<(), DatasetError> {
    let (file, first) = (|| file.to_owned(), || first.to_owned());
    let found = schema.fields();
    if let Some(column) = columns.iter().find(|column| found.find(column.name()).is_none()) {
        return Err(DatasetError::MissingColumn {
            file: file(),
            column: column.name().clone(),
            first: first(),
        });
    }
    let known: HashSet<&str> = columns.iter().map(|column| column.name().as_str()).collect();
    if let Some(column) = found.iter().find(|column| !known.contains(column.name().as_str())) {
        return Err(DatasetError::ExtraColumn {
            file: file(),
            column: column.name().clone(),
            first: first(),
        });
    }
    if found.len() != columns.len() {
        let mut names = HashSet::new();
        let twice = found.iter().find(|field| !names.insert(field.name()));
        let column = twice.map(|field| field.name().clone()).unwrap_or_default();
        return Err(DatasetError::DuplicateColumn { file: file(), column });
    }
    for (column, found) in columns.iter().zip(found) {
        if column.name() != found.name() {
            return Err(DatasetError::ColumnOrder {
                file: file(),
                column: found.name().clone(),
                first: first(),
            });
        }
        if column.data_type() != found.data_type() || extension(column) != extension(found) {
            return Err(DatasetError::ColumnType {
                file: file(),
                column: column.name().clone(),
                found: describe(found),
                first: first(),
                expected: describe(column),
            });
        }
    }
    Ok(())
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
