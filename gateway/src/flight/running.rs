//! The streams that run, so that a client can end them by their ticket.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// All streams of a gateway.
#[derive(Clone, Default)]
pub(crate) struct Running(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    next: u64,
    streams: BTreeMap<u64, (Vec<u8>, CancellationToken)>,
}

/// One stream's place in the table, for as long as it lives.
pub(crate) struct Entered {
    running: Running,
    number: u64,
    token: CancellationToken,
}

impl Running {
    pub(crate) fn enter(&self, ticket: &[u8]) -> Entered {
        let token = CancellationToken::new();
        let mut table = self.table();
        let number = table.next;
        table.next += 1;
        table.streams.insert(number, (ticket.to_owned(), token.clone()));
        metrics::gauge!("penstock_gateway_streams").set(table.streams.len() as f64);
        Entered { running: self.clone(), number, token }
    }

    /// Ends the streams of a ticket; says how many there were.
    pub(crate) fn cancel(&self, ticket: &[u8]) -> usize {
        let table = self.table();
        let found = table.streams.values().filter(|(of, _)| of == ticket);
        found.map(|(_, token)| token.cancel()).count()
    }

    pub(crate) fn count(&self) -> usize {
        self.table().streams.len()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entered {
    /// Resolves when the stream's ticket is cancelled.
    pub(crate) async fn cancelled(&self) {
        self.token.cancelled().await;
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut table = self.running.table();
        table.streams.remove(&self.number);
        metrics::gauge!("penstock_gateway_streams").set(table.streams.len() as f64);
    }
}
