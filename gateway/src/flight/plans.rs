//! Plans, made once for all ranks that ask for the same.
//!
//! In: a snapshot and a feed. Out: the feed's columns and plan, and what reading its blocks takes. Making
//! one costs a look at every column of every block, and where a filter was never counted, or texts never
//! collected, a pass over those columns; the ranks of a large world ask at the same moment.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use penstock_proto::feed::VALID_COLUMN;
use penstock_proto::{Code, Error, Feed, NullsInfo, Remainder};
use tokio::sync::OnceCell;

use crate::count::{Counter, Counts, told_nulls};
use crate::dataset::{DatasetError, Projection, Snapshot, Vocabulary};
use crate::partition::Partition;
use crate::plan::{Order, Plan};
use crate::read::{BlockBytes, Content, Passing, Reading, Share, Shared, View, block_bytes, on_cpu};

/// Plans kept: a few feeds in training, each with and without its lanes said.
const KEPT: usize = 16;

/// A feed over a snapshot.
pub(crate) struct Planned {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) projection: Projection,
    /// Of the columns that are fed as codes, in the order in which the feed names them.
    pub(crate) vocabularies: Arc<[Arc<Vocabulary>]>,
    pub(crate) view: View,
    pub(crate) plan: Arc<Plan>,
    /// The filter there is, and what passes it.
    pub(crate) passing: Option<Passing>,
    /// What tickets carry of what was counted.
    pub(crate) counts: Option<String>,
    /// What is told of its nulls, once somebody asked.
    nulls: OnceCell<BTreeMap<String, NullsInfo>>,
    /// Bytes of all rows once decoded, about.
    pub(crate) decoded_bytes: u128,
    /// What decoding its blocks holds.
    pub(crate) block_bytes: BlockBytes,
}

/// The plans made lately, and what was counted for them.
pub(crate) struct Plans {
    /// The oldest first.
    kept: Mutex<VecDeque<(Feed, Arc<Planned>)>>,
    counter: Counter,
    shared: Arc<Shared>,
}

impl Plans {
    pub(crate) fn new(counter: Counter, shared: Arc<Shared>) -> Self {
        Self { kept: Mutex::default(), counter, shared }
    }

    /// The plan of a feed over a snapshot.
    ///
    /// # Errors
    /// When the snapshot lacks a column, the filter's rows cannot be counted, or the feed's numbers make no
    /// plan.
    pub(crate) async fn plan(&self, snapshot: &Arc<Snapshot>, feed: &Feed) -> Result<Arc<Planned>, Error> {
        if let Some(known) = self.find(snapshot, feed) {
            return Ok(known);
        }
        let mut projection = project(snapshot, feed)?;
        let mut vocabularies = Arc::default();
        if !feed.codes.is_empty() {
            let texts = projection.texts(&feed.codes).map_err(refused)?;
            let name = format!("{:?}", (&feed.codes, &feed.select));
            vocabularies = self.counter.vocabularies(snapshot, name, texts).await?;
            projection = projection.with_codes(&feed.codes, &vocabularies);
        }
        let filtered = match &feed.filter {
            None => None,
            Some(text) => {
                let filter = Arc::new(snapshot.filter(text).map_err(refused)?);
                let (counts, _) = self.counter.count(snapshot, &filter).await?;
                let rows = Arc::clone(&counts.rows);
                Some((Passing { filter, counts: rows }, counts))
            }
        };
        let (held, of) = (Arc::clone(snapshot), feed.clone());
        let view = View { content: content(snapshot, &projection, feed), shared: Arc::clone(&self.shared) };
        let made = on_cpu(move || Planned::new(held, projection, vocabularies, view, filtered, &of)).await;
        let planned = Arc::new(made.unwrap_or_else(|panic| Err(Error::chain(Code::Internal, &panic)))?);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back((feed.clone(), Arc::clone(&planned)));
        if kept.len() > KEPT {
            kept.pop_front();
        }
        Ok(planned)
    }

