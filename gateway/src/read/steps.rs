//! The steps of a rank, one after the other, part by part.
//!
//! In: a source, a partition and the step to begin with. Out: for every step its parts, rows in order.
//! The promise: every row of the partition from that step on, once; each part is at most as many rows as
//! [`Need::part_rows`](super::Need::part_rows), or as are asked for. Lanes that come from another gateway are decoded
//! here from the row on that did not come, until they come again from the beginning of a step.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use penstock_proto::Effort;
use penstock_proto::feed::VALID_COLUMN;
use tokio::task::JoinSet;

use super::gather::{Gathered, Taken};
use super::lane::{Lane, Turns};
use super::pulled::Pulled;
use super::rows::Stripe;
use super::source::Area;
use super::{Need, ReadError, Source};
use crate::partition::{Partition, Piece, RemainderShare, StepShare};

/// A rank's walk through an epoch. Dropping it ends all that was decoding ahead.
pub(crate) struct Steps {
    source: Arc<Source>,
    partition: Partition,
    schema: SchemaRef,
    pad: bool,
    /// In the order of the partition's lanes; once the remainder is reached, that alone.
    lanes: Vec<Origin>,
    /// What [`Origin::Elsewhere`] points at, and lanes that came from elsewhere once.
    pulled: Vec<Pulled>,
    tasks: JoinSet<()>,
    /// Of the lanes that are read here.
    turns: Turns,
    step: u64,
    current: Option<Current>,
    /// How long lanes that are decoded here were waited for since that was asked last.
    waited: Duration,
}

/// Where a lane's rows come from.
enum Origin {
    Here(Lane),
    Elsewhere(usize),
}

/// A step that is being handed out.
struct Current {
    rows: u64,
    valid_rows: u64,
    /// Which lane, and which of its positions.
    pieces: VecDeque<(usize, Range<u64>)>,
}

