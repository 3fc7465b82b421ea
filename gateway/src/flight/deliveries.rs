//! How far the ranks of deliveries are, as their sidecars tell it.
//!
//! In: reports. Out: standings. The promise: bounded; what is lost with this gateway is told again, to it
//! or to another, for every rank reports to all gateways until all ranks are done.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use penstock_proto::Error;
use penstock_proto::delivery::{Report, Standing};

/// Deliveries that are remembered; a job has one at a time and kind.
const MOST: usize = 1024;

#[derive(Default)]
pub(super) struct Deliveries(Mutex<Table>);

#[derive(Default)]
struct Table {
    standings: BTreeMap<String, Standing>,
    /// Names, the oldest first.
    order: VecDeque<String>,
}

impl Deliveries {
    /// Takes a report in and says how all ranks stand, as JSON.
    pub(super) fn report(&self, report: &Report) -> Result<Bytes, Error> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Table { standings, order } = &mut *table;
        if !standings.contains_key(&report.delivery) {
            order.push_back(report.delivery.clone());
            if order.len() > MOST
                && let Some(oldest) = order.pop_front()
            {
                standings.remove(&oldest);
            }
        }
        let standing =
            standings.entry(report.delivery.clone()).or_insert_with(|| Standing::new(report.world_size));
        standing.take(report)?;
        Ok(serde_json::to_vec(standing).expect("numbers are always JSON").into())
    }
}