    fn find(&self, snapshot: &Arc<Snapshot>, feed: &Feed) -> Option<Arc<Planned>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().find(|(of, planned)| of == feed && planned.snapshot.id == snapshot.id);
        found.map(|(_, planned)| Arc::clone(planned))
    }
}

impl Planned {
    /// What a rank reads of it in any epoch.
    pub(crate) fn reading(&self, partition: Partition, share: Share) -> Reading {
        Reading {
            snapshot: Arc::clone(&self.snapshot),
            projection: self.projection.clone(),
            plan: Arc::clone(&self.plan),
            passing: self.passing.clone(),
            view: self.view.clone(),
            partition,
            share: Arc::new(share),
        }
    }

    /// Columns that statistics tell to hold nulls; nothing of a feed whose filter may leave those rows out.
    pub(crate) async fn look_for_nulls(&self) {
        let look = async {
            let columns = self.projection.plain();
            let places: Vec<usize> = columns.iter().map(|&(_, place)| place).collect();
            let told = told_nulls(&self.snapshot, &places).await.into_iter().zip(columns);
            told.filter_map(|(told, (name, _))| Some((name.to_owned(), told?))).collect()
        };
        if self.passing.is_none() {
            self.nulls.get_or_init(|| look).await;
        }
    }

    /// What was found by [`look_for_nulls`](Self::look_for_nulls).
    pub(crate) fn nulls(&self) -> BTreeMap<String, NullsInfo> {
        self.nulls.get().cloned().unwrap_or_default()
    }

    /// Bytes of a row, about.
    pub(crate) fn row_bytes(&self) -> u64 {
        let bytes = self.decoded_bytes.div_ceil(u128::from(self.plan.rows().max(1)));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    fn new(
        snapshot: Arc<Snapshot>,
        projection: Projection,
        vocabularies: Arc<[Arc<Vocabulary>]>,
        view: View,
        filtered: Option<(Passing, Counts)>,
        feed: &Feed,
    ) -> Result<Self, Error> {
        let (passing, counts) = filtered.unzip();
        let rows = counts.as_ref().map(|counts: &Counts| counts.rows.as_ref());
        let shapes = snapshot.block_shapes(&projection, rows);
        let plan = Plan::new(&shapes, Order::from(feed)).map_err(|e| Error::chain(Code::InvalidFeed, &e))?;
        let plan = Arc::new(plan);
        let decoded_bytes = shapes.iter().map(|shape| u128::from(shape.bytes)).sum();
        let block_bytes = block_bytes(&snapshot, &projection, passing.as_ref());
        let counts = counts.map(|counts| counts.digest);
        Ok(Self {
            snapshot,
            projection,
            vocabularies,
            view,
            plan,
            passing,
            counts,
            nulls: OnceCell::new(),
            decoded_bytes,
            block_bytes,
        })
    }
}

/// The columns that a feed wants.
fn project(snapshot: &Snapshot, feed: &Feed) -> Result<Projection, Error> {
    let projection =
        if feed.select.is_empty() { snapshot.project(&feed.columns) } else { snapshot.select(&feed.select) };
    let projection = projection.map_err(refused)?;
    if feed.remainder == Remainder::Pad && projection.schema().column_with_name(VALID_COLUMN).is_some() {
        let message = format!(
            "remainder \"pad\" adds a column {VALID_COLUMN:?}, but the dataset has one of that name: name the \
             columns you want without it, or choose another remainder"
        );
        return Err(Error::new(Code::InvalidFeed, message));
    }
    Ok(projection)
}

/// What makes rows the same, whatever the order in which they are fed.
fn content(snapshot: &Snapshot, projection: &Projection, feed: &Feed) -> Content {
    // Columns by name, however they were asked for; expressions as they were written.
    let columns: Vec<_> = projection.schema().fields().iter().map(|field| field.name()).collect();
    let filter = feed.filter.as_deref().map(str::trim);
    Content::of(&format!("{:?}", (&snapshot.id, columns, &feed.select, &feed.codes, filter)))
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err wants it")]
fn refused(error: DatasetError) -> Error {
    Error::chain(error.code(), &error)
}
