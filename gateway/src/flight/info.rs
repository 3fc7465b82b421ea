//! What a client is told before it reads.

use std::time::SystemTime;

use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::flight_descriptor::DescriptorType;
use arrow_flight::{
    FlightDescriptor, FlightEndpoint, FlightInfo, SchemaAsIpc, SchemaResult, Ticket as FlightTicket,
};
use penstock_proto::{Code, Error, FeedRequest, Rank, Ticket};

use super::served::Served;
use super::{Gateway, Peer, unwritable};

/// What a descriptor asks for.
enum Asked {
    /// A dataset by name.
    Whole(String),
    Feed(Box<FeedRequest>),
}

impl Gateway {
    pub(super) async fn look_up(&self, descriptor: &FlightDescriptor) -> Result<Served, Error> {
        match asked(descriptor)? {
            Asked::Whole(name) => self.resolve_whole(&name).await.map(Served::Dataset),
            Asked::Feed(request) => self.find(*request).await,
        }
    }

    /// The information about a feed: an endpoint for every rank in rank order, or the one that was asked for.
    pub(super) fn info(
        &self,
        served: &Served,
        descriptor: FlightDescriptor,
        peer: Peer,
    ) -> Result<FlightInfo, Error> {
        let request = served.request();
        let ranks: Vec<Rank> = match request.rank {
            Some(rank) => vec![rank],
            None => request.world_size.ranks().collect(),
        };
        let mut rows = 0u64;
        for &rank in &ranks {
            rows = rows.saturating_add(served.rows_left(rank)?);
        }
        let mut told = served.info();
        told.warnings.extend(self.warn_of_lockstep(served));
        let expires_at = SystemTime::now() + self.config.ticket_life;
        let endpoints = ranks.iter().map(|&rank| self.endpoint(served, rank, expires_at, peer)).collect();
        let info = FlightInfo::new().try_with_schema(&served.schema()).map_err(|e| unwritable(&e))?;
        Ok(info
            .with_descriptor(descriptor)
            .with_endpoints(endpoints)
            .with_total_records(signed(rows))
            .with_total_bytes(signed(served.bytes_of(rows)))
            // Rows of several ranks belong side by side, not one rank after the other.
            .with_ordered(ranks.len() == 1)
            .with_app_metadata(told.to_json()))
    }

    pub(super) fn schema(served: &Served) -> Result<SchemaResult, Error> {
        SchemaAsIpc::new(&served.schema(), &IpcWriteOptions::default()).try_into().map_err(|e| unwritable(&e))
    }

    /// Where and with which ticket a rank reads.
    fn endpoint(&self, served: &Served, rank: Rank, expires_at: SystemTime, peer: Peer) -> FlightEndpoint {
        let request = FeedRequest { rank: Some(rank), ..served.request().clone() };
        let counts = served.counts();
        self.endpoint_of(&Ticket { request, expires_at, counts, pull: None }, rank, peer)
    }

    /// Where a rank reads by a ticket.
    pub(super) fn endpoint_of(&self, ticket: &Ticket, rank: Rank, peer: Peer) -> FlightEndpoint {
        let expires_at = ticket.expires_at;
        let ticket = self.config.ticket_key.seal(ticket);
        let mut endpoint = FlightEndpoint::new().with_ticket(FlightTicket::new(ticket));
        let since_1970 = expires_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        endpoint.expiration_time.get_or_insert_default().seconds = signed(since_1970.as_secs());
        let locations = self.fleet.locations(rank.get(), peer.is_neighbour).into_iter();
        locations.fold(endpoint, FlightEndpoint::with_location)
    }
}

/// Reads a descriptor.
fn asked(descriptor: &FlightDescriptor) -> Result<Asked, Error> {
    match descriptor.r#type() {
        DescriptorType::Path => match descriptor.path.as_slice() {
            [name] => Ok(Asked::Whole(name.clone())),
            path => Err(Error::new(
                Code::InvalidFeed,
                format!(
                    "the descriptor's path has {} parts: give one, the dataset's name, or a command",
                    path.len()
                ),
            )),
        },
        DescriptorType::Cmd => FeedRequest::parse(&descriptor.cmd).map(Box::new).map(Asked::Feed),
        DescriptorType::Unknown => Err(Error::new(
            Code::InvalidFeed,
            "the descriptor has no type: give a path, the dataset's name, or a command",
        )),
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
