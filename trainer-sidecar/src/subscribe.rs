//! Asking gateways what a feed is and where it can be read.
//!
//! In: a feed request and gateways. Out: schema, steps, a ticket, and who else serves it. The promise:
//! a gateway that cannot be reached is passed over, a refusal is passed on as it is, and whoever gives
//! up can say who was tried and why. It opens streams and does not read them.

mod address;
mod dial;
mod gateways;
mod notices;
mod tls;

use std::time::Duration;

use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{Action, FlightDescriptor, FlightInfo, Ticket};
use penstock_daemon::tls::Dialer;
use penstock_proto::delivery::{self, Report, Standing};
use penstock_proto::{Code, Error, FeedInfo, FeedRequest};
use prost::Message as _;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};

pub(crate) use self::address::Address;
pub(crate) use self::gateways::Gateways;
pub(crate) use self::notices::Notices;
pub(crate) use self::tls::Trust;

use crate::config::Deadlines;
use crate::wire::{Borrowing, Download, Incoming, Rooms, Target};

/// A message as large as it must be: parts are small, but a single row may be huge.
const MAX_MESSAGE: usize = i32::MAX as usize;
/// Between pings on a connection, so that a host that vanished is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// What a gateway says about a feed.
#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    pub(crate) schema: SchemaRef,
    pub(crate) info: FeedInfo,
    pub(crate) ticket: Ticket,
    /// Who serves the ticket; never empty.
    pub(crate) locations: Vec<Address>,
}

/// How to connect, and with how much patience.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) deadlines: Deadlines,
    /// Bytes in flight on a connection before the receiver takes some.
    pub(crate) window: u32,
    pub(crate) trust: Trust,
}

/// A connection to one gateway.
pub(crate) type Client = FlightServiceClient<Channel>;

impl Link {
    /// A connection for questions.
    pub(crate) async fn connect(&self, address: &Address) -> Result<Client, Error> {
        self.check(address)?;
        let endpoint = Endpoint::from_shared(address.uri())
            .map_err(|error| Error::chain(Code::InvalidFeed, &error))?
            .connect_timeout(self.deadlines.connect)
            .tcp_nodelay(true)
            .initial_stream_window_size(self.window)
            .initial_connection_window_size(self.window)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        let channel = match address {
            Address::Tls(host_and_port) => {
                let (connector, host_and_port) = (self.trust.connector()?.clone(), host_and_port.clone());
                endpoint.connect_with_connector(Dialer { connector, host_and_port }).await
            }
            Address::Lent(_) | Address::Unix(_) | Address::Tcp(_) => endpoint.connect().await,
        };
        let channel = channel.map_err(|error| Error::chain(Code::Unreachable, &error))?;
        Ok(FlightServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE))
    }

    /// Asks one gateway for a feed of one rank.
    pub(crate) async fn ask(
        &self,
        client: &mut Client,
        address: &Address,
        request: &FeedRequest,
    ) -> Result<Subscription, Error> {
        let descriptor = FlightDescriptor::new_cmd(request.to_command().encode_to_vec());
        let answer = timeout(self.deadlines.stall, client.get_flight_info(descriptor)).await;
        let info = answer.map_err(|_| silent(self.deadlines))??.into_inner();
        Subscription::read(info, address, |location| self.can_reach(location))
    }

    /// Tells one gateway how far a rank is, and hears how far all are.
    pub(crate) async fn report(&self, client: &mut Client, report: &Report) -> Result<Standing, Error> {
        let body = serde_json::to_vec(report).expect("numbers and strings are always JSON");
        let mut results = client.do_action(Action::new(delivery::ACTION, body)).await?.into_inner();
        let answer = results.message().await?.unwrap_or_default();
        serde_json::from_slice(&answer.body).map_err(|error| Error::chain(Code::Internal, &error))
    }

    /// Opens the stream of a ticket, on a connection of its own: many streams on one share its window, and
    /// one reader that stops would stop them all.
    pub(crate) async fn redeem(
        &self,
        address: &Address,
        ticket: &Ticket,
        rooms: Rooms,
    ) -> Result<Incoming, Error> {
        self.check(address)?;
        let opened = async {
            if let Address::Lent(path) = address {
                let borrowing = Borrowing::open(self.dial_here(path).await?, &ticket.ticket, rooms).await;
                return borrowing.map(|borrowing| Incoming::Lent(Box::new(borrowing)));
            }
            let socket = self.dial(address).await?;
            let target = Target { scheme: "http", authority: address.authority() };
            let download = Download::open(socket, target, &ticket.ticket, self.window, rooms).await;
            download.map(|download| Incoming::Http(Box::new(download)))
        };
        timeout(self.deadlines.stall, opened).await.map_err(|_| silent(self.deadlines))?
    }
}

/// What a gateway that does not answer in time is left with.
pub(crate) fn silent(deadlines: Deadlines) -> Error {
    Error::new(Code::Unreachable, format!("silent for {}s", deadlines.stall.as_secs_f32()))
}

impl Subscription {
    pub(crate) fn read(
        info: FlightInfo,
        from: &Address,
        can_reach: impl Fn(&Address) -> bool,
    ) -> Result<Self, Error> {
        let foreign = |what: &str| {
            Error::new(
                Code::Internal,
                format!("{from} answers unlike a gateway of this release ({what}): give a penstock gateway"),
            )
        };
        let said = FeedInfo::from_json(&info.app_metadata).map_err(|_| foreign("no feed information"))?;
        let [endpoint] = info.endpoint.as_slice() else {
            return Err(foreign("not one endpoint for one rank"));
        };
        let ticket = endpoint.ticket.clone().ok_or_else(|| foreign("no ticket"))?;
        // What cannot be reached from here, or not by this release, is left to others.
        let locations = endpoint.location.iter().filter_map(|location| Address::parse(&location.uri).ok());
        let mut locations: Vec<_> = locations.filter(can_reach).collect();
        if locations.is_empty() {
            locations.push(from.clone());
        }
        let schema: Schema =
            info.try_decode_schema().map_err(|error| Error::chain(Code::Internal, &error))?;
        Ok(Self { schema: schema.into(), info: said, ticket, locations })
    }
}
