//! The steps of a rank, one after the other, part by part.
//!
//! In: a source, a partition and the step to begin with. Out: for every step its parts, rows in order.
//! The promise: every row of the partition from that step on, once; each part is at most as many rows as
//! [`Need::part_rows`](super::Need::part_rows), or as are asked for.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use penstock_proto::feed::VALID_COLUMN;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::gather::Gathered;
use super::lane::Lane;
use super::rows::Stripe;
use super::source::Area;
use super::{ReadError, Source};
use crate::partition::{Partition, Piece, RemainderShare, StepShare};

/// A rank's walk through an epoch. Dropping it ends all that was decoding ahead.
pub(crate) struct Steps {
    source: Arc<Source>,
    partition: Partition,
    schema: SchemaRef,
    pad: bool,
    /// In the order of the partition's lanes; once the remainder is reached, that alone.
    lanes: Vec<Lane>,
    tasks: JoinSet<()>,
    step: u64,
    current: Option<Current>,
}

/// A step that is being handed out.
struct Current {
    rows: u64,
    valid_rows: u64,
    /// Which lane, and which of its positions.
    pieces: VecDeque<(usize, Range<u64>)>,
}

impl Steps {
    /// Begins at `first`. With `pad` a bool column tells which rows are no padding.
    pub(crate) fn new(source: Arc<Source>, partition: Partition, first: u64, pad: bool) -> Self {
        let schema = if pad { with_valid(source.schema()) } else { Arc::clone(source.schema()) };
        let mut tasks = JoinSet::new();
        let spare = Arc::new(Semaphore::new(source.share().spare_windows()));
        let lanes = match partition.step(first) {
            Some(StepShare::Lanes(pieces)) => {
                pieces.into_iter().map(|piece| open_lane(&source, &mut tasks, piece, first, &spare)).collect()
            }
            Some(StepShare::Remainder(_)) | None => Vec::new(),
        };
        Self { source, partition, schema, pad, lanes, tasks, step: first, current: None }
    }

    /// The schema of every batch.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The step that the next part belongs to.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    /// Whether the next part is the first of its step.
    pub(crate) fn is_between_steps(&self) -> bool {
        self.current.is_none()
    }

    /// The next part; `None` after the last step's last.
    pub(crate) async fn next(&mut self) -> Result<Option<Gathered>, ReadError> {
        self.take(self.source.need().part_rows).await
    }

    /// The next part, of so many rows if the step has as many left.
    pub(crate) async fn take(&mut self, part_rows: u64) -> Result<Option<Gathered>, ReadError> {
        let Some(mut current) = self.current.take().or_else(|| self.begin()) else { return Ok(None) };
        let step = self.step;
        let rows = current.rows.min(part_rows);
        let mut taken = Vec::new();
        let mut wanted = rows;
        while wanted > 0
            && let Some((lane, positions)) = current.pieces.pop_front()
        {
            let upto = positions.end.min(positions.start + wanted);
            self.lanes[lane].take(positions.start..upto, &mut taken).await?;
            wanted -= upto - positions.start;
            if upto < positions.end {
                current.pieces.push_front((lane, upto..positions.end));
            }
        }
        let valid_rows = current.valid_rows.min(rows);
        current.rows -= rows;
        current.valid_rows -= valid_rows;
        let more = current.rows.div_ceil(part_rows);
        if current.rows > 0 {
            self.current = Some(current);
        } else {
            self.step += 1;
        }
        let valid_rows = self.pad.then_some(valid_rows);
        Ok(Some(Gathered {
            step,
            more,
            rows,
            taken,
            pattern: None,
            valid_rows,
            schema: Arc::clone(&self.schema),
        }))
    }

    fn begin(&mut self) -> Option<Current> {
        let share = self.partition.step(self.step)?;
        let (rows, valid_rows) = (share.rows(), share.valid_rows());
        let pieces = match share {
            StepShare::Lanes(pieces) => pieces.into_iter().map(|piece| piece.positions).enumerate().collect(),
            StepShare::Remainder(share) => {
                self.lanes = vec![self.open_remainder(&share)];
                VecDeque::from([(0, 0..rows)])
            }
        };
        Some(Current { rows, valid_rows, pieces })
    }

    fn open_remainder(&mut self, share: &RemainderShare) -> Lane {
        let positions = share.source();
        let is_straight = positions.end - positions.start == share.rows();
        if is_straight && share.picks().next().unwrap_or(0) == 0 {
            let area = Area::Remainder;
            return Lane::straight(&self.source, &mut self.tasks, area, positions, Stripe::WHOLE);
        }
        let picks =
            share.picks().map(|row| u32::try_from(row).expect("a batch has below 2^32 rows")).collect();
        Lane::picked(&self.source, &mut self.tasks, positions, picks)
    }
}

fn open_lane(
    source: &Arc<Source>,
    tasks: &mut JoinSet<()>,
    piece: Piece,
    step: u64,
    spare: &Arc<Semaphore>,
) -> Lane {
    let Piece { lane, positions } = piece;
    if source.need().has_windows {
        return Lane::windowed(source, tasks, lane, positions.start, Arc::clone(spare));
    }
    let run = source.epoch().run(lane, step);
    let stripe =
        Stripe { width: run.end - run.start, part: positions.start - run.start..positions.end - run.start };
    let all = positions.start..source.epoch().lane_rows(lane);
    Lane::straight(source, tasks, Area::Lane(lane), all, stripe)
}

/// A schema and the column that tells padding apart.
pub(crate) fn with_valid(schema: &SchemaRef) -> SchemaRef {
    let mut fields = schema.fields().to_vec();
    fields.push(Arc::new(Field::new(VALID_COLUMN, DataType::Boolean, false)));
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}
