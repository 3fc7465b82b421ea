//! The steps of a rank over several datasets, one after the other, part by part.
//!
//! In: what to read of every component, the mixture's plan, the rank's positions and the step to begin with. Out:
//! for every step its parts, the rows of all components by the pattern. The promise: that of
//! [`Steps`](super::Steps), for each component through its own epochs; a row is copied once, when a part is put
//! together. It holds no row from one part to the next, so no component waits for another's memory.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use penstock_proto::Effort;

use super::gather::{Gathered, Taken};
use super::{ReadError, Reading, Steps};
use crate::plan::MixturePlan;

/// A rank's walk through an epoch of a mixture. Dropping it ends all that was decoding ahead.
pub(crate) struct MixedSteps {
    plan: Arc<MixturePlan>,
    /// The rank's positions in every global batch.
    share: Range<u64>,
    schema: SchemaRef,
    part_rows: u64,
    /// Those that have rows in the share; none at the epoch's end.
    components: Vec<Component>,
    step: u64,
    /// Where the next part begins.
    position: u64,
}

/// Whose rows come at some positions of a batch.
pub(super) struct Pattern {
    plan: Arc<MixturePlan>,
    positions: Range<u64>,
    /// Where each component's first row lies among those taken.
    first: Vec<usize>,
}

/// A component at a step of its own.
struct Component {
    /// Its number in the mixture.
    number: usize,
    reading: Reading,
    epoch: u64,
    steps: Steps,
}

impl MixedSteps {
    /// Begins at `step` of an epoch of the mixture. The components that have rows in the share come with their
    /// numbers.
    pub(crate) async fn open(
        plan: Arc<MixturePlan>,
        share: Range<u64>,
        schema: SchemaRef,
        part_rows: u64,
        readings: Vec<(usize, Reading)>,
        (epoch, step): (u64, u64),
    ) -> Result<Self, ReadError> {
        let mut components = Vec::with_capacity(readings.len());
        if step < plan.steps() {
            for (number, reading) in readings {
                let (epoch, step) = plan.locate(number, epoch, step);
                let steps = reading.open(epoch, step, false, Vec::new()).await?;
                components.push(Component { number, reading, epoch, steps });
            }
        }
        let position = share.start;
        Ok(Self { plan, share, schema, part_rows, components, step, position })
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
        self.position == self.share.start
    }

    /// As [`Steps::take_effort`], of all components.
    pub(crate) fn take_effort(&mut self) -> Effort {
        let efforts = self.components.iter_mut().map(|component| component.steps.take_effort());
        efforts.fold(Effort::default(), Effort::plus)
    }

    /// As [`Steps::is_at_hand`], of all components.
    pub(crate) fn is_at_hand(&self) -> bool {
        self.step < self.plan.steps() && self.components.iter().all(|component| component.steps.is_at_hand())
    }

    /// The next part; `None` after the last step's last.
    pub(crate) async fn next(&mut self) -> Result<Option<Gathered>, ReadError> {
        if self.step >= self.plan.steps() {
            return Ok(None);
        }
        if self.is_between_steps() {
            for component in &mut self.components {
                component.go_on().await?;
            }
        }
        let upto = self.share.end.min(self.position.saturating_add(self.part_rows));
        let before = self.plan.quotas().before(self.position);
        let behind = self.plan.quotas().before(upto);
        let (mut taken, mut rows) = (Vec::new(), 0);
        let mut first = vec![0; before.len()];
        for component in &mut self.components {
            let count = behind[component.number] - before[component.number];
            first[component.number] = rows as usize;
            component.take(count, &mut taken).await?;
            rows += count;
        }
        let step = self.step;
        let pattern = Some(Pattern { plan: Arc::clone(&self.plan), positions: self.position..upto, first });
        let more = (self.share.end - upto).div_ceil(self.part_rows);
        self.position = upto;
        if upto == self.share.end {
            self.position = self.share.start;
            self.step += 1;
        }
        let schema = Arc::clone(&self.schema);
        Ok(Some(Gathered { step, more, rows, taken, pattern, valid_rows: None, schema }))
    }
}

impl Pattern {
    /// Which of the rows taken comes at each position.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut next = self.first.clone();
        let row = |turn: usize| {
            next[turn] += 1;
            next[turn] - 1
        };
        self.plan.quotas().turns(self.positions.clone()).map(row).collect()
    }
}

impl Component {
    /// Begins its next epoch where this one is over. What was read of it has been handed out by then, so the
    /// memory is free for the new one.
    async fn go_on(&mut self) -> Result<(), ReadError> {
        if self.steps.step() == self.reading.steps() {
            self.epoch = self.epoch.wrapping_add(1);
            self.steps = self.reading.open(self.epoch, 0, false, Vec::new()).await?;
        }
        Ok(())
    }

    /// Takes the next rows of its part of the step.
    async fn take(&mut self, rows: u64, into: &mut Vec<Taken>) -> Result<(), ReadError> {
        if rows == 0 {
            return Ok(());
        }
        let part = self.steps.take(rows).await?.filter(|part| part.rows == rows);
        into.extend(part.ok_or(ReadError::Lane)?.taken);
        Ok(())
    }
}
