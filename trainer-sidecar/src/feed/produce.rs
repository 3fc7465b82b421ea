//! Steps into slots: makes the ring, and fills it as long as there are steps and free slots.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use arrow::array::RecordBatch;
use penstock_daemon::Lease;
use penstock_proto::{Code, Error};
use penstock_ring::{
    BatchHeader, ColumnSpec, FreeSlot, Ring, SlotId, SlotLayout, SlotWriter, ToTrainer, WriteError,
};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::connection::Connection;
use super::outlet::Outlet;
use super::reader::{self, Item};
use super::start::Start;
use super::{House, size};
use crate::batcher::{Meter, Step};
use crate::metrics;
use crate::pack::{PackError, PackPlan};
use crate::request::Request;

/// Runs a feed from its request to its last step.
///
/// # Errors
/// Whatever ends it early.
pub(super) async fn run(
    connection: &Connection,
    house: &Arc<House>,
    request: Request,
    outlet: &Outlet,
) -> Result<(), Error> {
    let start = Start::new(house, request).await?;
    let description = start.description();
    let plan = Arc::clone(&start.plan);
    let rows_per_step = start.request.rows_per_step();
    let said_memory = start.request.memory.is_some();
    let mut memory = Memory::lease(house, start.memory).await?;

    let meter = Meter::new(start.memory / 2);
    let (sender, mut queue) = mpsc::unbounded_channel();
    let reading = house.drain.spawn("reader", reader::read(start, meter.clone(), sender));
    let _reading = AbortOnDropHandle::new(reading);

    let first = next(&mut queue).await?;
    let slot_bytes = slot_bytes(&plan, rows_per_step, first.as_ref())?;
    if !said_memory {
        memory.grow(house, size::needed(slot_bytes)).await?;
    }
    let division =
        size::divide(memory.bytes, slot_bytes).ok_or_else(|| too_small(slot_bytes, memory.bytes))?;
    meter.set_limit(division.queue);
    let ring = Ring::create(division.slots, slot_bytes, &description)
        .map_err(|error| Error::chain(Code::Busy, &error))?;
    let ring = outlet.install(ring);
    let fd = ring.fd().try_clone_to_owned().map_err(|error| lost(&error))?;
    let opened = ToTrainer::Opened { slots: ring.slots(), slot_bytes: ring.slot_bytes() };
    connection.send(&opened, Some(&fd)).await.map_err(|error| lost(&error))?;
    drop(fd);
    tracing::info!(slots = ring.slots(), slot_bytes = ring.slot_bytes(), "feed opened");

    let mut step = first;
    while let Some(ready) = step {
        let asked = Instant::now();
        let slot = outlet.free_slot(ring).await;
        metrics::feed_waited(asked.elapsed());
        hand_over(connection, house, outlet, &plan, slot, ready).await?;
        let asked = Instant::now();
        step = next(&mut queue).await?;
        if outlet.with_trainer() <= 1 {
            metrics::trainer_waited(asked.elapsed());
        }
    }
    connection.send(&ToTrainer::End, None).await.map_err(|error| lost(&error))?;
    tracing::info!("feed complete");
    Ok(())
}

async fn next(queue: &mut UnboundedReceiver<Item>) -> Result<Option<Step>, Error> {
    let broke = || Error::new(Code::Internal, "the feed's reader broke: the sidecar's log has more");
    queue.recv().await.ok_or_else(broke)?
}

/// Bytes of a slot. Exact where all columns are numbers; else texts are taken to be as long as those of
/// the first step, and a quarter more. A batch that is larger all the same gets memory of its own.
fn slot_bytes(plan: &PackPlan, rows: u64, first: Option<&Step>) -> Result<u64, Error> {
    let specs = plan.columns().iter().map(|column| {
        let seen = first.map_or(0, |step| {
            let bytes = u128::from(column.text_bytes(&step.parts));
            u64::try_from(bytes * u128::from(rows) / u128::from(step.rows.max(1))).unwrap_or(u64::MAX)
        });
        column.spec(rows, seen.saturating_add(seen / 4))
    });
    let layout = SlotLayout::plan(&specs.collect::<Vec<_>>())
        .map_err(|error| Error::chain(Code::InvalidFeed, &error))?;
    // The ring rounds up to pages; so does the account.
    Ok(layout.bytes().next_multiple_of(4096))
}

fn too_small(slot_bytes: u64, memory: u64) -> Error {
    let needed = size::needed(slot_bytes);
    Error::new(
        Code::InvalidFeed,
        format!(
            "a step of this rank takes {slot_bytes} bytes and the feed has {memory}: give it at least {needed} with memory=, or lower batch_size"
        ),
    )
}

