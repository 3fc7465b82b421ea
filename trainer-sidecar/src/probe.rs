//! A stream that is received, decoded and forgotten: what receiving costs, for benches.

use std::sync::Arc;

use arrow::ipc::convert::try_schema_from_flatbuffer_bytes;
use arrow_flight::Ticket;
use penstock_proto::{Code, Error};

use crate::config::Deadlines;
use crate::stream::decode;
use crate::subscribe::{Address, Link, Trust};
use crate::wire::Rooms;

/// As a feed of 256 MiB has it.
const WINDOW: u32 = 8 << 20;

/// What a stream was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Received {
    pub rows: u64,
    /// Of the batches' columns.
    pub bytes: u64,
}

/// Receives the stream of a ticket as a feed does, to its end.
///
/// # Errors
/// The gateway cannot be reached or refuses, or the stream breaks: nothing is tried again.
pub async fn receive(gateway: &str, ticket: &[u8]) -> Result<Received, Error> {
    let address = Address::parse(gateway)?;
    let link = Link { deadlines: Deadlines::default(), window: WINDOW, trust: Trust::default() };
    let rooms = Rooms::new(WINDOW, u64::MAX);
    let mut stream = link.redeem(&address, &Ticket::new(ticket.to_vec()), rooms).await?;
    let mut received = Received::default();
    let Some(first) = stream.next().await? else { return Ok(received) };
    let schema = try_schema_from_flatbuffer_bytes(&first.header);
    let schema = Arc::new(schema.map_err(|error| Error::chain(Code::BrokenStream, &error))?);
    while let Some(message) = stream.next().await? {
        if let Some(decoded) = decode(&schema, &message.header, &message.body)? {
            received.rows += decoded.batch.num_rows() as u64;
            received.bytes += message.body.len() as u64;
        }
    }
    Ok(received)
}
