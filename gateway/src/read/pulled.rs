//! Lanes that another gateway decodes.
//!
//! In: a way to send for those lanes' rows from a step on, which come in the order in which steps take them. Out: as
//! many rows as are asked for, or as many as came before no more did; and of lanes that come no more, the step from
//! which on they come again. The promise: a row that was given was the next one; whoever sent and stopped is sent to
//! again, ever more rarely, and never waited for meanwhile. It knows neither who sends the batches nor why they stop.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use metrics::counter;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::gather::Taken;
use super::share::Room;

/// Between tries to have lanes again, at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Sends for the rows of some lanes from a step on. Whoever sends closes the line when it has no more, or gives up.
pub(crate) type Ask = Box<dyn Fn(u64) -> mpsc::Receiver<RecordBatch> + Send + Sync>;

/// Some lanes of a stream, for as long as somebody sends their rows, and when somebody does again.
pub(crate) struct Pulled {
    /// In rising order.
    lanes: Vec<u32>,
    /// Their whole steps.
    steps: u64,
    ask: Ask,
    coming: Coming,
    /// Until the next try, and about as long as is left for that one.
    pause: Duration,
    /// For what comes before its turn, while these lanes are decoded here as well.
    room: Option<Room>,
}

enum Coming {
    /// The batch at hand, and how many of its rows were taken.
    Rows { arriving: mpsc::Receiver<RecordBatch>, held: Option<(Arc<RecordBatch>, usize)> },
    /// Nothing, since a step.
    Nothing { since: Instant, step: u64 },
    /// The rows from a step on that has not begun.
    Later { first: u64, arriving: mpsc::Receiver<RecordBatch> },
}

impl Pulled {
    /// The rows come from the step `first` on, of every step before `steps` the lanes in order, and in this gateway's
    /// schema.
    pub(crate) fn new(lanes: Vec<u32>, first: u64, steps: u64, pause: Duration, ask: Ask) -> Self {
        let coming = Coming::Rows { arriving: ask(first), held: None };
        Self { lanes, steps, ask, coming, pause, room: None }
    }

    /// The same, where there is no hope in sending for them yet.
    pub(crate) fn later(lanes: Vec<u32>, first: u64, steps: u64, pause: Duration, ask: Ask) -> Self {
        fallen_back(&lanes);
        let coming = Coming::Nothing { since: Instant::now(), step: first };
        Self { lanes, steps, ask, coming, pause, room: None }
    }

    pub(crate) fn lanes(&self) -> &[u32] {
        &self.lanes
    }

    /// Whether rows come.
    pub(super) fn is_coming(&self) -> bool {
        matches!(self.coming, Coming::Rows { .. })
    }

    /// Takes the next `wanted` rows and says how many there were. If they are fewer, no more will come.
    pub(super) async fn take(&mut self, wanted: u64, into: &mut Vec<Taken>) -> u64 {
        let mut given = 0;
        let Coming::Rows { arriving, held } = &mut self.coming else { return given };
        while given < wanted {
            let next = match held.take() {
                Some(held) => Some(held),
                None => arriving.recv().await.map(|batch| (Arc::new(batch), 0)),
            };
            let Some((batch, taken)) = next else { break };
            let left = usize::try_from(wanted - given).unwrap_or(usize::MAX);
            let rows = (batch.num_rows() - taken).min(left);
            into.push(Taken::Rows { batch: Arc::clone(&batch), range: taken..taken + rows });
            given += rows as u64;
            if taken + rows < batch.num_rows() {
                *held = Some((batch, taken + rows));
            }
        }
        given
    }

    /// Notes that no more rows come in a step.
    pub(super) fn fall_back(&mut self, step: u64) {
        fallen_back(&self.lanes);
        self.rest(step);
    }

    /// Whether lanes that came no more come again from this step on, which begins. They are sent for after a while, for
    /// the step that is reached in as long again, and only if there is `room`; what is not there by then is not waited
    /// for.
    pub(super) fn is_back(&mut self, step: u64, room: impl FnOnce() -> Option<Room>) -> bool {
        match &mut self.coming {
            Coming::Rows { .. } => false,
            Coming::Nothing { since, step: left } => {
                let first = step + (step - *left).max(1);
                if since.elapsed() >= self.pause && first < self.steps {
                    self.pause = (2 * self.pause).min(LONGEST_PAUSE);
                    match room() {
                        None => self.rest(step),
                        room => {
                            self.room = room;
                            self.coming = Coming::Later { first, arriving: (self.ask)(first) };
                        }
                    }
                }
                false
            }
            Coming::Later { first, .. } if step < *first => false,
            Coming::Later { arriving, .. } => {
                let Ok(batch) = arriving.try_recv() else {
                    self.rest(step);
                    return false;
                };
                let (_, nobody) = mpsc::channel(1);
                let arriving = std::mem::replace(arriving, nobody);
                self.coming = Coming::Rows { arriving, held: Some((Arc::new(batch), 0)) };
                counter!("penstock_gateway_lanes_pulled_again_total").increment(self.lanes.len() as u64);
                true
            }
        }
    }

    /// Leaves whoever sends alone for a while.
    fn rest(&mut self, step: u64) {
        self.room = None;
        self.coming = Coming::Nothing { since: Instant::now(), step };
    }
}

/// Counts lanes that another gateway owns and this one decodes.
fn fallen_back(lanes: &[u32]) {
    counter!("penstock_gateway_lanes_fallen_back_total").increment(lanes.len() as u64);
}