/// Packs a step into its slot on a CPU thread and tells the trainer.
async fn hand_over(
    connection: &Connection,
    house: &Arc<House>,
    outlet: &Outlet,
    plan: &Arc<PackPlan>,
    slot: FreeSlot,
    step: Step,
) -> Result<(), Error> {
    let (epoch, number, rows) = (step.epoch, step.step, step.rows);
    let packing = Packing { plan: Arc::clone(plan), slot, step };
    let (slot, bytes, memory, lease) = match on_cpu(move || packing.pack()).await? {
        Packed::Done { slot, bytes } => (slot, bytes, None, None),
        Packed::TooLarge { packing, specs, needed } => {
            let lease = Memory::lease_for(house, needed).await?;
            let (slot, memory) = on_cpu(move || packing.outgrow(&specs)).await?;
            (slot, needed, Some(memory), Some(lease))
        }
    };
    outlet.hand_out(slot, lease);
    metrics::handed_out(rows, bytes);
    let batch = ToTrainer::Batch { slot, epoch, step: number };
    connection.send(&batch, memory.as_ref()).await.map_err(|error| lost(&error))
}

async fn on_cpu<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let span = tracing::Span::current();
    let done = tokio::task::spawn_blocking(move || span.in_scope(work)).await;
    done.map_err(|error| Error::chain(Code::Internal, &error))?
}

/// A step on its way into a slot.
struct Packing {
    plan: Arc<PackPlan>,
    slot: FreeSlot,
    step: Step,
}

enum Packed {
    /// The slot is the trainer's.
    Done { slot: SlotId, bytes: u64 },
    /// The batch needs memory of its own.
    TooLarge { packing: Packing, specs: Vec<ColumnSpec>, needed: u64 },
}

impl Packing {
    fn pack(mut self) -> Result<Packed, Error> {
        let Step { epoch, step, parts, .. } = &self.step;
        let specs = self
            .plan
            .specs(*epoch, *step, parts)
            .map_err(|error: PackError| Error::chain(error.code(), &error))?;
        let bytes = SlotLayout::plan(&specs).map_err(|error| Error::chain(Code::Internal, &error))?.bytes();
        match self.slot.writer(self.header(), &specs) {
            Ok(writer) => fill(&self.plan, parts, writer),
            Err(WriteError::TooLarge { needed, .. }) => {
                return Ok(Packed::TooLarge { packing: self, specs, needed });
            }
            Err(error) => return Err(Error::chain(Code::Internal, &error)),
        }
        Ok(Packed::Done { slot: self.slot.hand_out(), bytes })
    }

    fn outgrow(self, specs: &[ColumnSpec]) -> Result<(SlotId, OwnedFd), Error> {
        let header = self.header();
        let no_memory = |error: WriteError| Error::chain(Code::Busy, &error);
        let mut oversize = self.slot.outgrow(header, specs).map_err(no_memory)?;
        fill(&self.plan, &self.step.parts, oversize.writer().map_err(no_memory)?);
        Ok(oversize.hand_out())
    }

    fn header(&self) -> BatchHeader {
        BatchHeader { epoch: self.step.epoch, step: self.step.step, rows: self.step.rows }
    }
}

fn fill(plan: &PackPlan, parts: &[RecordBatch], mut writer: SlotWriter<'_>) {
    for (column, place) in plan.columns().iter().zip(writer.columns()) {
        column.write(parts, place.data, place.offsets);
    }
}

/// The trainer's connection broke while it was spoken to.
fn lost(error: &io::Error) -> Error {
    Error::chain(Code::Cancelled, error)
}

/// What a feed has leased of the sidecar's memory.
struct Memory {
    bytes: u64,
    _leases: Vec<Lease>,
}

impl Memory {
    async fn lease(house: &House, bytes: u64) -> Result<Self, Error> {
        Ok(Self { bytes, _leases: vec![Self::lease_for(house, bytes).await?] })
    }

    /// Leases what is missing up to `bytes`.
    async fn grow(&mut self, house: &House, bytes: u64) -> Result<(), Error> {
        if bytes > self.bytes {
            self._leases.push(Self::lease_for(house, bytes - self.bytes).await?);
            self.bytes = bytes;
        }
        Ok(())
    }

    async fn lease_for(house: &House, bytes: u64) -> Result<Lease, Error> {
        let (total, leased) = (house.budget.total(), house.budget.leased());
        let busy = || {
            Error::new(
                Code::Busy,
                format!(
                    "the feed needs {bytes} bytes of memory, and of the sidecar's {total} other feeds and batches hold {leased}: close some, give them less with memory=, or raise the sidecar's --memory"
                ),
            )
        };
        if bytes > total {
            return Err(busy());
        }
        let lease = timeout(house.deadlines.memory, house.budget.lease(bytes)).await.map_err(|_| busy())?;
        metrics::memory(house.budget.leased());
        Ok(lease)
    }
}
