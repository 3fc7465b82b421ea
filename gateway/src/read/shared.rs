//! One decode for all that want the same block.
//!
//! In: streams that walk through blocks. Out: chunks, each decoded once for all walks that come for it while it is
//! being decoded or is still in the cache. The promise: whoever finds a chunk in the making waits for that and for
//! nothing else; a maker that leaves or fails leaves the making to those who wait; a walk that comes too late
//! decodes for itself and holds up nobody. What waits here holds no thread.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use arrow::record_batch::RecordBatch;
use metrics::counter;
use penstock_daemon::Budget;
use penstock_proto::Effort;
use tokio::sync::watch;

use super::ahead::Coming;
use super::block::Reader;
use super::cache::{Cache, Content, Disk, Grid, Key};
use super::source::Place;
use super::{ReadError, Source};

/// What streams share of what they decode.
pub(crate) struct Shared {
    cache: Arc<Cache>,
    open: Mutex<HashMap<Key, Weak<Open>>>,
}

/// What a stream reads, and with whom.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) content: Content,
    pub(crate) shared: Arc<Shared>,
}

/// A block that streams read, or are about to.
pub(super) struct Open {
    shared: Arc<Shared>,
    key: Key,
    grid: Grid,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    walks: usize,
    /// Whether there has been a walk: those that meet want the block once.
    is_walked: bool,
    /// Readers that wait for a walk to come where they are; no more than there are walks, for these have leased
    /// the memory.
    readers: Vec<Reader>,
    making: Vec<(u64, Made)>,
    /// Bytes that were sent for, and the chunk that they begin with.
    coming: Option<(u64, Coming)>,
}

/// Where a chunk will be, and what it cost; closed without it when its maker gave up.
type Made = watch::Receiver<Option<(RecordBatch, Effort)>>;

/// One stream's way through a block.
pub(super) struct Walk(Arc<Open>);

/// What there is to do for a chunk.
enum Turn<'a> {
    Take(RecordBatch),
    Wait(Made),
    Make(Box<Making<'a>>),
}

/// A chunk in the making; it ends with this.
struct Making<'a> {
    open: &'a Open,
    index: u64,
    reader: Option<Reader>,
    coming: Option<Coming>,
    made: watch::Sender<Option<(RecordBatch, Effort)>>,
}

impl Shared {
    /// Up to `cache_bytes` of what nobody leases hold what was decoded, and the disk what they do not.
    pub(crate) fn new(budget: &Budget, cache_bytes: u64, disk: Option<Disk>) -> Arc<Self> {
        Arc::new(Self { cache: Cache::new(budget, cache_bytes, disk), open: Mutex::default() })
    }

    /// A block as others read it already, under one of its names; or else cut as by `grid`, under the first.
    pub(super) fn open(self: &Arc<Self>, keys: impl Iterator<Item = Key>, grid: Grid) -> Arc<Open> {
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut first = None;
        for key in keys {
            if let Some(open) = all.get(&key).and_then(Weak::upgrade) {
                if open.grid.is_near(grid.chunk_rows) {
                    return open;
                }
            } else if let Some(known) = self.cache.grid(&key)
                && known.is_near(grid.chunk_rows)
            {
                return self.enter(&mut all, key, known);
            }
            first.get_or_insert(key);
        }
        let first = first.expect("a block has a name");
        self.enter(&mut all, first, grid)
    }

    fn enter(self: &Arc<Self>, all: &mut HashMap<Key, Weak<Open>>, key: Key, grid: Grid) -> Arc<Open> {
        let open = Arc::new(Open { shared: Arc::clone(self), key, grid, state: Mutex::default() });
        all.insert(key, Arc::downgrade(&open));
        open
    }
}

impl Open {
    pub(super) fn grid(&self) -> Grid {
        self.grid
    }

    /// Has bytes of the chunks from `index` on sent for by `send`, if nobody has, makes or fetches them, nor stands
    /// before them. False if that was wanted and not done.
    pub(super) fn send_for(&self, index: u64, send: impl FnOnce() -> Option<Coming>) -> bool {
        let mut state = self.state();
        let is_cold = state.readers.is_empty() && state.making.is_empty() && state.coming.is_none();
        if is_cold && !self.shared.cache.has(&self.key, index) {
            state.coming = send().map(|coming| (index, coming));
            return state.coming.is_some();
        }
        true
    }

