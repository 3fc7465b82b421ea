//! An in-process gateway, and a stock Flight client that reads its one dataset: what suites of stores share.

use std::collections::BTreeSet;
use std::time::Duration;

use arrow::array::AsArray as _;
use arrow::datatypes::Int64Type;
use arrow::record_batch::RecordBatch;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{FlightClient, FlightDescriptor};
use futures::TryStreamExt as _;
use penstock_daemon::Drain;
use penstock_gateway::{Config, Gateway, StartError};
use penstock_proto::Error;
use penstock_tests::data::{self, Shape};
use serde_json::json;
use tonic::transport::Endpoint;

/// Far longer than anything takes that ends.
pub(crate) const LONG: Duration = Duration::from_secs(120);

pub(crate) struct Served {
    pub(crate) location: String,
    pub(crate) drain: Drain,
    pub(crate) lanes: Option<u32>,
}

impl Served {
    /// Serves a dataset from the stores that `config` knows of; streams have so many lanes, or as the plan chooses.
    pub(crate) async fn over(mut config: Config, uri: &str, lanes: Option<u32>) -> Result<Self, StartError> {
        config.datasets = vec![("d".to_owned(), uri.to_owned())];
        // What is fed comes from the store each time: it is the store that is put to the test.
        config.cache_bytes = Some(0);
        let drain = Drain::new();
        let bound = Gateway::start(config, &drain).await?;
        Ok(Self { location: bound.location, drain, lanes })
    }

    /// The batches of one rank of a shuffled epoch, to be read at leisure.
    pub(crate) async fn rank(&self, rank: u32, world: u32) -> Result<FlightRecordBatchStream, Error> {
        let command = json!({
            "dataset": "d", "batch_size": 100, "shuffle": "rows", "shuffle_bytes": 4 << 20, "seed": 7,
            "lanes": self.lanes, "remainder": "keep", "rank": rank, "world_size": world,
        });
        let address = self.location.replacen("grpc://", "http://", 1);
        let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
        let mut client = FlightServiceClient::new(channel);
        let descriptor = FlightDescriptor::new_cmd(command.to_string());
        let info = client.get_flight_info(descriptor).await?.into_inner();
        let ticket = info.endpoint[0].ticket.clone().unwrap();
        FlightClient::new_from_inner(client).do_get(ticket).await.map_err(told)
    }

    /// The ids of all ranks of an epoch.
    pub(crate) async fn epoch(&self, world: u32) -> Result<Vec<i64>, Error> {
        let ranks = (0..world).map(async |rank| rest(self.rank(rank, world).await?).await);
        Ok(futures::future::try_join_all(ranks).await?.concat())
    }

    pub(crate) async fn end(self) {
        self.drain.begin();
        self.drain.finished(LONG).await.unwrap();
    }
}

/// The ids of all that is left of a stream; what does not come in bounded time fails the test.
pub(crate) async fn rest(stream: FlightRecordBatchStream) -> Result<Vec<i64>, Error> {
    let batches: Vec<RecordBatch> =
        tokio::time::timeout(LONG, stream.try_collect()).await.expect("the stream ends").map_err(told)?;
    Ok(batches.iter().flat_map(ids).collect())
}

pub(crate) fn ids(batch: &RecordBatch) -> Vec<i64> {
    let ids = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>().values().to_vec();
    // The batch that says the end has no rows.
    if let (Some(payload), Some(&first)) = (batch.column_by_name("payload"), ids.first()) {
        let payload = payload.as_fixed_size_binary();
        let written = data::rows_from(first as usize, 1, Some(payload.value_size()));
        let written = written.column(2).as_fixed_size_binary().value(0);
        assert!(written == payload.value(0), "the bytes are those of the row");
    }
    ids
}

fn told(error: FlightError) -> Error {
    match error {
        FlightError::Tonic(status) => Error::from(*status),
        other => panic!("{other}"),
    }
}

/// Every row once, in whatever order.
pub(crate) fn assert_whole(ids: &[i64], shape: Shape) {
    let set: BTreeSet<i64> = ids.iter().copied().collect();
    assert_eq!(set.len(), ids.len(), "no row comes twice");
    assert!(set.into_iter().eq(0..shape.rows() as i64), "every row comes: {} of {}", ids.len(), shape.rows());
}
