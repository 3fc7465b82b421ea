//! A trainer, which is the ring's own consumer: what suites that feed one share.

use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use arrow::array::AsArray as _;
use penstock_ring::{Batch, ColumnView, Consumer};
use serde_json::{Value, json};

use crate::data;

/// Longer than any step takes here.
pub const LONG: Duration = Duration::from_secs(120);

/// What a trainer keeps of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fed {
    pub epoch: u64,
    pub step: u64,
    pub ids: Vec<i64>,
    /// Of `_valid`, if there is one.
    pub valid: Option<Vec<bool>>,
}

pub fn open(socket: &Path, feed: &Value, epochs: u64) -> Consumer {
    let request = json!({"version": 1, "name": "test", "feed": feed, "epochs": epochs});
    Consumer::open(socket, &request.to_string(), LONG).unwrap()
}

/// Feeds every rank of a world; `disturb` comes when each has read three tenths of its steps.
pub fn feed_ranks(socket: &Path, feed: &Value, world: u32, disturb: impl FnOnce()) -> Vec<Vec<Fed>> {
    let reached = Arc::new(Barrier::new(world as usize + 1));
    let ranks: Vec<_> = (0..world)
        .map(|rank| {
            let mut feed = feed.clone();
            feed["rank"] = json!(rank);
            let (socket, reached) = (socket.to_owned(), Arc::clone(&reached));
            thread::spawn(move || interrupted(&socket, &feed, &reached))
        })
        .collect();
    reached.wait();
    disturb();
    reached.wait();
    ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
}

fn interrupted(socket: &Path, feed: &Value, reached: &Barrier) -> Vec<Fed> {
    let consumer = open(socket, feed, 1);
    let description: Value = serde_json::from_str(consumer.description()).unwrap();
    let steps = description["steps_per_epoch"].as_u64().unwrap();
    let mut fed = read_some(&consumer, steps as usize * 3 / 10);
    reached.wait();
    reached.wait();
    fed.extend(read(&consumer));
    fed
}

/// Reads to the end, one batch at a time.
pub fn read(consumer: &Consumer) -> Vec<Fed> {
    read_some(consumer, usize::MAX)
}

/// Reads so many batches, or to the end.
pub fn read_some(consumer: &Consumer, batches: usize) -> Vec<Fed> {
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

/// The ids that count in an epoch, in order.
pub fn ids_of(batches: &[Fed], epoch: u64) -> Vec<i64> {
    let of_epoch = batches.iter().filter(|batch| batch.epoch == epoch);
    let counting = |batch: &Fed| {
        let valid = batch.valid.clone().unwrap_or_else(|| vec![true; batch.ids.len()]);
        batch.ids.iter().zip(valid).filter(|(_, valid)| *valid).map(|(id, _)| *id).collect::<Vec<_>>()
    };
    of_epoch.flat_map(counting).collect()
}

/// Whether `ids` are 0..rows, each once, in whatever order.
pub fn are_all(ids: &[i64], rows: usize) -> bool {
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    sorted.iter().copied().eq(0..rows as i64)
}
