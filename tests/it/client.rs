//! A stock Flight client, cut to what the stories need.

use arrow::array::AsArray as _;
use arrow::datatypes::Int64Type;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{FlightClient, FlightData, FlightDescriptor, FlightInfo, Ticket};
use futures::TryStreamExt as _;
use penstock_proto::Error;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

pub(crate) struct Client(FlightServiceClient<Channel>);

impl Client {
    /// Connects to a `grpc://HOST:PORT` location.
    pub(crate) async fn connect(location: &str) -> Self {
        let address = location.replacen("grpc://", "http://", 1);
        let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
        Self(FlightServiceClient::new(channel))
    }

    /// Asks for a feed by its JSON command.
    pub(crate) async fn info(&mut self, command: &str) -> Result<FlightInfo, Error> {
        let descriptor = FlightDescriptor::new_cmd(command.to_owned());
        Ok(self.0.get_flight_info(descriptor).await?.into_inner())
    }

    /// The messages that a ticket stands for, to be read at leisure.
    pub(crate) async fn stream(&mut self, ticket: Vec<u8>) -> Result<Streaming<FlightData>, Error> {
        Ok(self.0.do_get(Ticket { ticket: ticket.into() }).await?.into_inner())
    }

    /// The `id` column of all that a ticket stands for, in order.
    pub(crate) async fn ids(&mut self, ticket: Vec<u8>) -> Result<Vec<i64>, Error> {
        let mut client = FlightClient::new_from_inner(self.0.clone());
        let status = |error| match error {
            arrow_flight::error::FlightError::Tonic(status) => Error::from(*status),
            other => panic!("{other}"),
        };
        let batches: Vec<_> = client
            .do_get(Ticket { ticket: ticket.into() })
            .await
            .map_err(status)?
            .try_collect()
            .await
            .map_err(status)?;
        Ok(batches
            .iter()
            .flat_map(|batch| {
                batch.column_by_name("id").unwrap().as_primitive::<Int64Type>().values().to_vec()
            })
            .collect())
    }
}
