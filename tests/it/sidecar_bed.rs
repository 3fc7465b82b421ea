//! Gateways, a sidecar and trainers for the sidecar's stories.

use std::path::PathBuf;

use penstock_daemon::Drain;
use penstock_gateway::Gateway;
use penstock_sidecar::{Config, Sidecar};
use penstock_tests::data::{self, Shape};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) use penstock_tests::trainer::{Fed, LONG, are_all, ids_of, open, read, read_some};

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
