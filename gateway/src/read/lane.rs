//! One lane, decoded ahead of whoever takes rows from it.
//!
//! In: a lane, or the remainder, and the position to begin at. Out: the rows at any rising positions. The
//! promise: while rows are taken the next batch is decoded, never more than one, and a window is decoded
//! when the one before has been fed, or earlier where spare bytes were leased for it. It ends with the
//! set of tasks that it was spawned into.

use std::ops::Range;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::cache::held_bytes;
use super::gather::{Taken, Window, join};
use super::rows::{Rows, Stripe};
use super::source::Area;
use super::{ReadError, Source, cpu};

/// A lane that is being read.
pub(crate) struct Lane {
    source: Arc<Source>,
    spans: mpsc::Receiver<Result<Span, ReadError>>,
    held: Option<Span>,
}

/// What lanes of one stream take turns at.
#[derive(Clone)]
pub(crate) struct Turns {
    /// Windows to read ahead.
    spare: Arc<Semaphore>,
    /// Putting a window in order, which takes memory beside it.
    order: Arc<Semaphore>,
}

/// A stretch of a lane in memory.
enum Span {
    /// Wanted rows in their order, and how many of them were taken.
    Rows { batch: Arc<RecordBatch>, taken: usize },
    /// All rows of a window that begins at a position.
    Window { first: u64, window: Arc<Window> },
}

impl Turns {
    /// For lanes that may decode so many windows ahead, all together.
    pub(crate) fn new(spare: usize) -> Self {
        Self { spare: Arc::new(Semaphore::new(spare)), order: Arc::new(Semaphore::new(1)) }
    }
}

impl Lane {
    /// Reads the positions that `stripe` wants, in order. They are taken without gaps.
    pub(crate) fn straight(
        source: &Arc<Source>,
        tasks: &mut JoinSet<()>,
        area: Area,
        positions: Range<u64>,
        stripe: Stripe,
    ) -> Self {
        let mut rows = Rows::new(Arc::clone(source), area, positions, stripe);
        Self::spawn(source, tasks, |spans| async move {
            // A place in the queue is taken before the batch is made: one waits there, or is in the making.
            while let Ok(place) = spans.reserve().await {
                match rows.next().await? {
                    Some(batch) => place.send(Ok(Span::Rows { batch: Arc::new(batch), taken: 0 })),
                    None => break,
                }
            }
            Ok(())
        })
    }

    /// Reads the windows of a lane, beginning with the one that holds `position`. A window is read when the
    /// one before was dropped, or with a spare one's permit.
    pub(crate) fn windowed(
        source: &Arc<Source>,
        tasks: &mut JoinSet<()>,
        lane: u32,
        position: u64,
        turns: Turns,
    ) -> Self {
        let shared = Arc::clone(source);
        Self::spawn(source, tasks, |spans| async move {
            let own = Arc::new(Semaphore::new(1));
            let mut index = shared.epoch().window_at(position);
            let first = shared.epoch().window(lane, index).positions.start;
            let all = first..shared.epoch().lane_rows(lane);
            let mut rows = Tail::new(Rows::new(Arc::clone(&shared), Area::Lane(lane), all, Stripe::WHOLE));
            loop {
                let slot = either(&own, &turns.spare).await;
                let source = Arc::clone(&shared);
                // Shuffling a window is work, too.
                let plan = cpu::run(move || source.epoch().window(lane, index)).await?;
                let count = plan.positions.end - plan.positions.start;
                if count == 0 {
                    return Ok(());
                }
                let batches = rows.take(count).await?;
                let held = (Some(slot), shared.share().excess(bytes_of(&batches)).await?);
                let window = {
                    let _turn = turns.order.acquire().await;
                    cpu::run(move || Window::new(batches, plan.permutation.as_deref(), held)).await?
                };
                let window = window.map_err(ReadError::Gather)?;
                let span = Span::Window { first: plan.positions.start, window: Arc::new(window) };
                if spans.send(Ok(span)).await.is_err() {
                    return Ok(());
                }
                index += 1;
            }
        })
    }

    /// Reads a stretch of the remainder whole, to be taken in the order of `picks`.
    pub(crate) fn picked(
        source: &Arc<Source>,
        tasks: &mut JoinSet<()>,
        positions: Range<u64>,
        picks: Vec<u32>,
    ) -> Self {
        let count = positions.end - positions.start;
        let rows = Rows::new(Arc::clone(source), Area::Remainder, positions, Stripe::WHOLE);
        Self::spawn(source, tasks, |spans| async move {
            let batches = Tail::new(rows).take(count).await?;
            let window = cpu::run(move || Window::new(batches, Some(&picks), (None, None))).await?;
            let window = window.map_err(ReadError::Gather)?;
            // Nobody takes what nobody waits for.
            let _unwanted = spans.send(Ok(Span::Window { first: 0, window: Arc::new(window) })).await;
            Ok(())
        })
    }

