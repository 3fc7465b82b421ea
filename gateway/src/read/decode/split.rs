//! A row group whose lists are decoded here and whose other columns by parquet's own reader.
//!
//! In: what is wanted, and the bytes as they come. Out: batches of all columns together. The promise:
//! whatever is odd about a list is told before any of the batch's rows were handed out, with what is then
//! still to be read.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{FieldRef, Schema};
use arrow::record_batch::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::RowSelection;
use parquet::errors::ParquetError;

use super::column::{ListColumn, Lists};
use super::general::General;
use super::pages::Held;
use super::steps::{Steps, selected};
use super::{Next, Odd, Wanted, fitted};

/// The columns of a row group, by who decodes them.
pub(super) struct Split {
    batch_rows: usize,
    steps: Steps,
    lists: Stage,
    others: Option<General>,
    /// Rows of the other columns that wait for their lists.
    waiting: Option<RecordBatch>,
    /// Of every wanted column, in the file's order, its field if it is decoded here.
    order: Vec<Option<FieldRef>>,
}

enum Stage {
    /// Not all bytes are there.
    Closed(Vec<ListColumn>),
    Open(Vec<Box<dyn Lists>>),
}

impl Split {
    /// `None` if nothing of what is wanted is decoded here.
    pub(super) fn new(wanted: &Wanted, batch_rows: usize) -> Result<Option<Self>, ParquetError> {
        let schema = wanted.footer.parquet_schema();
        let leaves: Vec<(usize, usize)> = (0..schema.num_columns())
            .filter(|&leaf| wanted.columns.leaf_included(leaf))
            .map(|leaf| (schema.get_column_root_idx(leaf), leaf))
            .collect();
        let (mut lists, mut order, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for of_root in leaves.chunk_by(|a, b| a.0 == b.0) {
            let list = match of_root {
                [only] => ListColumn::new(&wanted.footer, wanted.row_group, *only, wanted.rows.as_ref()),
                _ => None,
            };
            order.push(list.as_ref().map(|list| Arc::clone(list.field())));
            match list {
                Some(list) => lists.push(list),
                None => others.extend(of_root.iter().map(|&(_, leaf)| leaf)),
            }
        }
        let is_nothing_wanted = wanted.rows.as_ref().is_some_and(|rows| !rows.selects_any());
        if lists.is_empty() || is_nothing_wanted {
            return Ok(None);
        }
        let others = match others.as_slice() {
            [] => None,
            leaves => {
                let columns = ProjectionMask::leaves(schema, leaves.iter().copied());
                Some(General::new(wanted, columns, wanted.rows.clone(), batch_rows)?)
            }
        };
        let rows = wanted.footer.metadata().row_group(wanted.row_group).num_rows();
        let steps = Steps::new(usize::try_from(rows).unwrap_or(0), wanted.rows.as_ref());
        Ok(Some(Self { batch_rows, steps, lists: Stage::Closed(lists), others, waiting: None, order }))
    }

    /// What is still to be read, by whoever goes on.
    pub(super) fn rest(&self) -> RowSelection {
        self.steps.rest()
    }

    pub(super) fn next(&mut self, wanted: &Wanted, held: &Held) -> Result<Result<Next, Odd>, ParquetError> {
        if let Stage::Closed(lists) = &mut self.lists {
            let ranges = lists.iter().flat_map(|list| list.chunk().ranges());
            let mut missing: Vec<_> = ranges.filter(|range| held.find(range).is_none()).cloned().collect();
            if !missing.is_empty() {
                // What the other columns need is fetched together with it.
                match self.others.as_mut().map(|others| others.advance(held)).transpose()? {
                    Some(Next::Needs(ranges)) => missing.extend(ranges),
                    Some(Next::Rows(batch)) => self.waiting = Some(batch),
                    Some(Next::Done) | None => {}
                }
                return Ok(Ok(Next::Needs(missing)));
            }
            let open = |list: ListColumn| list.open(&wanted.footer, wanted.row_group, held);
            match std::mem::take(lists).into_iter().map(open).collect() {
                Ok(lists) => self.lists = Stage::Open(lists),
                Err(odd) => return Ok(Err(odd)),
            }
        }
        let batch = match (self.waiting.take(), &mut self.others) {
            (Some(batch), _) => Some(batch),
            (None, None) => None,
            (None, Some(others)) => match others.advance(held)? {
                Next::Rows(batch) => Some(batch),
                next => return Ok(Ok(next)),
            },
        };
        Ok(self.join(batch.as_ref()))
    }

    /// Reads the lists that belong to a batch of the other columns, or the next of their own.
    fn join(&mut self, others: Option<&RecordBatch>) -> Result<Next, Odd> {
        let rows = others.map_or(self.batch_rows, RecordBatch::num_rows);
        let steps = self.steps.peek(rows);
        match others {
            None if steps.is_empty() => return Ok(Next::Done),
            Some(_) if selected(&steps) != rows => return Err(Odd::Other("more rows than are wanted")),
            _ => {}
        }
        let Stage::Open(lists) = &mut self.lists else { return Err(Odd::Other("lists that are not open")) };
        let lists: Vec<ArrayRef> =
            lists.iter_mut().map(|list| list.read(&steps)).collect::<Result<_, _>>()?;
        let mut lists = lists.into_iter();
        let others =
            others.as_ref().map(|batch| (batch.schema_ref().fields().iter(), batch.columns().iter()));
        let (fields, columns) = others.unwrap_or_default();
        let mut others = fields.cloned().zip(columns.cloned());
        let columns = self.order.iter().map(|field| match field {
            Some(field) => Some((Arc::clone(field), lists.next()?)),
            None => others.next(),
        });
        let (fields, columns): (Vec<FieldRef>, Vec<ArrayRef>) = columns.flatten().unzip();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
            .map_err(|_| Odd::Other("columns that do not fit together"))?;
        self.steps.pass(&steps);
        Ok(Next::Rows(fitted(batch)))
    }
}
