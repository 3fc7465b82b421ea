//! Datasets on HDFS, and gateways that serve them.

use std::path::Path;
use std::time::Duration;

use arrow_flight::decode::FlightRecordBatchStream;
use futures::TryStreamExt as _;
use penstock_gateway::config::HdfsConfig;
use penstock_gateway::dataset::Dataset;
use penstock_gateway::store::Stores;
use penstock_gateway::{Config, StartError};
use penstock_proto::Error;
use penstock_tests::data::{self, Shape};
use penstock_tests::hdfs::Bed;

use crate::reader::ids;
pub(crate) use crate::reader::{LONG, Served, assert_whole, rest};

/// Rows of 4 KiB, too many to lie in sockets, windows and what two lanes send for ahead, while a reader waits.
pub(crate) const LARGE: Shape = Shape { files: 12, rows_per_file: 1000, row_group: 250, payload: Some(4096) };

/// Blocks of 1 MiB, so that a file has several.
pub(crate) const SMALL_BLOCKS: &[&str] =
    &["-D", "dfs.blocksize=1048576", "-D", "dfs.namenode.fs-limits.min-block-size=1048576"];

/// Puts rows of a shape into HDFS.
pub(crate) fn put(bed: &mut Bed, shape: Shape, remote: &str) {
    let local = bed.scratch().join("rows");
    data::write(&local, shape);
    bed.put(&local, remote);
    std::fs::remove_dir_all(local).unwrap();
}

/// The configuration that a bed wrote, with small deadlines and other settings.
pub(crate) fn config(conf: &Path, options: &[(&str, &str)]) -> HdfsConfig {
    let said = [("ipc.client.rpc-timeout.ms", "1000"), ("dfs.client.socket-timeout", "2000")];
    let options =
        said.iter().chain(options).map(|(name, value)| (name.to_string(), value.to_string())).collect();
    HdfsConfig { conf_dir: Some(conf.to_owned()), options, ..HdfsConfig::from_environment() }
}

pub(crate) fn dataset(uri: &str, hdfs: &HdfsConfig) -> Dataset {
    Dataset::open("d", uri, &Stores::new(hdfs.clone())).unwrap()
}

/// What a user would be told of a dataset that cannot be looked at, in bounded time.
pub(crate) async fn refusal(dataset: &Dataset, within: Duration) -> Error {
    let looked = tokio::time::timeout(within, dataset.snapshot()).await;
    match looked.expect("the refusal comes in time") {
        Ok(_) => panic!("{} makes a snapshot", dataset.location()),
        Err(error) => Error::chain(error.code(), &error),
    }
}

impl Served {
    pub(crate) async fn new(uri: &str, hdfs: HdfsConfig) -> Self {
        Self::start(uri, hdfs).await.unwrap()
    }

    pub(crate) async fn start(uri: &str, hdfs: HdfsConfig) -> Result<Self, StartError> {
        Self::over(Config { hdfs, ..Config::new("127.0.0.1:0") }, uri, Some(2)).await
    }
}

/// The ids of the next batch.
pub(crate) async fn next(stream: &mut FlightRecordBatchStream) -> Vec<i64> {
    ids(&stream.try_next().await.unwrap().unwrap())
}