    fn spawn<F>(
        source: &Arc<Source>,
        tasks: &mut JoinSet<()>,
        produce: impl FnOnce(mpsc::Sender<Result<Span, ReadError>>) -> F,
    ) -> Self
    where
        F: Future<Output = Result<(), ReadError>> + Send + 'static,
    {
        let (sender, spans) = mpsc::channel(1);
        let producing = produce(sender.clone());
        let task = async move {
            if let Err(error) = producing.await {
                // Nobody to tell is nobody harmed.
                let _untold = sender.send(Err(error)).await;
            }
        };
        // A child of the stream's own task, which the drain knows by name: it ends with the set.
        tasks.spawn(task.in_current_span());
        Self { source: Arc::clone(source), spans, held: None }
    }

    /// Whether the rows at `positions` can be taken without waiting, as far as that is seen without looking.
    pub(crate) fn has(&self, positions: &Range<u64>) -> bool {
        match &self.held {
            None => false,
            Some(Span::Rows { batch, taken }) => {
                (batch.num_rows() - taken) as u64 >= positions.end - positions.start
            }
            Some(Span::Window { first, window }) => first + window.rows() as u64 >= positions.end,
        }
    }

    /// Takes the rows at `positions`, which lie behind all that were taken before.
    pub(crate) async fn take(
        &mut self,
        positions: Range<u64>,
        into: &mut Vec<Taken>,
    ) -> Result<(), ReadError> {
        let Range { start: mut at, end } = positions;
        while at < end {
            let span = match self.held.take() {
                Some(span) => span,
                None => self.spans.recv().await.unwrap_or(Err(ReadError::Lane))?,
            };
            match span {
                Span::Rows { batch, taken } => {
                    let rows =
                        (batch.num_rows() - taken).min(usize::try_from(end - at).unwrap_or(usize::MAX));
                    into.push(Taken::Rows { batch: Arc::clone(&batch), range: taken..taken + rows });
                    at += rows as u64;
                    if taken + rows < batch.num_rows() {
                        self.held = Some(Span::Rows { batch, taken: taken + rows });
                    }
                }
                Span::Window { first, window } => {
                    let behind = first + window.rows() as u64;
                    if at < behind {
                        let upto = end.min(behind);
                        let range = (at - first) as usize..(upto - first) as usize;
                        into.push(Taken::Picks { window: Arc::clone(&window), range });
                        at = upto;
                        if at == behind && at < end {
                            // The next window waits for this one's bytes: copy out what was taken of it.
                            drop(window);
                            self.settle(into).await?;
                        } else if at < behind {
                            self.held = Some(Span::Window { first, window });
                        }
                    }
                }
            }
        }
        Ok(())
    }

    async fn settle(&self, into: &mut Vec<Taken>) -> Result<(), ReadError> {
        let Some(last) = into.pop_if(|last| matches!(last, Taken::Picks { .. })) else { return Ok(()) };
        let schema = Arc::clone(self.source.schema());
        let copied = cpu::run(move || join(&schema, &[last])).await?;
        into.push(Taken::all(copied.map_err(ReadError::Gather)?));
        Ok(())
    }
}

fn bytes_of(batches: &[RecordBatch]) -> u64 {
    batches.iter().map(held_bytes).sum()
}

/// Rows, cut where windows end.
struct Tail {
    rows: Rows,
    left: Option<RecordBatch>,
}

impl Tail {
    fn new(rows: Rows) -> Self {
        Self { rows, left: None }
    }

    /// The next `count` rows, in batches.
    async fn take(&mut self, mut count: u64) -> Result<Vec<RecordBatch>, ReadError> {
        let mut batches = Vec::new();
        while count > 0 {
            let batch = match self.left.take() {
                Some(batch) => batch,
                None => self.rows.next().await?.ok_or(ReadError::Lane)?,
            };
            let rows = batch.num_rows();
            let fitting = usize::try_from(count).unwrap_or(usize::MAX).min(rows);
            if fitting < rows {
                self.left = Some(batch.slice(fitting, rows - fitting));
            }
            batches.push(batch.slice(0, fitting));
            count -= fitting as u64;
        }
        Ok(batches)
    }
}

async fn either(own: &Arc<Semaphore>, spare: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    let permit = tokio::select! {
        biased;
        permit = Arc::clone(own).acquire_owned() => permit,
        permit = Arc::clone(spare).acquire_owned() => permit,
    };
    permit.expect("slots are never closed")
}
