//! A gateway that misbehaves as told, for tests: real Flight on a real port, scripted streams.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::utils::batches_to_flight_data;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use penstock_proto::{Code, Error, FeedInfo, FeedRequest, Note, OrderRules, SnapshotId};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use crate::config::Deadlines;
use crate::subscribe::{Address, Link, Trust};

/// What a stream does after it has sent some messages as it should.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// Breaks with a status that gRPC itself makes.
    Break,
    /// Ends in order, and does not say so.
    EndUnsaid,
    /// Leaves a message out and goes on.
    Gap,
    /// Sends a message twice and goes on.
    Repeat,
    /// Says it is leaving, wherever it is.
    Moved,
    /// Says that the epoch is over.
    EndEarly,
    /// Sends nothing more.
    Silence,
    /// Sends bytes that are no record batch.
    Garbage,
    /// Refuses with a code of ours.
    Refuse(Code),
}

/// `(sent before, then)` for every stream to come; later ones do as they should.
pub(crate) type Script = Vec<(usize, Fault)>;

/// A data set of `steps` steps of `parts` parts of `rows` rows: `id` counts through the epoch.
#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) steps: u64,
    pub(crate) parts: u32,
    pub(crate) rows: u64,
    /// Whether texts are id² thousand bytes long instead of saying the id.
    growing: bool,
    /// The id that is null.
    null: Option<i64>,
    script: Arc<Mutex<VecDeque<(usize, Fault)>>>,
    /// Start steps of the streams that were opened, and epochs.
    pub(crate) opened: Arc<Mutex<Vec<(u64, u64)>>>,
    /// Other gateways to name as locations.
    pub(crate) locations: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    pub(crate) fn new(steps: u64, parts: u32, rows: u64) -> Self {
        let (script, opened, locations) = Default::default();
        Self { steps, parts, rows, growing: false, null: None, script, opened, locations }
    }

    pub(crate) fn scripted(self, script: Script) -> Self {
        self.script.lock().unwrap().extend(script);
        self
    }

    pub(crate) fn growing(self) -> Self {
        Self { growing: true, ..self }
    }

    pub(crate) fn with_null(self, id: i64) -> Self {
        Self { null: Some(id), ..self }
    }

    /// Serves for as long as the runtime lives.
    pub(crate) async fn serve(&self) -> Address {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("grpc://{}", listener.local_addr().unwrap());
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let service = FlightServiceServer::new(self.clone());
        tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        Address::parse(&address).unwrap()
    }

    /// Serves on a Unix socket, for as long as the runtime lives.
    pub(crate) fn serve_here(&self, path: &std::path::Path) -> Address {
        let listener = tokio::net::UnixListener::bind(path).unwrap();
        let incoming = stream::unfold(listener, |listener| async {
            let accepted = listener.accept().await.map(|(stream, _)| stream);
            Some((accepted, listener))
        });
        let service = FlightServiceServer::new(self.clone());
        tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        Address::parse(&format!("grpc+unix://{}", path.display())).unwrap()
    }

    pub(crate) fn schema() -> SchemaRef {
        let id = Field::new("id", DataType::Int64, true);
        Arc::new(Schema::new(vec![id, Field::new("text", DataType::Utf8, false)]))
    }

    /// Ids of a step.
    pub(crate) fn ids(&self, step: u64) -> Vec<i64> {
        let per_step = self.rows * u64::from(self.parts);
        (step * per_step..(step + 1) * per_step).map(|id| id as i64).collect()
    }

    fn message(&self, epoch: u64, step: u64, part: u32) -> FlightData {
        let rows = self.rows as usize;
        let ids = self.ids(step)[part as usize * rows..][..rows].to_vec();
        let note = Note::Part { epoch, step, part, parts: self.parts };
        let text = |id: &i64| match self.growing {
            true => "x".repeat((id * id * 1000) as usize),
            false => format!("row {id}"),
        };
        let texts = ids.iter().map(text).collect();
        let ids = ids.into_iter().map(|id| Some(id).filter(|_| self.null != Some(id))).collect();
        data(ids, texts, note)
    }

    /// All messages from a step to the end of the epoch.
    fn messages(&self, epoch: u64, start: u64) -> Vec<FlightData> {
        let parts = (start..self.steps).flat_map(|step| (0..self.parts).map(move |part| (step, part)));
        let mut messages: Vec<_> = parts.map(|(step, part)| self.message(epoch, step, part)).collect();
        messages.push(notice(Note::End { steps: self.steps }));
        messages
    }

    fn stream(&self, epoch: u64, start: u64) -> BoxStream<'static, Result<FlightData, Status>> {
        let mut messages: Vec<_> = self.messages(epoch, start).into_iter().map(Ok).collect();
        let mut silent = false;
        if let Some((sent, fault)) = self.script.lock().unwrap().pop_front() {
            let sent = sent.min(messages.len() - 1);
            match fault {
                Fault::Gap => drop(messages.remove(sent)),
                Fault::Repeat => messages.insert(sent, messages[sent].clone()),
                _ => messages.truncate(sent),
            }
            match fault {
                Fault::Break => messages.push(Err(Status::unknown("h2 protocol error"))),
                Fault::Moved => {
                    let step = start + sent as u64 / u64::from(self.parts);
                    messages.push(Ok(notice(Note::Moved { step })));
                }
                Fault::EndEarly => messages.push(Ok(notice(Note::End { steps: self.steps }))),
                Fault::Silence => silent = true,
                Fault::Garbage => {
                    messages.push(Ok(FlightData { data_header: vec![1; 9].into(), ..FlightData::default() }));
                }
                Fault::Refuse(code) => messages.push(Err(Error::new(code, "as the script says").into())),
                Fault::EndUnsaid | Fault::Gap | Fault::Repeat => {}
            }
        }
        let schema = batches_to_flight_data(&Self::schema(), []).unwrap().into_iter().map(Ok);
        let said = stream::iter(schema.chain(messages).collect::<Vec<_>>());
        if silent { said.chain(stream::pending()).boxed() } else { said.boxed() }
    }
}

