//! The Flight service: calls in, answers out. What they mean is decided elsewhere.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, Result as ActionResult, SchemaResult, Ticket,
};
use futures::FutureExt as _;
use futures::stream::{BoxStream, Iter};
use hyper::body::Incoming;
use penstock_proto::waiting::say_waiting;
use penstock_proto::{Code, Error};
use tokio::sync::oneshot;
use tonic::{Request, Response, Status, Streaming};

use super::body::{Beside, Body, answer};
use super::lend::{Lender, Opened};
use super::queue::Messages;
use super::{Gateway, Peer, action};
use crate::read::{Panicked, Room};

/// No client sends more than a descriptor or a ticket.
const MAX_REQUEST_BYTES: usize = 16 << 20;

/// The service that hyper calls: tonic's, with streams sent past it.
#[derive(Clone)]
pub(super) struct Answers {
    flight: FlightServiceServer<Service>,
    gateway: Arc<Gateway>,
}

impl Answers {
    pub(super) fn new(gateway: Gateway) -> Self {
        let gateway = Arc::new(gateway);
        let flight = FlightServiceServer::new(Service(Arc::clone(&gateway)));
        Self { flight: flight.max_decoding_message_size(MAX_REQUEST_BYTES), gateway }
    }
}

impl hyper::service::Service<http::Request<Incoming>> for Answers {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        let mut service = self.flight.clone();
        Box::pin(async move {
            let request = request.map(tonic::body::Body::new);
            let answer = tower_service::Service::call(&mut service, request);
            Ok(Body::unload(caught(async { answer.await.unwrap_or_else(|never| match never {}) }).await))
        })
    }
}

impl Lender for Answers {
    type Room = Room;

    async fn open(&self, ticket: &[u8]) -> Result<Opened<Room>, Error> {
        self.gateway.serving()?;
        unwound(self.gateway.open_to_lend(ticket)).await
    }
}

/// What falls over fails.
async fn unwound<T>(opening: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let opened = AssertUnwindSafe(opening).catch_unwind().await;
    opened.unwrap_or_else(|panic| Err(Error::chain(Code::Internal, &Panicked::of(panic.as_ref()))))
}

/// A request that falls over is refused, and takes no other of its connection with it.
async fn caught(
    answer: impl Future<Output = http::Response<tonic::body::Body>>,
) -> http::Response<tonic::body::Body> {
    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(|panic| {
        Status::from(Error::chain(Code::Internal, &Panicked::of(panic.as_ref()))).into_http()
    })
}

/// The service that tonic calls.
pub(super) struct Service(Arc<Gateway>);

#[tonic::async_trait]
impl FlightService for Service {
    type HandshakeStream = BoxStream<'static, Result<HandshakeResponse, Status>>;
    type ListFlightsStream = Iter<std::vec::IntoIter<Result<FlightInfo, Status>>>;
    type DoGetStream = Beside;
    type DoPutStream = BoxStream<'static, Result<PutResult, Status>>;
    type DoExchangeStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoActionStream = Iter<std::vec::IntoIter<Result<ActionResult, Status>>>;
    type ListActionsStream = Iter<std::vec::IntoIter<Result<ActionType, Status>>>;

    async fn list_flights(
        &self,
        request: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        let peer = peer(&request);
        if !request.into_inner().expression.is_empty() {
            return Err(unsupported("criteria are not read: list all flights and choose among them"));
        }
        let names: Vec<String> = self.0.catalog.names().map(str::to_owned).collect();
        let mut infos = Vec::with_capacity(names.len());
        for name in names {
            let descriptor = FlightDescriptor::new_path(vec![name.clone()]);
            let info = match self.0.look_up(&descriptor).await {
                Ok(served) => self.0.info(&served, descriptor, peer),
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
        let peer = peer(&request);
        let descriptor = request.into_inner();
        let served = self.0.look_up(&descriptor).await?;
        self.0.check_room(&served)?;
        served.look_for_nulls().await;
        Ok(Response::new(self.0.info(&served, descriptor, peer)?))
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        let served = self.0.look_up(&request.into_inner()).await?;
        Ok(Response::new(Gateway::schema(&served)?))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        self.0.serving()?;
        let (gateway, ticket) = (Arc::clone(&self.0), request.into_inner().ticket);
        let (say, said) = oneshot::channel();
        let opening = async move {
            let waits = |why: String| {
                // Nobody hears it who is not there any more.
                let _unheard = say.send(why);
            };
            unwound(gateway.open(&ticket, waits)).await
        };
        let mut opening = Box::pin(opening);
        tokio::select! {
            biased;
            opened = &mut opening => Ok(answer(opened?)),
            Ok(why) = said => {
                let mut answer = answer(Messages::coming(opening));
                say_waiting(answer.metadata_mut(), &why);
                Ok(answer)
            }
        }
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        let peer = peer(&request);
        let body = self.0.act(&request.into_inner(), peer)?;
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

/// Who asks; a stranger where nothing is known.
fn peer<T>(request: &Request<T>) -> Peer {
    request.extensions().get().copied().unwrap_or_default()
}

fn unsupported(message: &str) -> Status {
    Error::new(Code::Unsupported, message).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_that_falls_over_is_an_answer_that_says_so() {
        let answer = caught(async { panic!("row {} is odd", 7) }).await;
        let status = Status::from_header_map(answer.headers()).unwrap();
        assert_eq!(status.code(), tonic::Code::Internal);
        assert!(status.message().contains("row 7 is odd"), "{status}");
    }
}
