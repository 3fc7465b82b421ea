//! Messages into record batches, whose columns lie where the socket was read to.
//!
//! In: IPC messages of a schema that is known. Out: batches. What a message says of its body is checked
//! before arrow reads it, for arrow takes some of it at its word. What was compressed lies in memory of its own
//! afterwards. No dictionary comes: no column that is fed has one.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::RecordBatchDecoder;
use arrow::ipc::{self, MessageHeader, convert, root_as_message};
use penstock_proto::{Code, Error};

/// More than any array of a message has: what takes no bytes is not bounded by those of the body.
const MOST_VALUES: i64 = 1 << 32;
/// What stands before a compressed buffer: how long it is by itself.
const LENGTH_BYTES: usize = 8;
/// Said in place of that length by a buffer that compression would not make smaller.
const AS_IT_IS: i64 = -1;
/// More than any message is before it is compressed: gRPC frames none.
const MOST_BYTES: u64 = 1 << 32;

/// Rows, and what they hold in memory besides their message.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) batch: RecordBatch,
    pub(crate) bytes: u64,
}

/// A message that is not what its stream may bring.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("a message is no IPC message: {0}")]
    Header(String),
    #[error("a message is a {0}, which no stream brings")]
    Kind(&'static str),
    #[error("a batch {0}")]
    Batch(&'static str),
    #[error("a message is not readable")]
    Arrow(#[from] ArrowError),
    #[error(
        "the stream's columns are not those that the gateway announced: use one release of penstock everywhere"
    )]
    Columns,
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        let code = if matches!(error, DecodeError::Columns) { Code::Internal } else { Code::BrokenStream };
        Self::chain(code, &error)
    }
}

/// Reads a message; `None` for one that brings no rows.
pub(crate) fn decode(
    schema: &SchemaRef,
    header: &[u8],
    body: &Buffer,
) -> Result<Option<Decoded>, DecodeError> {
    let message = root_as_message(header).map_err(|error| DecodeError::Header(error.to_string()))?;
    match message.header_type() {
        MessageHeader::NONE => Ok(None),
        MessageHeader::Schema => {
            check_schema(schema, &convert::try_schema_from_flatbuffer_bytes(header)?)?;
            Ok(None)
        }
        MessageHeader::RecordBatch => {
            let batch = message.header_as_record_batch().ok_or(DecodeError::Kind("batch of another kind"))?;
            check_batch(&batch, body)?;
            let bytes = unpacked_bytes(&batch, body)?;
            let (version, none) = (message.version(), HashMap::new());
            let decoder = RecordBatchDecoder::try_new(body, batch, schema.clone(), &none, &version)?;
            // It panics at buffers whose lengths fit no column; nothing of it is used afterwards.
            let read = catch_unwind(AssertUnwindSafe(|| decoder.read_record_batch()));
            let batch = read.map_err(|_| DecodeError::Batch("has buffers that fit no column"))??;
            Ok(Some(Decoded { batch, bytes }))
        }
        other => Err(DecodeError::Kind(other.variant_name().unwrap_or("message of the future"))),
    }
}

fn check_schema(announced: &Schema, arrived: &Schema) -> Result<(), DecodeError> {
    let same = announced.fields().len() == arrived.fields().len()
        && announced
            .fields()
            .iter()
            .zip(arrived.fields())
            .all(|(a, b)| a.name() == b.name() && a.data_type() == b.data_type());
    if same { Ok(()) } else { Err(DecodeError::Columns) }
}

/// Whether a batch stays inside its body.
fn check_batch(batch: &ipc::RecordBatch<'_>, body: &Buffer) -> Result<(), DecodeError> {
    let may_be = |values: i64| (0..=MOST_VALUES).contains(&values);
    let nodes_are_right = batch.nodes().is_none_or(|nodes| {
        nodes.iter().all(|node| may_be(node.length()) && node.null_count() <= node.length())
    });
    if !may_be(batch.length()) || !nodes_are_right {
        return Err(DecodeError::Batch("has an impossible number of rows"));
    }
    let is_inside = |buffer: &ipc::Buffer| {
        let end = buffer.offset().checked_add(buffer.length()).and_then(|end| usize::try_from(end).ok());
        buffer.offset() >= 0 && buffer.length() >= 0 && end.is_some_and(|end| end <= body.len())
    };
    if !batch.buffers().is_none_or(|buffers| buffers.iter().all(is_inside)) {
        return Err(DecodeError::Batch("reaches out of its message"));
    }
    Ok(())
}

/// Bytes that the buffers of a batch, which stays inside its body, will take by themselves.
fn unpacked_bytes(batch: &ipc::RecordBatch<'_>, body: &Buffer) -> Result<u64, DecodeError> {
    if batch.compression().is_none() {
        return Ok(0);
    }
    let mut sum = 0_u64;
    for buffer in batch.buffers().iter().flatten().filter(|buffer| buffer.length() > 0) {
        let length = body[buffer.offset() as usize..].first_chunk::<LENGTH_BYTES>();
        match length.map(|length| i64::from_le_bytes(*length)) {
            Some(AS_IT_IS) => {}
            Some(length) if length >= 0 => sum = sum.saturating_add(length.unsigned_abs()),
            _ => return Err(DecodeError::Batch("has a compressed buffer of no length")),
        }
    }
    if sum > MOST_BYTES {
        return Err(DecodeError::Batch("is larger uncompressed than a message can be"));
    }
    Ok(sum)
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
