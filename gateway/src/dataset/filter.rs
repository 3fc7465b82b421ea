//! A feed's condition on rows, found in a snapshot's schema.

use arrow::array::RecordBatch;
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;

use super::DatasetError;
use super::projection::leaves;
use crate::expression::{Input, Predicate};

/// A resolved condition.
#[derive(Debug, Clone)]
pub struct Filter {
    text: String,
    predicate: Predicate,
}

impl Filter {
    pub(super) fn new(schema: &Schema, text: &str) -> Result<Self, DatasetError> {
        let text = text.trim().to_owned();
        match Predicate::parse(&text, schema) {
            Ok(predicate) => Ok(Self { text, predicate }),
            Err(source) => Err(DatasetError::Filter { text, source }),
        }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn predicate(&self) -> &Predicate {
        &self.predicate
    }

    /// What a reader of one file must decode to tell which rows pass.
    pub(crate) fn mask(&self, footer: &ArrowReaderMetadata) -> ProjectionMask {
        ProjectionMask::roots(footer.parquet_schema(), self.predicate.columns().iter().copied())
    }

    /// The leaf columns of one file that [`mask`](Self::mask) selects.
    pub(crate) fn leaves(&self, footer: &ArrowReaderMetadata) -> Vec<usize> {
        leaves(footer, self.predicate.columns().iter().copied())
    }

    /// Which rows of a batch pass that was decoded through [`mask`](Self::mask).
    ///
    /// # Errors
    /// When the batch is not of that mask, or a CAST is not possible for a value.
    pub(crate) fn passes(&self, decoded: &RecordBatch) -> Result<BooleanBuffer, ArrowError> {
        self.predicate.passes(Input { batch: decoded, places: self.predicate.columns() })
    }
}
