//! Lanes that another gateway decodes.
//!
//! In: batches of those lanes' rows, in the order in which steps take them. Out: as many rows as are asked for, or
//! as many as came before no more did. The promise: a row that was given was the next one. It knows neither who
//! sends the batches nor why they stop.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use tokio::sync::mpsc;

use super::gather::Taken;

/// Some lanes of a stream, for as long as somebody sends their rows.
pub(crate) struct Pulled {
    /// In rising order.
    lanes: Vec<u32>,
    arriving: mpsc::Receiver<RecordBatch>,
    /// The batch at hand, and how many of its rows were taken.
    held: Option<(Arc<RecordBatch>, usize)>,
}

impl Pulled {
    /// The rows come from the first of the stream's steps on, of every step the lanes in order, and in this
    /// gateway's schema. Whoever sends closes the line when it has no more, or gives up.
    pub(crate) fn new(lanes: Vec<u32>, arriving: mpsc::Receiver<RecordBatch>) -> Self {
        Self { lanes, arriving, held: None }
    }

    pub(crate) fn lanes(&self) -> &[u32] {
        &self.lanes
    }

    /// Takes the next `wanted` rows and says how many there were. If they are fewer, no more will come.
    pub(super) async fn take(&mut self, wanted: u64, into: &mut Vec<Taken>) -> u64 {
        let mut given = 0;
        while given < wanted {
            let Some((batch, taken)) = self.next().await else { break };
            let left = usize::try_from(wanted - given).unwrap_or(usize::MAX);
            let rows = (batch.num_rows() - taken).min(left);
            into.push(Taken::Rows { batch: Arc::clone(&batch), range: taken..taken + rows });
            given += rows as u64;
            if taken + rows < batch.num_rows() {
                self.held = Some((batch, taken + rows));
            }
        }
        given
    }

    async fn next(&mut self) -> Option<(Arc<RecordBatch>, usize)> {
        match self.held.take() {
            Some(held) => Some(held),
            None => self.arriving.recv().await.map(|batch| (Arc::new(batch), 0)),
        }
    }
}
