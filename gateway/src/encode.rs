//! Record batches as Flight messages.
//!
//! In: parts of steps. Out: `FlightData`, each with the note that says what it is. The promise: a message
//! stays below the limit it was given unless one row alone is larger, so that a stock client takes it;
//! the parts of a step count up to the last, which says that it is the last. It knows no file, no plan
//! and no socket.

mod compact;
mod size;

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow::record_batch::RecordBatch;
use arrow_flight::{FlightData, SchemaAsIpc};
use penstock_proto::Note;

use self::compact::compact;
use self::size::encoded_bytes;

/// Writes the batches of one stream.
pub(crate) struct Encoder {
    schema: SchemaRef,
    epoch: u64,
    /// Bytes of a message's body, at most, if it has more than one row.
    part_bytes: u64,
    /// The next part of the step.
    part: u32,
    options: IpcWriteOptions,
    dictionaries: DictionaryTracker,
    context: IpcWriteContext,
}

impl Encoder {
    pub(crate) fn new(schema: SchemaRef, epoch: u64, part_bytes: u64) -> Self {
        Self {
            schema,
            epoch,
            part_bytes,
            part: 0,
            options: IpcWriteOptions::default(),
            dictionaries: DictionaryTracker::new(true),
            context: IpcWriteContext::default(),
        }
    }

    /// The message that a stream begins with.
    pub(crate) fn schema(&self) -> FlightData {
        SchemaAsIpc::new(&self.schema, &self.options).into()
    }

    /// Rows of `step`, of which `more` parts are meant to follow. Rows that turn out too large for one
    /// message become several; then the step has more parts than its first ones said, and a reader goes by
    /// the one that calls itself the last.
    pub(crate) fn rows(
        &mut self,
        batch: RecordBatch,
        step: u64,
        more: u64,
    ) -> Result<Vec<FlightData>, ArrowError> {
        let mut pieces = Vec::new();
        split(batch, self.part_bytes, &mut pieces);
        let mut messages = Vec::with_capacity(pieces.len());
        let mut following = pieces.len() as u64 + more;
        for piece in &pieces {
            following -= 1;
            let (part, behind) = (self.part, u32::try_from(following).unwrap_or(u32::MAX));
            let parts = part.saturating_add(1).saturating_add(behind);
            messages.push(self.message(piece, Note::Part { epoch: self.epoch, step, part, parts })?);
            self.part = if following == 0 { 0 } else { part.saturating_add(1) };
        }
        Ok(messages)
    }

    /// A batch without rows, for the sake of its note.
    pub(crate) fn note(&mut self, note: Note) -> Result<FlightData, ArrowError> {
        self.message(&RecordBatch::new_empty(self.schema.clone()), note)
    }

    fn message(&mut self, batch: &RecordBatch, note: Note) -> Result<FlightData, ArrowError> {
        let batch = compact(batch)?;
        let (dictionaries, data) = IpcDataGenerator::default().encode(
            &batch,
            &mut self.dictionaries,
            &self.options,
            &mut self.context,
        )?;
        debug_assert!(dictionaries.is_empty(), "dictionaries are written out before");
        Ok(FlightData {
            flight_descriptor: None,
            data_header: data.ipc_message.into(),
            app_metadata: note.to_json().into(),
            data_body: data.arrow_data.into(),
        })
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BinaryArray, Int64Array, ListBuilder, StringViewArray, StringViewBuilder};

    use super::*;

    const LIMIT: u64 = 10_000;

    fn encode(column: ArrayRef, more: u64) -> Vec<(FlightData, Note)> {
        let batch = RecordBatch::try_from_iter_with_nullable([("x", column, true)]).unwrap();
        let mut encoder = Encoder::new(batch.schema(), 3, LIMIT);
        let messages = encoder.rows(batch, 7, more).unwrap();
        messages
            .into_iter()
            .map(|message| {
                let note = Note::from_json(&message.app_metadata).unwrap();
                (message, note)
            })
            .collect()
    }

    #[test]
    fn parts_count_up_to_the_last() {
        let notes: Vec<Note> =
            encode(Arc::new(Int64Array::from_iter_values(0..3_000)), 0).into_iter().map(|(_, n)| n).collect();
        let expected: Vec<Note> =
            (0..3).map(|part| Note::Part { epoch: 3, step: 7, part, parts: 3 }).collect();
        assert_eq!(notes, expected);
        let (_, note) = encode(Arc::new(Int64Array::from_iter_values(0..3)), 2).remove(0);
        assert_eq!(note, Note::Part { epoch: 3, step: 7, part: 0, parts: 3 });
    }

    #[test]
    fn no_message_is_larger_than_its_limit_unless_one_row_is() {
        // Rows of very different sizes: a cut by the mean alone would overshoot.
        let rows: Vec<Vec<u8>> = (0..200).map(|i| vec![0; if i > 180 { 3_000 } else { 10 }]).collect();
        let messages = encode(Arc::new(BinaryArray::from_iter_values(&rows)), 0);
        assert!(messages.len() > 6);
        assert!(messages.iter().all(|(message, _)| message.data_body.len() as u64 <= LIMIT));
        let huge = encode(Arc::new(BinaryArray::from_iter_values([vec![0; 50_000]])), 0);
        assert_eq!(huge.len(), 1);
    }

    #[test]
    fn slices_of_views_carry_only_their_own_bytes() {
        let text = "a text that is too long to lie in a view itself";
        let views = StringViewArray::from_iter_values((0..1_000).map(|i| format!("{text} {i}")));
        let total: usize =
            encode(Arc::new(views), 0).iter().map(|(message, _)| message.data_body.len()).sum();
        assert!(total < 2 * 1_000 * (16 + 64), "{total}");

        let mut lists = ListBuilder::new(StringViewBuilder::new());
        for i in 0..500 {
            lists.append_value([Some(format!("{text} {i}")), None]);
        }
        let total: usize =
            encode(Arc::new(lists.finish()), 0).iter().map(|(message, _)| message.data_body.len()).sum();
        assert!(total < 2 * 500 * (4 + 2 * 16 + 64), "{total}");
    }
}
