//! The columns a feed wants, found in a snapshot's schema.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;

use super::DatasetError;

/// Resolved columns, in the order they were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    schema: SchemaRef,
    /// Places in the dataset's schema, in the order asked for.
    columns: Vec<usize>,
    /// For every column asked for, its place among the columns as a file's reader returns them.
    places: Vec<usize>,
}

impl Projection {
    /// Finds columns by name; no name at all means every column.
    ///
    /// # Errors
    /// When the dataset lacks one, or one is asked for twice.
    pub(super) fn new(schema: &SchemaRef, names: &[String]) -> Result<Self, DatasetError> {
        let columns: Vec<usize> = if names.is_empty() {
            (0..schema.fields().len()).collect()
        } else {
            names.iter().map(|name| find(schema, name)).collect::<Result<_, _>>()?
        };
        let mut in_file_order = columns.clone();
        in_file_order.sort_unstable();
        if let Some(twice) = in_file_order.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(DatasetError::ColumnTwice { column: schema.field(twice[0]).name().clone() });
        }
        let places = columns.iter().map(|column| in_file_order.partition_point(|c| c < column)).collect();
        let fields: Vec<_> = columns.iter().map(|&column| Arc::clone(&schema.fields()[column])).collect();
        Ok(Self { schema: Arc::new(Schema::new(fields)), columns, places })
    }

    /// The schema of every batch of this projection, whichever file it comes from.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What a reader of one file must decode.
    pub fn mask(&self, footer: &ArrowReaderMetadata) -> ProjectionMask {
        ProjectionMask::roots(footer.parquet_schema(), self.columns.iter().copied())
    }

    /// The leaf columns of one file that [`mask`](Self::mask) selects.
    pub fn leaves(&self, footer: &ArrowReaderMetadata) -> Vec<usize> {
        let schema = footer.parquet_schema();
        let mut is_wanted = vec![false; schema.root_schema().get_fields().len()];
        self.columns.iter().for_each(|&root| is_wanted[root] = true);
        (0..schema.num_columns()).filter(|&leaf| is_wanted[schema.get_column_root_idx(leaf)]).collect()
    }

    /// Puts a batch that was decoded through [`mask`](Self::mask) into the order asked for, under the one
    /// schema. Copies nothing.
    ///
    /// # Errors
    /// When the batch is not of this projection.
    pub fn arrange(&self, decoded: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = self
            .places
            .iter()
            .map(|&place| decoded.columns().get(place).cloned())
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| ArrowError::SchemaError("a decoded batch lacks columns".to_owned()))?;
        let options = RecordBatchOptions::new().with_row_count(Some(decoded.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}

fn find(schema: &Schema, name: &str) -> Result<usize, DatasetError> {
    schema.index_of(name).map_err(|_| {
        let known: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        DatasetError::UnknownColumn { column: name.to_owned(), hint: hint(name, &known) }
    })
}

/// Near names, or else the first few there are.
pub(crate) fn hint(name: &str, known: &[&str]) -> String {
    const SHOWN: usize = 8;
    let quoted = |names: &[&str]| names.iter().map(|n| format!("{n:?}")).collect::<Vec<_>>().join(", ");
    let allowed = name.chars().count().div_ceil(3);
    let mut near: Vec<(usize, &str)> = known
        .iter()
        .map(|&known| (distance(&name.to_lowercase(), &known.to_lowercase()), known))
        .filter(|(distance, _)| *distance <= allowed)
        .collect();
    near.sort_unstable();
    if !near.is_empty() {
        let near: Vec<&str> = near.into_iter().map(|(_, known)| known).take(3).collect();
        return format!("did you mean {}?", quoted(&near));
    }
    match known {
        [] => "it has no columns".to_owned(),
        _ if known.len() <= SHOWN => format!("it has {}", quoted(known)),
        _ => format!("it has {} and {} more", quoted(&known[..SHOWN]), known.len() - SHOWN),
    }
}

/// Letters to insert, delete or replace (Levenshtein), by one row of the table at a time.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_what_is_near_or_what_there_is() {
        assert_eq!(hint("lable", &["label", "image"]), r#"did you mean "label"?"#);
        assert_eq!(hint("Label", &["label"]), r#"did you mean "label"?"#);
        assert_eq!(hint("weight", &["label", "image"]), r#"it has "label", "image""#);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
