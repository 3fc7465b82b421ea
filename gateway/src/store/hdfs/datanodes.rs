//! A cluster's DataNodes, as far as blocks are read from them by ourselves.
//!
//! In: a block and which of its bytes. Out: those bytes, from whichever replica gives them. The promise: a
//! DataNode that failed or was slow is asked last for a while; what one gave before it failed is kept; a
//! connection is used again as long as a DataNode keeps it. It knows no files.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use tokio::time::Instant;

use super::blocks::{Address, Block};
use super::connection::{Connection, TransferError};
use super::shortcircuit::ShortCircuit;

/// DataNodes close what was idle for 4 s.
const KEPT: Duration = Duration::from_secs(3);
/// Idle connections to one DataNode; more are of no use to so many ranges at once.
const IDLE: usize = 16;
/// A DataNode that failed is asked after the others for this long.
const SHUNNED: Duration = Duration::from_secs(30);

pub(super) struct DataNodes {
    /// Those on this machine, if they lend their files.
    short_circuit: Option<ShortCircuit>,
    silence: Duration,
    idle: Mutex<BTreeMap<Address, Vec<(Connection, Instant)>>>,
    shunned: Mutex<BTreeMap<Address, Instant>>,
}

/// Who is being asked right now by the attempts at one range.
#[derive(Default)]
pub(super) struct Asked(Mutex<Vec<Address>>);

/// One of [`Asked`], as long as it is.
struct Asking<'a>(&'a Asked, Address);

impl DataNodes {
    /// No step may take longer than `silence`. Who is on this machine lends files at `sockets`.
    pub(super) fn new(silence: Duration, sockets: Option<&str>) -> Self {
        let short_circuit = sockets.map(|path| ShortCircuit::new(path.to_owned(), silence));
        Self { short_circuit, silence, idle: Mutex::default(), shunned: Mutex::default() }
    }

    /// Appends bytes of a block to `into`, whose capacity they fit in. Who is in `asked` already is asked last.
    ///
    /// # Errors
    /// What each replica did.
    pub(super) async fn read(
        &self,
        block: &Block,
        range: Range<u64>,
        asked: &Asked,
        into: &mut BytesMut,
    ) -> Result<(), String> {
        let (begin, mut tried) = (into.len() as u64, Vec::new());
        for address in self.order(&block.replicas, asked) {
            let _asking = asked.begin(&address);
            let at = range.start + (into.len() as u64 - begin);
            let Err(error) = self.read_replica(&address, block, at..range.end, into).await else {
                return Ok(());
            };
            if matches!(error, TransferError::Packet(_)) {
                tracing::warn!(datanode = %address, block = block.id.block, %error, "a replica is bad");
            }
            metrics::counter!("penstock_gateway_hdfs_failed_replicas_total").increment(1);
            self.shun(&address);
            tried.push(format!("{address}: {error}"));
        }
        if tried.is_empty() {
            tried.push("no DataNode is known to hold it".to_owned());
        }
        Err(format!("block {}: {}", block.id.block, tried.join("; ")))
    }

    /// Asks those who are asked right now after all others, for they are slow.
    pub(super) fn shun_slow(&self, asked: &Asked) {
        asked.now().iter().for_each(|address| self.shun(address));
    }

    async fn read_replica(
        &self,
        address: &Address,
        block: &Block,
        range: Range<u64>,
        into: &mut BytesMut,
    ) -> Result<(), TransferError> {
        let begin = into.len() as u64;
        if let Some(lent) = &self.short_circuit
            && lent.read(address, block, range.clone(), into).await?
        {
            return Ok(());
        }
        let range = range.start + (into.len() as u64 - begin)..range.end;
        let mut answered = None;
        // A kept connection may have been closed since: that says nothing of the DataNode.
        while let Some(mut connection) = self.kept(address) {
            match connection.ask(block, &range).await {
                Ok(sums) => {
                    answered = Some((connection, sums));
                    break;
                }
                Err(TransferError::Closed | TransferError::Broken(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let (mut connection, sums) = match answered {
            Some(answered) => answered,
            None => {
                let mut connection = Connection::open(address, self.silence).await?;
                let sums = connection.ask(block, &range).await?;
                (connection, sums)
            }
        };
        connection.receive(sums, range, into).await?;
        self.keep(address, connection);
        Ok(())
    }

    /// The nearest first; who is asked by others, then who failed, at the end.
    fn order(&self, replicas: &[Address], asked: &Asked) -> Vec<Address> {
        let asked = asked.now();
        let mut shunned = self.shunned.lock().unwrap_or_else(PoisonError::into_inner);
        shunned.retain(|_, since| since.elapsed() < SHUNNED);
        let mut order = replicas.to_vec();
        order.sort_by_key(|address| (asked.contains(address), shunned.contains_key(address)));
        order
    }

    fn shun(&self, address: &Address) {
        let mut shunned = self.shunned.lock().unwrap_or_else(PoisonError::into_inner);
        shunned.insert(Address::clone(address), Instant::now());
    }

    fn kept(&self, address: &Address) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.get_mut(address)?;
        kept.retain(|(_, since)| since.elapsed() < KEPT);
        kept.pop().map(|(connection, _)| connection)
    }

    fn keep(&self, address: &Address, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody else closes those of DataNodes that are not asked any more.
        idle.retain(|_, kept| {
            kept.retain(|(_, since)| since.elapsed() < KEPT);
            !kept.is_empty()
        });
        let kept = idle.entry(Address::clone(address)).or_default();
        if kept.len() < IDLE {
            kept.push((connection, Instant::now()));
        }
    }
}

impl Asked {
    fn begin(&self, address: &Address) -> Asking<'_> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Address::clone(address));
        Asking(self, Address::clone(address))
    }

    fn now(&self) -> Vec<Address> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut asked = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = asked.iter().position(|address| *address == self.1) {
            asked.swap_remove(index);
        }
    }
}

#[cfg(test)]
mod tests;
