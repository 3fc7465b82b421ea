//! Steps into slots: makes the ring, and fills it as long as there are steps and free slots.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use penstock_proto::{Code, Error};
use penstock_ring::{FreeSlot, Ring, SlotLayout, ToTrainer};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::connection::Connection;
use super::memory::{Leased, RAISE};
use super::outlet::Outlet;
use super::reader::{self, Item};
use super::start::Start;
use super::{House, packing, rounds, size};
use crate::account::{Waits, Way};
use crate::batcher::{Meter, Step};
use crate::metrics;
use crate::pack::PackPlan;
use crate::request::Request;
use crate::subscribe::Notices;

/// Runs a feed from its request to its last step.
///
/// # Errors
/// Whatever ends it early.
pub(super) async fn run(
    connection: &Connection,
    house: &House,
    request: Request,
    outlet: &Outlet,
    notices: Notices,
) -> Result<(), Error> {
    let start = Start::new(house, request, notices).await?;
    let told = start.plan.check_nulls(&start.subscription.info.nulls);
    told.map_err(|error| Error::chain(error.code(), &error))?;
    match start.request.acknowledgement.clone() {
        None => {
            let wanted = start.wanted();
            let source = open(connection, house, start, outlet, &wanted).await?;
            hand_over_all(connection, house, outlet, source, &wanted).await?;
        }
        Some(how) => rounds::run(connection, house, start, outlet, &how).await?,
    }
    connection.send(&ToTrainer::End, None).await.map_err(|error| lost(&error))?;
    tracing::info!("feed complete");
    Ok(())
}

/// Which steps of those that are read are to be handed over.
pub(super) type Wanted<'a> = dyn Fn(&Step) -> bool + Sync + 'a;

/// Hands over what a source brings, to its end; gives the means to read more.
pub(super) async fn hand_over_all(
    connection: &Connection,
    house: &House,
    outlet: &Outlet,
    mut source: Source,
    wanted: &Wanted<'_>,
) -> Result<Means, Error> {
    while let Some(step) = source.step.take() {
        let received = Instant::now();
        let slot = outlet.free_slot().await;
        metrics::feed_waited(received.elapsed());
        hand_over(connection, house, outlet, &source.means.plan, slot, step, received).await?;
        source.step = next(&mut source.queue, wanted).await?;
    }
    Ok(source.means)
}

/// Steps to be packed. Dropped, it stops the reader.
pub(super) struct Source {
    step: Option<Step>,
    queue: UnboundedReceiver<Item>,
    means: Means,
    _reading: AbortOnDropHandle<()>,
}

/// What a feed reads and packs with.
pub(super) struct Means {
    start: Start,
    plan: Arc<PackPlan>,
    meter: Meter,
}

impl Means {
    /// Reads from another step on.
    ///
    /// # Errors
    /// The first step that is wanted is not to be had.
    pub(super) async fn read_from(
        self,
        house: &House,
        (epoch, step): (u64, u64),
        wanted: &Wanted<'_>,
    ) -> Result<Source, Error> {
        let Self { start, plan, meter } = self;
        Source::begin(house, start.at(epoch, step), plan, meter, wanted).await
    }
}

impl Source {
    async fn begin(
        house: &House,
        start: Start,
        plan: Arc<PackPlan>,
        meter: Meter,
        wanted: &Wanted<'_>,
    ) -> Result<Self, Error> {
        let (sender, mut queue) = mpsc::unbounded_channel();
        let reading = house.drain.spawn("reader", reader::read(start.clone(), meter.clone(), sender));
        let reading = AbortOnDropHandle::new(reading);
        let step = next(&mut queue, wanted).await?;
        Ok(Self { step, queue, means: Means { start, plan, meter }, _reading: reading })
    }
}

