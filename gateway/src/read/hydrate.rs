//! Dictionaries written out.
//!
//! In: batches whose columns may be dictionaries. Out: the same values as plain columns. Batches of
//! different files carry different dictionaries, and stock clients differ in what they make of that; so
//! none leaves the gateway.

use std::sync::Arc;

use arrow::array::RecordBatchOptions;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use crate::dataset::Projection;

/// The schema with dictionaries replaced by the type of their values, at any depth.
pub(crate) fn plain_schema(schema: &SchemaRef) -> SchemaRef {
    let fields: Vec<FieldRef> = schema.fields().iter().map(plain_field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// A decoded batch in the projection's order, under its plain schema. Columns that hold no dictionary are
/// not touched.
pub(crate) fn hydrate(
    decoded: &RecordBatch,
    projection: &Projection,
    schema: &SchemaRef,
) -> Result<RecordBatch, ArrowError> {
    let batch = projection.arrange(decoded)?;
    if batch.schema_ref().fields() == schema.fields() {
        return Ok(batch);
    }
    let columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| match column.data_type() == field.data_type() {
            true => Ok(Arc::clone(column)),
            false => cast(column, field.data_type()),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

fn plain_field(field: &FieldRef) -> FieldRef {
    let plain = plain_type(field.data_type());
    if plain == *field.data_type() {
        return Arc::clone(field);
    }
    let plain = Field::new(field.name(), plain, field.is_nullable());
    Arc::new(plain.with_metadata(field.metadata().clone()))
}

fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::List(item) => DataType::List(plain_field(item)),
        DataType::LargeList(item) => DataType::LargeList(plain_field(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(plain_field(item), *size),
        DataType::Map(entries, sorted) => DataType::Map(plain_field(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect()),
        other => other.clone(),
    }
}
