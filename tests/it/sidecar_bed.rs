//! Gateways, a sidecar and trainers for the sidecar's stories. A trainer is the ring's own consumer.

use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow::array::AsArray as _;
use penstock_daemon::Drain;
use penstock_gateway::Gateway;
use penstock_ring::{Batch, ColumnView, Consumer};
use penstock_sidecar::{Config, Sidecar};
use penstock_tests::data::{self, Shape};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Longer than any step takes here.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// What a trainer keeps of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fed {
    pub(crate) epoch: u64,
    pub(crate) step: u64,
    pub(crate) ids: Vec<i64>,
    /// Of `_valid`, if there is one.
    pub(crate) valid: Option<Vec<bool>>,
}

/// An in-process gateway that serves `d`, and a sidecar.
pub(crate) struct Bed {
    pub(crate) socket: PathBuf,
    pub(crate) drain: Drain,
    pub(crate) dir: TempDir,
}

impl Bed {
    pub(crate) async fn new(shape: Shape) -> Self {
        let bed = Self::without_gateway();
        let location = bed.gateway(shape, |_| {}).await;
        bed.sidecar(vec![location], |_| {});
        bed
    }

    /// Starts a gateway, after `change`; gives its location.
    pub(crate) async fn gateway(
        &self,
        shape: Shape,
        change: impl FnOnce(&mut penstock_gateway::Config),
    ) -> String {
        let data = self.dir.path().join("data");
        data::write(&data, shape);
        let mut config = penstock_gateway::Config::new("127.0.0.1:0");
        config.datasets = vec![("d".to_owned(), data.to_str().unwrap().to_owned())];
        change(&mut config);
        Gateway::start(config, &self.drain).await.unwrap().location
    }

    pub(crate) fn without_gateway() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { socket: dir.path().join("sidecar.sock"), drain: Drain::new(), dir }
    }

    /// Starts the sidecar, after `change`.
    pub(crate) fn sidecar(&self, gateways: Vec<String>, change: impl FnOnce(&mut Config)) {
        let mut config = Config::new(&self.socket);
        config.gateways = gateways;
        change(&mut config);
        Sidecar::start(config, &self.drain).unwrap();
    }

    /// All batches of every rank of a world, the ranks at the same time.
    pub(crate) async fn world(&self, feed: &Value, epochs: u64, world: u32) -> Vec<Vec<Fed>> {
        let ranks = (0..world).map(|rank| {
            let mut feed = feed.clone();
            feed["world_size"] = json!(world);
            feed["rank"] = json!(rank);
            let socket = self.socket.clone();
            tokio::task::spawn_blocking(move || read(&open(&socket, &feed, epochs)))
        });
        let ranks: Vec<_> = ranks.collect();
        futures::future::join_all(ranks).await.into_iter().map(Result::unwrap).collect()
    }

    /// Ends sidecar and gateway, and fails if something does not end.
    pub(crate) async fn end(self) {
        self.drain.begin();
        self.drain.finished(LONG).await.unwrap();
    }
}

pub(crate) fn open(socket: &Path, feed: &Value, epochs: u64) -> Consumer {
    let request = json!({"version": 1, "name": "test", "feed": feed, "epochs": epochs});
    Consumer::open(socket, &request.to_string(), LONG).unwrap()
}

/// Reads to the end, one batch at a time.
pub(crate) fn read(consumer: &Consumer) -> Vec<Fed> {
    read_some(consumer, usize::MAX)
}

/// Reads so many batches, or to the end.
pub(crate) fn read_some(consumer: &Consumer, batches: usize) -> Vec<Fed> {
    let description: Value = serde_json::from_str(consumer.description()).unwrap();
    let names: Vec<_> =
        description["columns"].as_array().unwrap().iter().map(|column| column["name"].clone()).collect();
    let all = std::iter::from_fn(|| consumer.next(LONG).unwrap()).take(batches);
    all.map(|batch| fed(&batch, &names)).collect()
}

fn fed(batch: &Batch, names: &[Value]) -> Fed {
    let column = |name: &str| -> Option<ColumnView<'_>> {
        names.iter().position(|known| known == name).map(|index| batch.column(index))
    };
    let ids = ids(&column("id").unwrap());
    if let Some(x) = column("x") {
        let halves = ids.iter().flat_map(|&id| (id as f32 / 2.0).to_le_bytes());
        assert!(halves.eq(x.data.iter().copied()), "the columns of a row stay together");
    }
    if let Some(payload) = column("payload") {
        let bytes = payload.dims[1] as usize;
        // A few of each batch: noise is slow to make.
        for (id, of_row) in ids.iter().zip(payload.data.chunks_exact(bytes)).step_by(8) {
            let row = data::rows_from(*id as usize, 1, Some(bytes));
            let written = row.column(2).as_fixed_size_binary().value(0);
            assert!(written == of_row, "the columns of a row stay together");
        }
    }
    let valid = column("_valid").map(|valid| valid.data.iter().map(|&byte| byte == 1).collect());
    Fed { epoch: batch.epoch(), step: batch.step(), ids, valid }
}

fn ids(column: &ColumnView<'_>) -> Vec<i64> {
    column.data.chunks_exact(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// The ranks' shares of every step side by side: the global batches.
pub(crate) fn global(ranks: &[Vec<Fed>]) -> Vec<Fed> {
    (0..ranks[0].len())
        .map(|i| {
            let mut whole =
                Fed { ids: Vec::new(), valid: ranks[0][i].valid.clone().map(|_| vec![]), ..ranks[0][i] };
            for share in ranks.iter().map(|rank| &rank[i]) {
                assert_eq!((share.epoch, share.step), (whole.epoch, whole.step));
                whole.ids.extend(&share.ids);
                if let (Some(whole), Some(valid)) = (&mut whole.valid, &share.valid) {
                    whole.extend(valid);
                }
            }
            whole
        })
        .collect()
}

/// The ids that count in an epoch, in order.
pub(crate) fn ids_of(batches: &[Fed], epoch: u64) -> Vec<i64> {
    let of_epoch = batches.iter().filter(|batch| batch.epoch == epoch);
    let counting = |batch: &Fed| {
        let valid = batch.valid.clone().unwrap_or_else(|| vec![true; batch.ids.len()]);
        batch.ids.iter().zip(valid).filter(|(_, valid)| *valid).map(|(id, _)| *id).collect::<Vec<_>>()
    };
    of_epoch.flat_map(counting).collect()
}

/// Whether `ids` are 0..rows, each once, in whatever order.
pub(crate) fn are_all(ids: &[i64], rows: usize) -> bool {
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    sorted.iter().copied().eq(0..rows as i64)
}
