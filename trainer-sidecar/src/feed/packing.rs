//! One step into one slot, on a CPU thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use arrow::array::RecordBatch;
use penstock_proto::{Code, Error};
use penstock_ring::{BatchHeader, ColumnSpec, FreeSlot, SlotId, SlotLayout, SlotWriter, WriteError};

use super::House;
use super::memory::Leased;
use crate::batcher::Step;
use crate::cpu::on_cpu;
use crate::pack::PackPlan;

/// A batch in shared memory. Its slot is the trainer's already.
pub(super) struct Packed {
    pub(super) slot: SlotId,
    /// Of the whole batch.
    pub(super) bytes: u64,
    /// Of a batch that is larger than its slot.
    pub(super) own_memory: Option<(OwnedFd, Leased)>,
}

/// Packs a step. One that is larger than the slot gets memory of its own, leased for as long as the
/// trainer holds the slot.
///
/// # Errors
/// A null that nothing was said about, or no memory.
pub(super) async fn pack(
    house: &House,
    plan: Arc<PackPlan>,
    slot: FreeSlot,
    step: Step,
) -> Result<Packed, Error> {
    let packing = Packing { plan, slot, step };
    match on_cpu(move || packing.pack()).await? {
        Outcome::Packed(packed) => Ok(packed),
        Outcome::TooLarge { packing, specs, bytes } => {
            let leased = Leased::new(house, bytes).await?;
            on_cpu(move || packing.outgrow(&specs, leased)).await
        }
    }
}

struct Packing {
    plan: Arc<PackPlan>,
    slot: FreeSlot,
    step: Step,
}

enum Outcome {
    Packed(Packed),
    TooLarge { packing: Packing, specs: Vec<ColumnSpec>, bytes: u64 },
}

impl Packing {
    fn pack(mut self) -> Result<Outcome, Error> {
        let Step { epoch, step, parts, .. } = &self.step;
        let specs = self.plan.specs(*epoch, *step, parts);
        let specs = specs.map_err(|error| Error::chain(error.code(), &error))?;
        let bytes = SlotLayout::plan(&specs).map_err(|error| Error::chain(Code::Internal, &error))?.bytes();
        match self.slot.writer(header(&self.step), &specs) {
            Ok(writer) => fill(&self.plan, parts, writer),
            Err(WriteError::TooLarge { .. }) => {
                return Ok(Outcome::TooLarge { packing: self, specs, bytes });
            }
            Err(error) => return Err(Error::chain(Code::Internal, &error)),
        }
        Ok(Outcome::Packed(Packed { slot: self.slot.hand_out(), bytes, own_memory: None }))
    }

    fn outgrow(self, specs: &[ColumnSpec], leased: Leased) -> Result<Packed, Error> {
        let no_memory = |error: WriteError| Error::chain(Code::Busy, &error);
        let mut oversize = self.slot.outgrow(header(&self.step), specs).map_err(no_memory)?;
        let bytes = oversize.bytes();
        fill(&self.plan, &self.step.parts, oversize.writer().map_err(no_memory)?);
        let (slot, memory) = oversize.hand_out();
        Ok(Packed { slot, bytes, own_memory: Some((memory, leased)) })
    }
}

fn header(step: &Step) -> BatchHeader {
    BatchHeader { epoch: step.epoch, step: step.step, rows: step.rows }
}

fn fill(plan: &PackPlan, parts: &[RecordBatch], mut writer: SlotWriter<'_>) {
    for (column, place) in plan.columns().iter().zip(writer.columns()) {
        column.write(parts, place.data, place.offsets);
    }
}
