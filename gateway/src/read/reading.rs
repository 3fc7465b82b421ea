//! What a rank reads of a dataset, whatever the epoch.
//!
//! In: a snapshot, columns, a plan, a rank's partition of it and the memory to read in. Out: the steps of any epoch
//! from any step on. The promise: one epoch after the other is read in the same memory.

use std::sync::Arc;

use super::{Passing, Pulled, ReadError, Share, Source, Steps, View, cpu};
use crate::dataset::{Projection, Snapshot};
use crate::partition::Partition;
use crate::plan::Plan;

pub(crate) struct Reading {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) projection: Projection,
    pub(crate) plan: Arc<Plan>,
    pub(crate) passing: Option<Passing>,
    pub(crate) view: View,
    pub(crate) partition: Partition,
    pub(crate) share: Arc<Share>,
}

impl Reading {
    /// Steps of every epoch.
    pub(crate) fn steps(&self) -> u64 {
        self.partition.steps()
    }

    /// Begins at a step of an epoch. With `pad` a bool column tells which rows are no padding. What is `pulled` is
    /// of the partition's lanes, and begins there, too.
    pub(crate) async fn open(
        &self,
        epoch: u64,
        step: u64,
        pad: bool,
        pulled: Vec<Pulled>,
    ) -> Result<Steps, ReadError> {
        let plan = Arc::clone(&self.plan);
        // Permuting blocks is work, too.
        let order = cpu::run(move || plan.epoch(epoch)).await?;
        let (snapshot, projection) = (Arc::clone(&self.snapshot), self.projection.clone());
        let (passing, view, share) = (self.passing.clone(), self.view.clone(), Arc::clone(&self.share));
        let source = Arc::new(Source::new(snapshot, projection, order, passing, view, share));
        Ok(Steps::new(source, self.partition.clone(), step, pad, pulled))
    }
}
