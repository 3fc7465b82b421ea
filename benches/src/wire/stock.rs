//! The peer: arrow-flight's encoder under tonic, as its documentation puts them together.

use anyhow::{Context as _, Result};
use arrow::record_batch::RecordBatch;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, Result as ActionResult, SchemaResult, Ticket,
};
use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use penstock_daemon::Drain;
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

/// Serves the batch so many times to whoever asks; returns the location.
pub(super) async fn serve(batch: RecordBatch, times: usize, drain: &Drain) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
    let location = format!("grpc://{}", listener.local_addr()?);
    let leaving = drain.clone();
    drain.spawn("stock server", async move {
        let service = FlightServiceServer::new(Stock { batch, times }).max_encoding_message_size(usize::MAX);
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let server = Server::builder().add_service(service);
        server.serve_with_incoming_shutdown(incoming, async move { leaving.begun().await }).await
    });
    Ok(location)
}

struct Stock {
    batch: RecordBatch,
    times: usize,
}

type Answer<T> = BoxStream<'static, Result<T, Status>>;

fn none<T>() -> Result<T, Status> {
    Err(Status::unimplemented("only DoGet is measured"))
}

#[tonic::async_trait]
impl FlightService for Stock {
    type HandshakeStream = Answer<HandshakeResponse>;
    type ListFlightsStream = Answer<FlightInfo>;
    type DoGetStream = Answer<FlightData>;
    type DoPutStream = Answer<PutResult>;
    type DoExchangeStream = Answer<FlightData>;
    type DoActionStream = Answer<ActionResult>;
    type ListActionsStream = Answer<ActionType>;

    async fn do_get(&self, _: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        let batch = self.batch.clone();
        let batches = stream::iter((0..self.times).map(move |_| Ok(batch.clone())));
        let encoded = FlightDataEncoderBuilder::new().with_schema(self.batch.schema()).build(batches);
        Ok(Response::new(encoded.map_err(|error| Status::internal(error.to_string())).boxed()))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        none()
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        none()
    }

    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        none()
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        none()
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        none()
    }

    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        none()
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        none()
    }

    async fn do_action(&self, _: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        none()
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        none()
    }
}
