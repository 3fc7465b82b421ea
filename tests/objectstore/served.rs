//! Datasets in object stores, and gateways that serve them.

use penstock_daemon::Drain;
use penstock_gateway::Config;
use penstock_gateway::config::{CloudConfig, HdfsConfig};
use penstock_gateway::dataset::Dataset;
use penstock_gateway::store::Stores;
use penstock_proto::Error;
use penstock_tests::data::Shape;

use crate::reader::LONG;
pub(crate) use crate::reader::{Served, assert_whole, rest};

/// Rows of 4 KiB, too many to lie in sockets and windows while a reader waits.
pub(crate) const LARGE: Shape = Shape { files: 8, rows_per_file: 1000, row_group: 250, payload: Some(4096) };

/// One column of 24 MB in one piece, which is read as several ranges side by side.
pub(crate) const WIDE: Shape = Shape { files: 1, rows_per_file: 6000, row_group: 6000, payload: Some(4096) };

/// A store at an endpoint, asked with whatever keys, and other options.
pub(crate) fn config(endpoint: &str, options: &[(&str, &str)]) -> CloudConfig {
    let said = [
        ("aws_endpoint", endpoint),
        ("aws_access_key_id", "key"),
        ("aws_secret_access_key", "secret"),
        ("aws_region", "us-east-1"),
    ];
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    CloudConfig { options: said.iter().chain(options).map(owned).collect(), ..CloudConfig::default() }
}

pub(crate) fn dataset(uri: &str, cloud: &CloudConfig) -> Dataset {
    Dataset::open("d", uri, &Stores::new(HdfsConfig::default()).with_cloud(cloud.clone())).unwrap()
}

/// What a user would be told of a dataset that cannot be looked at, in bounded time.
pub(crate) async fn refusal(uri: &str, cloud: &CloudConfig) -> Error {
    let dataset = dataset(uri, cloud);
    let looked = tokio::time::timeout(LONG, dataset.snapshot()).await;
    match looked.expect("the refusal comes in time") {
        Ok(_) => panic!("{uri} makes a snapshot"),
        Err(error) => Error::chain(error.code(), &error),
    }
}

impl Served {
    pub(crate) async fn new(uri: &str, cloud: CloudConfig) -> Self {
        Self::over(Config { cloud, ..Config::new("127.0.0.1:0") }, uri, None).await.unwrap()
    }

    /// A gateway that somebody else has started.
    pub(crate) fn elsewhere(location: &str) -> Self {
        Self { location: location.to_owned(), drain: Drain::new(), lanes: None }
    }

    /// Of every lane there are bytes ahead: one alone bounds what was read when its reader waits.
    pub(crate) async fn in_one_lane(uri: &str, cloud: CloudConfig) -> Self {
        Self::over(Config { cloud, ..Config::new("127.0.0.1:0") }, uri, Some(1)).await.unwrap()
    }
}
