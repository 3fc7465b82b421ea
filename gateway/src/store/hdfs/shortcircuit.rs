//! Replicas on this machine, read from the files that their DataNode lends: Hadoop's short-circuit reads.
//!
//! In: a block, a DataNode that holds it, and which bytes. Out: those bytes, or that they must come over the network.
//! The promise: what is put in its place has matched its checksums; whatever a DataNode refuses or fails to lend is
//! read from it over the network instead, and it is not asked again for a while. Files are given back some minutes
//! after they were lent, so that what is deleted meanwhile frees its place.

mod lender;
mod replica;

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use metrics::counter;
use tokio::net::lookup_host;
use tokio::time::{Instant, timeout};

use self::replica::Replica;
use super::blocks::{Address, Block};
use super::connection::TransferError;

/// Replicas whose files are held open, two files each; Hadoop's client holds as many.
const HELD: usize = 128;
/// Files older than this are given back, as Hadoop's client does.
const LENT: Duration = Duration::from_mins(5);
/// A DataNode that does not lend is asked again after this, as Hadoop's client does.
const REFUSED: Duration = Duration::from_mins(10);

pub(super) struct ShortCircuit {
    /// The path of a DataNode's socket, with `_PORT` where its port stands.
    sockets: String,
    silence: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    lenders: BTreeMap<Address, Lender>,
    held: BTreeMap<Key, (Arc<Replica>, Instant)>,
}

/// Where a DataNode lends.
#[derive(Clone)]
enum Lender {
    /// It is on another machine.
    Elsewhere,
    Socket(PathBuf),
    Refused(Instant),
}

/// A replica: of which DataNode, and which version of which block.
type Key = (Address, String, u64, u64);

impl ShortCircuit {
    pub(super) fn new(sockets: String, silence: Duration) -> Self {
        Self { sockets, silence, state: Mutex::default() }
    }

    /// Appends bytes of a block to `into`; false if they, or the rest of them, must come over the network.
    ///
    /// # Errors
    /// When they are there and not what was written.
    pub(super) async fn read(
        &self,
        address: &Address,
        block: &Block,
        range: Range<u64>,
        into: &mut BytesMut,
    ) -> Result<bool, TransferError> {
        let Some(replica) = self.replica(address, block).await else { return Ok(false) };
        let before = into.len();
        let (mut place, of) = (std::mem::take(into), Arc::clone(&replica));
        let reading = tokio::task::spawn_blocking(move || {
            let read = of.read(range, &mut place);
            (place, read)
        });
        let (place, read) = reading.await.expect("reading a file does not panic");
        *into = place;
        counter!("penstock_gateway_hdfs_short_circuit_bytes_total").increment((into.len() - before) as u64);
        match read {
            Ok(()) => Ok(true),
            Err(TransferError::Broken(error)) => {
                self.refused(address, &TransferError::Broken(error));
                Ok(false)
            }
            Err(error) => {
                self.state().held.remove(&key(address, block));
                Err(error)
            }
        }
    }

    /// The files of a replica, held or lent now.
    async fn replica(&self, address: &Address, block: &Block) -> Option<Arc<Replica>> {
        let socket = self.socket(address).await?;
        let key = key(address, block);
        {
            let mut state = self.state();
            state.held.retain(|_, (_, since)| since.elapsed() < LENT);
            if let Some((replica, _)) = state.held.get(&key) {
                return Some(Arc::clone(replica));
            }
        }
        let lent = timeout(self.silence, lender::borrow(&socket, block, self.silence)).await;
        match lent.unwrap_or(Err(TransferError::Silent(self.silence))) {
            Ok(replica) => {
                let replica = Arc::new(replica);
                self.state().hold(key, &replica);
                Some(replica)
            }
            Err(error) => {
                self.refused(address, &error);
                None
            }
        }
    }

    /// Where a DataNode lends, if it is on this machine and does.
    async fn socket(&self, address: &Address) -> Option<PathBuf> {
        let known = self.state().lenders.get(address).cloned();
        let lender = match known {
            Some(Lender::Refused(since)) if since.elapsed() < REFUSED => return None,
            Some(Lender::Refused(_)) | None => self.look_for(address).await,
            Some(lender) => lender,
        };
        match lender {
            Lender::Socket(path) => Some(path),
            Lender::Elsewhere | Lender::Refused(_) => None,
        }
    }

    async fn look_for(&self, address: &Address) -> Lender {
        let is_here = match timeout(self.silence, lookup_host(&**address)).await {
            // Only an address of this machine can be bound.
            Ok(Ok(mut found)) => found.any(|found| UdpSocket::bind((found.ip(), 0)).is_ok()),
            Ok(Err(_)) | Err(_) => false,
        };
        let lender = match address.rsplit_once(':') {
            Some((_, port)) if is_here => Lender::Socket(self.sockets.replace("_PORT", port).into()),
            _ => Lender::Elsewhere,
        };
        self.state().lenders.insert(Address::clone(address), lender.clone());
        lender
    }

    fn refused(&self, address: &Address, error: &TransferError) {
        let minutes = REFUSED.as_secs() / 60;
        tracing::warn!(datanode = %address, %error,
            "a DataNode on this machine does not lend its files; its blocks come over the network for {minutes} minutes");
        let mut state = self.state();
        state.lenders.insert(Address::clone(address), Lender::Refused(Instant::now()));
        state.held.retain(|(of, ..), _| of != address);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn hold(&mut self, key: Key, replica: &Arc<Replica>) {
        if self.held.len() >= HELD
            && let Some(oldest) =
                self.held.iter().min_by_key(|(_, (_, since))| *since).map(|(key, _)| key.clone())
        {
            self.held.remove(&oldest);
        }
        self.held.insert(key, (Arc::clone(replica), Instant::now()));
    }
}

fn key(address: &Address, block: &Block) -> Key {
    (Address::clone(address), block.id.pool.clone(), block.id.block, block.id.generation)
}

#[cfg(test)]
mod tests;
