//! Plans, made once for all ranks that ask for the same.
//!
//! In: a snapshot and a feed. Out: the feed's columns and plan, and what reading its blocks takes. Making
//! one costs a look at every column of every block; the ranks of a large world ask at the same moment.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use penstock_proto::feed::VALID_COLUMN;
use penstock_proto::{Code, Error, Feed, Remainder};

use crate::dataset::{Projection, Snapshot};
use crate::plan::{Order, Plan};
use crate::read::{block_bytes, on_cpu};

/// Plans kept: a few feeds in training, each with and without its lanes said.
const KEPT: usize = 16;

/// A feed over a snapshot.
pub(crate) struct Planned {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) projection: Projection,
    pub(crate) plan: Plan,
    /// Bytes of all rows once decoded, about.
    pub(crate) decoded_bytes: u128,
    /// What decoding a block holds, of every block, the largest first.
    pub(crate) block_bytes: Vec<u64>,
}

/// The plans made lately, the oldest first.
#[derive(Default)]
pub(crate) struct Plans(Mutex<VecDeque<(Feed, Arc<Planned>)>>);

impl Plans {
    /// The plan of a feed over a snapshot.
    ///
    /// # Errors
    /// When the snapshot lacks a column, or the feed's numbers make no plan.
    pub(crate) async fn plan(&self, snapshot: &Arc<Snapshot>, feed: &Feed) -> Result<Arc<Planned>, Error> {
        if let Some(known) = self.find(snapshot, feed) {
            return Ok(known);
        }
        let (held, of) = (Arc::clone(snapshot), feed.clone());
        let made = on_cpu(move || Planned::new(held, &of)).await;
        let planned = Arc::new(made.unwrap_or_else(|panic| Err(Error::chain(Code::Internal, &panic)))?);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back((feed.clone(), Arc::clone(&planned)));
        if kept.len() > KEPT {
            kept.pop_front();
        }
        Ok(planned)
    }

    fn find(&self, snapshot: &Arc<Snapshot>, feed: &Feed) -> Option<Arc<Planned>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().find(|(of, planned)| of == feed && planned.snapshot.id == snapshot.id);
        found.map(|(_, planned)| Arc::clone(planned))
    }
}

impl Planned {
    fn new(snapshot: Arc<Snapshot>, feed: &Feed) -> Result<Self, Error> {
        let projection = snapshot.project(&feed.columns).map_err(|e| Error::chain(e.code(), &e))?;
        if feed.remainder == Remainder::Pad && projection.schema().column_with_name(VALID_COLUMN).is_some() {
            let message = format!(
                "remainder \"pad\" adds a column {VALID_COLUMN:?}, but the dataset has one of that name: name \
                 the columns you want without it, or choose another remainder"
            );
            return Err(Error::new(Code::InvalidFeed, message));
        }
        let shapes = snapshot.block_shapes(&projection);
        let plan = Plan::new(&shapes, Order::from(feed)).map_err(|e| Error::chain(Code::InvalidFeed, &e))?;
        let decoded_bytes = shapes.iter().map(|shape| u128::from(shape.bytes)).sum();
        let block_bytes = block_bytes(&snapshot, &projection);
        Ok(Self { snapshot, projection, plan, decoded_bytes, block_bytes })
    }
}
