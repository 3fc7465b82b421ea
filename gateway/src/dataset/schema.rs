//! One schema for all files of a dataset.
//!
//! In: the files' schemas. Out: the first file's, its columns nullable where any file's are. The promise:
//! a file with other columns or types is refused, naming file and column. Schema-wide metadata is left
//! out, for it describes one file (pandas' index, say); a column's own is the first file's.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Fields, Schema, SchemaRef};

use super::DatasetError;

/// Metadata of a column that changes its meaning, not only its description.
const EXTENSION_PREFIX: &str = "ARROW:extension:";

/// Joins the schemas of files, given with what names each in their order.
pub(super) fn unify<'a, F: Display + 'a>(
    files: impl IntoIterator<Item = (&'a F, &'a SchemaRef)>,
) -> Result<SchemaRef, DatasetError> {
    let mut files = files.into_iter();
    let Some((first, schema)) = files.next() else { return Ok(Arc::new(Schema::empty())) };
    let mut names = HashSet::new();
    if let Some(twice) = schema.fields().iter().find(|field| !names.insert(field.name().as_str())) {
        return Err(DatasetError::DuplicateColumn { file: first.to_string(), column: twice.name().clone() });
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

fn check_columns<F: Display>(
    first: &F,
    columns: &[FieldRef],
    file: &F,
    schema: &Schema,
) -> Result<(), DatasetError> {
    let found = schema.fields();
    // Names are the same almost always; only where they are not is it worth finding out how.
    if !columns.iter().map(|column| column.name()).eq(found.iter().map(|field| field.name())) {
        return Err(unlike_names(first, columns, file, found));
    }
    for (column, found) in columns.iter().zip(found) {
        if column.data_type() != found.data_type() || extension(column) != extension(found) {
            return Err(DatasetError::ColumnType {
                file: file.to_string(),
                column: column.name().clone(),
                found: describe(found),
                first: first.to_string(),
                expected: describe(column),
            });
        }
    }
    Ok(())
}

/// What is wrong with names that are not the first file's.
fn unlike_names<F: Display>(first: &F, columns: &[FieldRef], file: &F, found: &Fields) -> DatasetError {
    let (file, first) = (file.to_string(), first.to_string());
    let mut left: HashSet<&str> = columns.iter().map(|column| column.name().as_str()).collect();
    for field in found {
        let column = field.name().clone();
        if left.remove(column.as_str()) {
            continue;
        }
        let is_known = columns.iter().any(|known| known.name() == field.name());
        return if is_known {
            DatasetError::DuplicateColumn { file, column }
        } else {
            DatasetError::ExtraColumn { file, column, first }
        };
    }
    if let Some(missing) = columns.iter().find(|column| left.contains(column.name().as_str())) {
        return DatasetError::MissingColumn { file, column: missing.name().clone(), first };
    }
    let moved = columns.iter().zip(found).find(|(column, found)| column.name() != found.name());
    let column = moved.map(|(_, found)| found.name().clone()).unwrap_or_default();
    DatasetError::ColumnOrder { file, column, first }
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
