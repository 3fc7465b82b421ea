//! The Flight service: calls in, answers out. What they mean is decided elsewhere.

use std::sync::Arc;

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, Result as ActionResult, SchemaResult, Ticket,
};
use futures::stream::{BoxStream, Iter};
use penstock_proto::{Code, Error};
use tonic::{Request, Response, Status, Streaming};

use super::stream::Messages;
use super::{Gateway, action};

/// The service that tonic calls.
pub(super) struct Service(pub(super) Arc<Gateway>);

#[tonic::async_trait]
impl FlightService for Service {
    type HandshakeStream = BoxStream<'static, Result<HandshakeResponse, Status>>;
    type ListFlightsStream = Iter<std::vec::IntoIter<Result<FlightInfo, Status>>>;
    type DoGetStream = Messages;
    type DoPutStream = BoxStream<'static, Result<PutResult, Status>>;
    type DoExchangeStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoActionStream = Iter<std::vec::IntoIter<Result<ActionResult, Status>>>;
    type ListActionsStream = Iter<std::vec::IntoIter<Result<ActionType, Status>>>;

    async fn list_flights(
        &self,
        request: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        if !request.into_inner().expression.is_empty() {
            return Err(unsupported("criteria are not read: list all flights and choose among them"));
        }
        let names: Vec<String> = self.0.catalog.names().map(str::to_owned).collect();
        let mut infos = Vec::with_capacity(names.len());
        for name in names {
            let descriptor = FlightDescriptor::new_path(vec![name.clone()]);
            let info = match self.0.look_up(&descriptor).await {
                Ok(resolved) => self.0.info(&resolved, descriptor),
                Err(error) => Err(error),
            };
            match info {
                Ok(info) => infos.push(Ok(info)),
                // One dataset that broke must not hide the others; who asks for it is told why.
                Err(error) => tracing::warn!(dataset = %name, %error, "left out of the list"),
            }
        }
        Ok(Response::new(futures::stream::iter(infos)))
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.0.serving()?;
        let descriptor = request.into_inner();
        let resolved = self.0.look_up(&descriptor).await?;
        Ok(Response::new(self.0.info(&resolved, descriptor)?))
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        let resolved = self.0.look_up(&request.into_inner()).await?;
        Ok(Response::new(Gateway::schema(&resolved)?))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        self.0.serving()?;
        Ok(Response::new(self.0.open(&request.into_inner().ticket).await?))
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        let body = self.0.act(&request.into_inner())?;
        Ok(Response::new(futures::stream::iter(vec![Ok(ActionResult { body })])))
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        let types: Vec<_> = action::types().map(Ok).collect();
        Ok(Response::new(futures::stream::iter(types)))
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        Err(unsupported("planning is quick here: call GetFlightInfo"))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        Err(unsupported("no handshake is needed: call GetFlightInfo"))
    }

    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        Err(unsupported("a gateway reads datasets and takes none: write Parquet where the dataset lies"))
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        Err(unsupported("a gateway exchanges nothing: read with DoGet"))
    }
}

fn unsupported(message: &str) -> Status {
    Error::new(Code::Unsupported, message).into()
}