/// Starts to read, makes a ring after the first step's measure, and gives it to the trainer.
pub(super) async fn open(
    connection: &Connection,
    house: &House,
    mut start: Start,
    outlet: &Outlet,
    wanted: &Wanted<'_>,
) -> Result<Source, Error> {
    let description = start.description();
    let plan = Arc::clone(&start.plan);
    let rows_per_step = start.request.rows_per_step();
    let most_memory = start.most_memory;
    let shares = start.request.share.count();
    let account = house.accounts.of(&start.request.name, start.request.rank);
    let mut memory = Leased::up_to(house, start.memory).await?;
    start.link.window = size::window(memory.bytes());

    let meter = Meter::new(memory.bytes() / 2);
    let source = Source::begin(house, start, Arc::clone(&plan), meter.clone(), wanted).await?;
    let slot_bytes = slot_bytes(&plan, rows_per_step, source.step.as_ref())?;
    let needed = size::needed(slot_bytes);
    if needed > most_memory {
        return Err(too_small(slot_bytes, most_memory, shares, house.budget.total()));
    }
    for better in [size::easy(slot_bytes), size::fair(slot_bytes)] {
        memory.grow_if_free(better.min(most_memory));
    }
    memory.grow_to(house, needed).await?;
    let division = size::divide(memory.bytes(), slot_bytes)
        .ok_or_else(|| too_small(slot_bytes, memory.bytes(), shares, house.budget.total()))?;
    meter.set_limit(division.queue);
    let ring = Ring::create(division.slots, slot_bytes, &description)
        .map_err(|error| Error::chain(Code::Busy, &error))?;
    let sitting = account.open(ring.slots());
    let ring = outlet.install(ring, memory, sitting);
    let opened = ToTrainer::Opened { slots: ring.slots(), slot_bytes: ring.slot_bytes() };
    connection.send(&opened, Some(ring.fd())).await.map_err(|error| lost(&error))?;
    tracing::info!(slots = ring.slots(), slot_bytes = ring.slot_bytes(), "feed opened");
    Ok(source)
}

/// The next step that is wanted.
async fn next(queue: &mut UnboundedReceiver<Item>, wanted: &Wanted<'_>) -> Result<Option<Step>, Error> {
    let broke = || Error::new(Code::Internal, "the feed's reader broke: the sidecar's log has more");
    loop {
        match queue.recv().await.ok_or_else(broke)?? {
            Some(step) if !wanted(&step) => {}
            other => return Ok(other),
        }
    }
}

/// Bytes of a slot. Exact where all columns are numbers; else texts and lists are taken to be as long as those
/// of the first step, and a quarter more. A batch that is larger all the same gets memory of its own.
fn slot_bytes(plan: &PackPlan, rows: u64, first: Option<&Step>) -> Result<u64, Error> {
    let specs = plan.columns().iter().map(|column| {
        let expected = |seen: &dyn Fn(&Step) -> u64| {
            let seen = first.map_or(0, |step| {
                let whole = u128::from(seen(step)) * u128::from(rows) / u128::from(step.rows.max(1));
                u64::try_from(whole).unwrap_or(u64::MAX)
            });
            seen.saturating_add(seen / 4)
        };
        let count = match column.count_of(rows) {
            Some(count) => count,
            None => expected(&|step| column.count(&step.parts)),
        };
        column.spec(count, expected(&|step| column.text_bytes(&step.parts)))
    });
    let layout = SlotLayout::plan(&specs.collect::<Vec<_>>())
        .map_err(|error| Error::chain(Code::InvalidFeed, &error))?;
    // The ring rounds up to pages; so does the account.
    Ok(layout.bytes().next_multiple_of(4096))
}

/// A feed's memory is said of all its shares together.
fn too_small(slot_bytes: u64, memory: u64, shares: u64, total: u64) -> Error {
    let needed = size::needed(slot_bytes).saturating_mul(shares);
    let advice = if needed > total {
        format!("{RAISE}, or lower batch_size")
    } else {
        format!("give it at least {needed} with memory=, or lower batch_size")
    };
    let memory = memory.saturating_mul(shares);
    Error::new(
        Code::InvalidFeed,
        format!(
            "the feed may have {memory} bytes and needs {needed} at least, for a step of this rank takes {slot_bytes} and another is on its \
             way meanwhile: {advice}"
        ),
    )
}

/// Packs a step into its slot and tells the trainer.
async fn hand_over(
    connection: &Connection,
    house: &House,
    outlet: &Outlet,
    plan: &Arc<PackPlan>,
    slot: FreeSlot,
    step: Step,
    received: Instant,
) -> Result<(), Error> {
    let (epoch, number, rows, effort) = (step.epoch, step.step, step.rows, step.effort);
    let got_slot = Instant::now();
    let packed = packing::pack(house, Arc::clone(plan), slot, step).await?;
    let (memory, leased) = packed.own_memory.unzip();
    let waiting = outlet.hand_out(packed.slot, epoch, number, leased);
    let way = Way { received, slot: got_slot, handed_out: Instant::now() };
    let waits = Waits::new(waiting, way, effort);
    metrics::handed_out(rows, packed.bytes);
    metrics::trainer_waited(waits.total());
    if let Some(sitting) = outlet.sitting() {
        sitting.handed_out(rows, packed.bytes, &waits);
    }
    let batch = ToTrainer::Batch { slot: packed.slot, epoch, step: number };
    let memory = memory.as_ref().map(|memory| memory.as_fd());
    connection.send(&batch, memory).await.map_err(|error| lost(&error))
}

/// The trainer's connection broke while it was spoken to.
fn lost(error: &io::Error) -> Error {
    Error::chain(Code::Cancelled, error)
}