    fn turn(&self, index: u64) -> Turn<'_> {
        let mut state = self.state();
        if let Some((_, made)) = state.making.iter().find(|(making, _)| *making == index) {
            return Turn::Wait(made.clone());
        }
        if let Some(batch) = self.shared.cache.get(&self.key, index) {
            return Turn::Take(batch);
        }
        let (made, is_made) = watch::channel(None);
        state.making.push((index, is_made));
        let found = state.readers.iter().position(|reader| reader.index() == index);
        let reader = found.map(|place| state.readers.swap_remove(place));
        let coming = state.coming.take_if(|(first, _)| *first == index).map(|(_, coming)| coming);
        Turn::Make(Box::new(Making { open: self, index, reader, coming, made }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut all = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Another may have been opened under the same name since.
        if all.get(&self.key).is_some_and(|open| open.strong_count() == 0) {
            all.remove(&self.key);
        }
    }
}

impl Walk {
    pub(super) fn new(open: Arc<Open>) -> Self {
        let mut state = open.state();
        state.walks += 1;
        if !std::mem::replace(&mut state.is_walked, true) {
            open.shared.cache.want(open.key);
        }
        drop(state);
        Self(open)
    }

    pub(super) fn grid(&self) -> Grid {
        self.0.grid
    }

    /// A chunk of the block, which is at `place` in `source`.
    pub(super) async fn chunk(
        &self,
        source: &Arc<Source>,
        place: &Place,
        index: u64,
    ) -> Result<RecordBatch, ReadError> {
        loop {
            match self.0.turn(index) {
                Turn::Take(batch) => return Ok(batch),
                Turn::Make(making) => return making.make(source, place).await,
                Turn::Wait(mut made) => {
                    if made.wait_for(Option::is_some).await.is_ok()
                        && let Some((batch, effort)) = made.borrow().clone()
                    {
                        // It waited for what the maker waited for.
                        source.spent().add(effort);
                        counter!("penstock_gateway_cache_shared_total").increment(1);
                        return Ok(batch);
                    }
                }
            }
        }
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.walks -= 1;
        state.bound_readers();
    }
}

impl State {
    /// Who is furthest behind goes first: it is wanted by those alone who would have come by now.
    fn bound_readers(&mut self) {
        self.readers.sort_unstable_by_key(Reader::index);
        let surplus = self.readers.len().saturating_sub(self.walks);
        self.readers.drain(..surplus);
    }
}

impl Making<'_> {
    async fn make(mut self, source: &Arc<Source>, place: &Place) -> Result<RecordBatch, ReadError> {
        let Open { shared, key, grid, .. } = self.open;
        let asked = Instant::now();
        let kept = shared.cache.read(*key, *grid, self.index, source.schema(), self.reader.is_some()).await;
        let (batch, effort) = match kept {
            Some(batch) => (batch, Effort { store: asked.elapsed(), ..Effort::default() }),
            None => self.decode(source, place).await?,
        };
        // Found there by all who come from now on, before it is in the making no more.
        shared.cache.put(*key, *grid, self.index, &batch);
        source.spent().add(effort);
        self.made.send_replace(Some((batch.clone(), effort)));
        Ok(batch)
    }

    async fn decode(
        &mut self,
        source: &Arc<Source>,
        place: &Place,
    ) -> Result<(RecordBatch, Effort), ReadError> {
        counter!("penstock_gateway_cache_misses_total").increment(1);
        let grid = self.open.grid;
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => Reader::open(source, place, grid, self.index, self.coming.take()).await?,
        };
        let (mut reader, batch) = reader.next(source, place).await?;
        let effort = reader.take_effort();
        if reader.index() < grid.chunks() {
            let mut state = self.open.state();
            state.readers.push(reader);
            state.bound_readers();
        }
        Ok((batch, effort))
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.open.state().making.retain(|(index, _)| *index != self.index);
    }
}
