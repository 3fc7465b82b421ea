//! `penstock inspect`: what is in a dataset, and how a feed of it would be planned.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use penstock_daemon::Budget;
use penstock_gateway::config::{ConfigFile, DEFAULT_MEMORY_BYTES};
use penstock_gateway::count::{Counter, nulls};
use penstock_gateway::dataset::inspect::{Filtered, Inspection};
use penstock_gateway::dataset::{Dataset, Snapshot};
use penstock_gateway::plan::Order;
use penstock_gateway::store::Stores;
use penstock_proto::FeedRequest;

use crate::{cloud, hadoop};

/// Show a dataset's files, rows, columns and snapshot, and the plan that an order makes of it.
///
/// Reads footers only, whatever the size; with a filter, its columns where statistics do not decide.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A file, a directory or a glob of Parquet, here or behind hdfs://, s3://, gs://, az:// or https://; several URIs in
    /// one argument, with spaces between, are one dataset.
    #[arg(required = true, value_name = "URI")]
    uris: Vec<String>,

    /// Rows of a global batch.
    #[arg(long, value_name = "ROWS", default_value_t = 1024)]
    batch_size: u64,

    /// How far rows move between epochs: none, blocks or rows.
    #[arg(long, default_value = "none")]
    shuffle: String,

    /// What becomes of the rows that fill no whole batch: drop, pad or keep.
    #[arg(long, default_value = "drop")]
    remainder: String,

    /// Lanes of the order [default: the plan chooses].
    #[arg(long)]
    lanes: Option<u32>,

    /// Plan the rows that pass a SQL condition, and tell how many do.
    #[arg(long, value_name = "CONDITION")]
    filter: Option<String>,

    #[command(flatten)]
    hadoop: hadoop::HdfsOptions,

    #[command(flatten)]
    cloud: cloud::CloudOptions,
}

const EXAMPLES: &str = "\
Examples:
  penstock inspect data/train
  penstock inspect 'data/*.parquet' --batch-size 256 --shuffle rows --remainder pad
  penstock inspect data/train --filter 'price > 3 AND y IS NOT NULL'
  penstock inspect s3://bucket/data --store-option aws_region=eu-west-1";

/// Blocks wait for each other's memory and for nobody else's.
const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let order = order(&args)?;
    let nothing = ConfigFile::default();
    let stores = Stores::new(args.hadoop.resolve(&nothing)?).with_cloud(args.cloud.resolve(&nothing)?);
    let runtime = tokio::runtime::Runtime::new().context("cannot start the async runtime")?;
    for uri in &args.uris {
        let dataset = Dataset::open(uri.as_str(), uri, &stores)?;
        let snapshot = runtime.block_on(dataset.snapshot())?;
        let filtered = match &args.filter {
            Some(filter) => Some(runtime.block_on(filtered(&snapshot, filter))?),
            None => None,
        };
        let inspection =
            Inspection::new(dataset.location(), &snapshot, order, filtered).with_context(|| uri.clone())?;
        let inspection = inspection.with_nulls(runtime.block_on(nulls(&snapshot))?);
        let inspection = inspection.with_fed_as(penstock_sidecar::fed_as);
        write!(std::io::stdout(), "{inspection}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Counts as a gateway does that has nothing else to do.
async fn filtered(snapshot: &Arc<Snapshot>, text: &str) -> anyhow::Result<Filtered> {
    let filter = Arc::new(snapshot.filter(text)?);
    let counter = Counter::new(Budget::new(DEFAULT_MEMORY_BYTES), PATIENCE, None);
    let (counts, tally) = counter.count(snapshot, &filter).await?;
    Ok(Filtered { text: filter.text().to_owned(), counts, tally })
}

/// Checked as a feed's order is, by the words of a feed.
fn order(args: &Args) -> anyhow::Result<Order> {
    let command = serde_json::json!({
        "dataset": "inspected",
        "batch_size": args.batch_size,
        "shuffle": args.shuffle,
        "remainder": args.remainder,
        "lanes": args.lanes,
    });
    Ok(Order::from(&FeedRequest::parse(command.to_string().as_bytes())?.feed))
}