impl Steps {
    /// Begins at `first`. With `pad` a bool column tells which rows are no padding. What is `pulled` is of the
    /// partition's lanes, and begins there, too.
    pub(crate) fn new(
        source: Arc<Source>,
        partition: Partition,
        first: u64,
        pad: bool,
        pulled: Vec<Pulled>,
    ) -> Self {
        let schema = if pad { with_valid(source.schema()) } else { Arc::clone(source.schema()) };
        let mut tasks = JoinSet::new();
        let turns = Turns::new(source.share().spare_windows());
        let elsewhere =
            |lane| pulled.iter().position(|of| of.is_coming() && of.lanes().binary_search(&lane).is_ok());
        let lanes = match partition.step(first) {
            Some(StepShare::Lanes(pieces)) => pieces
                .into_iter()
                .map(|piece| match elsewhere(piece.lane) {
                    Some(place) => Origin::Elsewhere(place),
                    None => {
                        let from = piece.positions.start;
                        Origin::Here(open_lane(&source, &mut tasks, piece, first, from, &turns))
                    }
                })
                .collect(),
            Some(StepShare::Remainder(_)) | None => Vec::new(),
        };
        let waited = Duration::ZERO;
        Self {
            source,
            partition,
            schema,
            pad,
            lanes,
            pulled,
            tasks,
            turns,
            step: first,
            current: None,
            waited,
        }
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

    /// What the parts cost that were taken since this was called last, as far as they were waited for. What others
    /// decode costs them.
    pub(crate) fn take_effort(&mut self) -> Effort {
        self.source.spent().take().scaled_to(std::mem::take(&mut self.waited))
    }

    /// Whether the next part can be taken without waiting, as far as that is seen without looking.
    pub(crate) fn is_at_hand(&self) -> bool {
        let has = |place: usize, positions: &Range<u64>| match &self.lanes[place] {
            Origin::Here(lane) => lane.has(positions),
            Origin::Elsewhere(_) => false,
        };
        if let Some(current) = &self.current {
            return current.pieces.iter().all(|(place, positions)| has(*place, positions));
        }
        match self.partition.step(self.step) {
            Some(StepShare::Lanes(pieces)) => {
                pieces.iter().enumerate().all(|(place, piece)| has(place, &piece.positions))
            }
            Some(StepShare::Remainder(_)) | None => false,
        }
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
            self.take_of(lane, positions.start..upto, &mut taken).await?;
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

    /// Takes rows of the lane at a place.
    async fn take_of(
        &mut self,
        place: usize,
        positions: Range<u64>,
        into: &mut Vec<Taken>,
    ) -> Result<(), ReadError> {
        let Range { start: mut at, end } = positions;
        if let Origin::Elsewhere(pulled) = self.lanes[place] {
            at += self.pulled[pulled].take(end - at, into).await;
            if at == end {
                return Ok(());
            }
            self.decode_here(pulled, place, at);
        }
        match &mut self.lanes[place] {
            Origin::Here(lane) => {
                let asked = Instant::now();
                let taken = lane.take(at..end, into).await;
                self.waited += asked.elapsed();
                taken
            }
            Origin::Elsewhere(_) => Err(ReadError::Lane),
        }
    }

    /// Opens lanes that come from elsewhere no more, each at the first row that did not come. The lane at `place`
    /// is being taken from and has come up to `position`; those before it gave their rows of this step, those
    /// behind it did not.
    fn decode_here(&mut self, pulled: usize, place: usize, position: u64) {
        self.pulled[pulled].fall_back(self.step);
        for other in 0..self.lanes.len() {
            if !matches!(self.lanes[other], Origin::Elsewhere(of) if of == pulled) {
                continue;
            }
            let step = if other < place { self.step + 1 } else { self.step };
            if !matches!(self.partition.step(step), Some(StepShare::Lanes(_))) {
                continue;
            }
            let piece = self.partition.piece(other, step);
            let from = if other == place { position } else { piece.positions.start };
            let lane = open_lane(&self.source, &mut self.tasks, piece, step, from, &self.turns);
            self.lanes[other] = Origin::Here(lane);
        }
    }

    /// Decodes lanes here no more that come from elsewhere again from this step on.
    fn pull_again(&mut self) {
        let share = self.source.share();
        for (place, pulled) in self.pulled.iter_mut().enumerate() {
            let bytes = pulled_bytes(share.need(), pulled.lanes().len());
            if !pulled.is_back(self.step, || share.room_to_lend(bytes)) {
                continue;
            }
            for (lane, origin) in self.partition.lanes().zip(&mut self.lanes) {
                if pulled.lanes().binary_search(&lane).is_ok() {
                    *origin = Origin::Elsewhere(place);
                }
            }
        }
    }

    fn begin(&mut self) -> Option<Current> {
        self.pull_again();
        let share = self.partition.step(self.step)?;
        let (rows, valid_rows) = (share.rows(), share.valid_rows());
        let pieces = match share {
            StepShare::Lanes(pieces) => pieces.into_iter().map(|piece| piece.positions).enumerate().collect(),
            StepShare::Remainder(share) => {
                self.lanes = vec![Origin::Here(self.open_remainder(&share))];
                self.pulled.clear();
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

/// What so many lanes may hold that come from elsewhere: of each two batches.
pub(crate) fn pulled_bytes(need: &Need, lanes: usize) -> u64 {
    need.batch_bytes.saturating_mul(2 * lanes as u64)
}

/// Reads a lane, of which `piece` is wanted of `step`, beginning at the position `from` of it.
fn open_lane(
    source: &Arc<Source>,
    tasks: &mut JoinSet<()>,
    piece: Piece,
    step: u64,
    from: u64,
    turns: &Turns,
) -> Lane {
    let Piece { lane, positions } = piece;
    if source.need().has_windows {
        return Lane::windowed(source, tasks, lane, from, turns.clone());
    }
    let run = source.epoch().run(lane, step);
    let stripe =
        Stripe { width: run.end - run.start, part: positions.start - run.start..positions.end - run.start };
    let all = from..source.epoch().lane_rows(lane);
    Lane::straight(source, tasks, Area::Lane(lane), all, stripe)
}

/// A schema and the column that tells padding apart.
pub(crate) fn with_valid(schema: &SchemaRef) -> SchemaRef {
    let mut fields = schema.fields().to_vec();
    fields.push(Arc::new(Field::new(VALID_COLUMN, DataType::Boolean, false)));
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}