/// A note without rows.
fn notice(note: Note) -> FlightData {
    data(Vec::new(), Vec::new(), note)
}

fn data(ids: Vec<Option<i64>>, texts: Vec<String>, note: Note) -> FlightData {
    let columns = vec![Arc::new(Int64Array::from(ids)) as _, Arc::new(StringArray::from(texts)) as _];
    let batch = RecordBatch::try_new(Fake::schema(), columns).unwrap();
    let mut data = batches_to_flight_data(&Fake::schema(), [&batch]).unwrap().pop().unwrap();
    data.app_metadata = note.to_json().into();
    data
}

/// Impatient, for tests that wait for a stall.
pub(crate) fn deadlines() -> Deadlines {
    Deadlines {
        connect: Duration::from_secs(5),
        stall: Duration::from_millis(300),
        answer: Duration::from_millis(500),
        give_up: Duration::from_secs(20),
        memory: Duration::from_millis(300),
        tell: Duration::from_millis(100),
        tell_again: Duration::from_millis(100),
    }
}

pub(crate) fn link() -> Link {
    Link { deadlines: deadlines(), window: 1 << 20, trust: Trust::default() }
}

#[tonic::async_trait]
impl FlightService for Fake {
    type HandshakeStream = BoxStream<'static, Result<HandshakeResponse, Status>>;
    type ListFlightsStream = BoxStream<'static, Result<FlightInfo, Status>>;
    type DoGetStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoPutStream = BoxStream<'static, Result<PutResult, Status>>;
    type DoExchangeStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoActionStream = BoxStream<'static, Result<arrow_flight::Result, Status>>;
    type ListActionsStream = BoxStream<'static, Result<ActionType, Status>>;

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let command = request.into_inner().cmd;
        let asked = FeedRequest::parse(&command).map_err(Status::from)?;
        if asked.feed.dataset != "d" {
            let unknown = Error::new(Code::UnknownDataset, "no such dataset: this gateway serves \"d\"");
            return Err(unknown.into());
        }
        let rows = self.steps * self.rows * u64::from(self.parts);
        let info = FeedInfo {
            snapshot: SnapshotId::new("5a"),
            steps: self.steps,
            rows,
            dropped: 0,
            lanes: 1,
            order_rules: OrderRules::FIRST,
            mixture: Vec::new(),
            vocabularies: std::collections::BTreeMap::new(),
            nulls: std::collections::BTreeMap::new(),
            warnings: vec![],
        };
        let mut endpoint = FlightEndpoint::new().with_ticket(Ticket::new(command));
        for location in self.locations.lock().unwrap().iter() {
            endpoint = endpoint.with_location(location);
        }
        let answer = FlightInfo::new()
            .try_with_schema(&Self::schema())
            .map_err(|error| Status::internal(error.to_string()))?
            .with_endpoint(endpoint)
            .with_app_metadata(info.to_json());
        Ok(Response::new(answer))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        let asked = FeedRequest::parse(&request.into_inner().ticket)
            .map_err(|_| Error::new(Code::BadTicket, "no ticket of this fleet"))?;
        self.opened.lock().unwrap().push((asked.epoch, asked.start_step));
        Ok(Response::new(self.stream(asked.epoch, asked.start_step)))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        Err(Status::unimplemented("fake"))
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        Err(Status::unimplemented("fake"))
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        Err(Status::unimplemented("fake"))
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        Err(Status::unimplemented("fake"))
    }

    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        Err(Status::unimplemented("fake"))
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        Err(Status::unimplemented("fake"))
    }

    async fn do_action(&self, _: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        Err(Status::unimplemented("fake"))
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        Err(Status::unimplemented("fake"))
    }
}
