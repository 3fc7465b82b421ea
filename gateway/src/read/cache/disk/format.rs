//! Batches as bytes: one message of uncompressed Arrow IPC.
//!
//! In: batches; or bytes that were made of one, and its schema. Out: the other. The promise: no column is copied either
//! way, what was a slice becomes its own rows, and a batch that is read lies in the one allocation that was read into.
//! It knows no file. The bytes hold no schema: a chunk's name stands for one.

use std::collections::HashMap;

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::RecordBatchDecoder;
use arrow::ipc::root_as_message;
use arrow::ipc::writer::StreamEncoder;
use arrow::record_batch::RecordBatch;

/// A mark, and the length of the description.
const PREFIX_BYTES: usize = 8;

pub(super) fn encode(batch: &RecordBatch) -> Result<Vec<Buffer>, ArrowError> {
    let mut encoder = StreamEncoder::try_new(&batch.schema())?;
    // The first batch brings the schema along.
    encoder.encode(&RecordBatch::new_empty(batch.schema()))?;
    encoder.encode(batch)
}

pub(super) fn decode(bytes: &Buffer, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let odd = |what: &str| ArrowError::IpcError(format!("a chunk on disk has no {what}"));
    let length = bytes.get(PREFIX_BYTES - 4..PREFIX_BYTES).and_then(|length| length.first_chunk());
    let body = PREFIX_BYTES + length.map_or(0, |length| u32::from_le_bytes(*length)) as usize;
    let header = bytes.get(PREFIX_BYTES..body).ok_or_else(|| odd("description"))?;
    let message = root_as_message(header).map_err(|error| ArrowError::IpcError(error.to_string()))?;
    let batch = message.header_as_record_batch().ok_or_else(|| odd("rows"))?;
    let (body, none) = (bytes.slice(body), HashMap::new());
    RecordBatchDecoder::try_new(&body, batch, SchemaRef::clone(schema), &none, &message.version())?
        .read_record_batch()
}
