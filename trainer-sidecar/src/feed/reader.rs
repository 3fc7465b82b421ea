//! Reads a feed ahead of its trainer: epoch after epoch, into a queue that the meter bounds.

use arrow_flight::Ticket;
use penstock_proto::{Code, Error};
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::task::AbortOnDropHandle;

use super::start::Start;
use crate::batcher::{Joiner, Meter, Step};
use crate::cpu::on_cpu;
use crate::stream::Stream;
use crate::subscribe::Gateways;
use crate::wire::Rooms;

/// Steps before an epoch's end at which the next epoch's ticket is asked for.
const AHEAD: u64 = 4;
/// Epochs in the queue: of a small dataset, memory would hold hundreds that nobody wants yet.
const EPOCHS_AHEAD: u64 = 4;

/// What the queue brings: a step, `None` after the last one, or why there is none. A queue that closes
/// without either was left by a reader that broke.
pub(super) type Item = Result<Option<Step>, Error>;

/// Reads until the last epoch is over, the feed fails, or nobody wants the queue any more.
pub(super) async fn read(start: Start, meter: Meter, queue: UnboundedSender<Item>) {
    let last = match read_epochs(&start, &meter, &queue).await {
        Ok(()) => Ok(None),
        Err(error) => Err(error),
    };
    // Nobody takes it when the trainer has left.
    let _ = queue.send(last);
}

async fn read_epochs(start: &Start, meter: &Meter, queue: &UnboundedSender<Item>) -> Result<(), Error> {
    let steps = start.subscription.info.steps;
    let end = start.request.epochs.unwrap_or(u64::MAX);
    let mut gateways = start.gateways.clone();
    let mut ticket = start.ticket.clone();
    // As much is idle as may be in flight.
    let rooms = Rooms::new(start.link.window, start.most_memory);
    let mut largest_epoch = 0;
    for epoch in start.request.feed.epoch..end {
        let schema = start.subscription.schema.clone();
        let request = start.request_of(epoch);
        let mut stream =
            Stream::new(start.link.clone(), gateways, schema, steps, request, ticket, rooms.clone());
        let mut joiner = Joiner::new(epoch, start.rows());
        let mut next_ticket = None;
        let mut bytes = 0;
        loop {
            stream.wait(meter.room(joiner.bytes())).await;
            let Some(mut part) = stream.next().await? else { break };
            if !start.request.codes.is_empty() {
                let (codes, texts) = (start.request.codes.clone(), part.batch);
                let coded = move || codes.code(&texts).map_err(|error| Error::chain(Code::Internal, &error));
                part.batch = on_cpu(coded).await?;
            }
            bytes += part.bytes;
            let held = meter.hold(part.bytes);
            if let Some(step) = joiner.add(part, held)?
                && queue.send(Ok(Some(step))).is_err()
            {
                return Ok(());
            }
            if next_ticket.is_none() && epoch + 1 < end && stream.step() + AHEAD >= steps {
                next_ticket = Some(ask_ahead(start, epoch + 1, stream.gateways().clone()));
            }
        }
        // The first one may have begun in its midst.
        largest_epoch = bytes.max(largest_epoch);
        meter.set_ahead(EPOCHS_AHEAD * largest_epoch);
        gateways = stream.into_gateways();
        ticket = match next_ticket {
            // One that was not to be had is asked for again by the stream, which says why.
            Some(asked) => asked.await.ok().flatten(),
            None => None,
        };
    }
    Ok(())
}

/// Asks for the ticket of an epoch while the one before is still being read.
fn ask_ahead(start: &Start, epoch: u64, mut gateways: Gateways) -> AbortOnDropHandle<Option<Ticket>> {
    let (link, request) = (start.link.clone(), start.request_of(epoch));
    let ask = async move { gateways.subscribe(&link, &request).await.ok().map(|found| found.ticket) };
    AbortOnDropHandle::new(tokio::spawn(ask))
}
