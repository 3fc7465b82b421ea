//! Record batches as Flight messages.
//!
//! In: parts of steps. Out: messages, each with the note that says what it is. The promise: no column's
//! buffer is copied unless it is compressed; a message stays below the limit it was given unless one row alone is larger, so that a
//! stock client takes it; the parts of a step count up to the last, which says that it is the last. It
//! knows no file, no plan and no socket.

mod message;
mod size;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{IpcWriteOptions, StreamEncoder};
use arrow::record_batch::RecordBatch;
use arrow_flight::{FlightData, SchemaAsIpc};
use penstock_proto::{Compression, Effort, Note};

pub(crate) use self::message::Message;
pub(crate) use self::size::encoded_bytes;
use crate::compact::compact;

/// Zstandard's fastest level of its own: a link that a higher one would help is slower than a decoder.
const ZSTD_LEVEL: i32 = 1;

/// Writes the batches of one stream.
pub(crate) struct Encoder {
    schema: SchemaRef,
    epoch: u64,
    /// Bytes of a message's body before it is compressed, at most, if it has more than one row.
    part_bytes: u64,
    /// The next part of the step.
    part: u32,
    writer: StreamEncoder,
}

impl Encoder {
    pub(crate) fn new(
        schema: SchemaRef,
        epoch: u64,
        part_bytes: u64,
        compression: Option<Compression>,
    ) -> Result<Self, ArrowError> {
        let mut writer = StreamEncoder::try_new_with_options(&schema, options(compression)?)?;
        // The first batch brings the schema along, which Flight wants in a message of its own.
        writer.encode(&RecordBatch::new_empty(Arc::clone(&schema)))?;
        Ok(Self { schema, epoch, part_bytes, part: 0, writer })
    }

    /// The message that a stream begins with.
    pub(crate) fn schema(&self) -> Message {
        let schema: FlightData = SchemaAsIpc::new(&self.schema, &IpcWriteOptions::default()).into();
        Message { header: schema.data_header.into(), note: Vec::new(), body: Vec::new() }
    }

    /// Rows of `step`, a message for each batch, of which `more` parts are meant to follow. Rows that turn out too
    /// large for one message become several; then the step has more parts than its first ones said, and a reader goes by
    /// the one that calls itself the last. What the rows cost is said with the first.
    pub(crate) fn rows(
        &mut self,
        batches: Vec<RecordBatch>,
        step: u64,
        more: u64,
        mut effort: Effort,
    ) -> Result<Vec<Message>, ArrowError> {
        let mut pieces = Vec::new();
        for batch in batches {
            split(batch, self.part_bytes, &mut pieces);
        }
        let mut messages = Vec::with_capacity(pieces.len());
        let mut following = pieces.len() as u64 + more;
        for piece in &pieces {
            following -= 1;
            let (part, behind) = (self.part, u32::try_from(following).unwrap_or(u32::MAX));
            let parts = part.saturating_add(1).saturating_add(behind);
            let note = Note::Part { epoch: self.epoch, step, part, parts };
            messages.push(self.message(piece, note, std::mem::take(&mut effort))?);
            self.part = if following == 0 { 0 } else { part.saturating_add(1) };
        }
        Ok(messages)
    }

    /// A batch without rows, for the sake of its note.
    pub(crate) fn note(&mut self, note: Note) -> Result<Message, ArrowError> {
        self.message(&RecordBatch::new_empty(self.schema.clone()), note, Effort::default())
    }

    fn message(&mut self, batch: &RecordBatch, note: Note, effort: Effort) -> Result<Message, ArrowError> {
        let written = self.writer.encode(&compact(batch)?)?;
        // One message, for dictionaries are written out before.
        Ok(Message::take(written, note.to_json_with(effort)))
    }
}

fn options(compression: Option<Compression>) -> Result<IpcWriteOptions, ArrowError> {
    let options = IpcWriteOptions::default();
    match compression {
        None => Ok(options),
        Some(Compression::Lz4) => options.try_with_compression(Some(CompressionType::LZ4_FRAME)),
        Some(Compression::Zstd) => options
            .try_with_compression(Some(CompressionType::ZSTD))?
            .try_with_compression_level(Some(ZSTD_LEVEL)),
    }
}

/// Cuts a batch by rows until every piece is small enough or a single row.
fn split(batch: RecordBatch, limit: u64, into: &mut Vec<RecordBatch>) {
    let (rows, bytes) = (batch.num_rows(), encoded_bytes(&batch));
    if rows <= 1 || bytes <= limit {
        into.push(batch);
        return;
    }
    let pieces = usize::try_from(bytes.div_ceil(limit.max(1))).unwrap_or(rows).clamp(2, rows);
    let (mut at, step) = (0, rows.div_ceil(pieces));
    while at < rows {
        let length = step.min(rows - at);
        split(batch.slice(at, length), limit, into);
        at += length;
    }
}
