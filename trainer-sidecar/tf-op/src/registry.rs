//! The open feeds of this process, by the numbers that graphs and scripts hold.
//!
//! *In:* opened consumers. *Out:* shared feeds. *Promise:* a number is never reused; closing wakes
//! whoever waits; a forked child finds the table free. Global, because a TensorFlow kernel has nothing but its inputs to find its feed by.

mod fork;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use penstock_ring::{Access, Batch, Consumer, NextError};

use crate::failure::{Failure, Kind};
use crate::request::Request;

static TABLE: Mutex<Table> =
    Mutex::new(Table { feeds: BTreeMap::new(), closed: BTreeMap::new(), cancelled: BTreeSet::new() });
static LAST: AtomicU64 = AtomicU64::new(0);

struct Table {
    feeds: BTreeMap<u64, Arc<Feed>>,
    /// Closed feeds, for as long as a batch of theirs may still be acknowledged.
    closed: BTreeMap<u64, Weak<Feed>>,
    /// Groups that were cancelled: a kernel that opens its feed later must hear of it too.
    cancelled: BTreeSet<String>,
}

/// One open feed.
pub(crate) struct Feed {
    pub(crate) consumer: Consumer,
    /// Whose share it is.
    pub(crate) rank: u32,
    name: String,
    group: String,
}

/// What this process has done since it started; for tests and curious users.
#[derive(Debug)]
pub(crate) struct Counts {
    /// Batches received.
    pub(crate) batches: AtomicU64,
    /// Tensors that lie in shared memory.
    pub(crate) shared: AtomicU64,
    /// Tensors of numbers that were copied.
    pub(crate) copied: AtomicU64,
}

/// The counts of all feeds, closed ones included.
pub(crate) static TOTAL: Counts =
    Counts { batches: AtomicU64::new(0), shared: AtomicU64::new(0), copied: AtomicU64::new(0) };

impl Feed {
    /// The next batch, or a failure that names the feed; the end is [`Kind::End`].
    pub(crate) fn next(&self, deadline: Duration) -> Result<Batch, Failure> {
        match self.consumer.next(deadline) {
            Ok(Some(batch)) => {
                TOTAL.batches.fetch_add(1, Ordering::Relaxed);
                Ok(batch)
            }
            Ok(None) => Err(Failure::new(Kind::End, format!("feed '{}': end of the feed", self.name))),
            Err(error) => Err(Failure::next(&self.name, &error)),
        }
    }

    /// See [`Consumer::acknowledge`].
    pub(crate) fn acknowledge(&self, epoch: u64, step: u64) -> Result<(), Failure> {
        self.consumer.acknowledge(epoch, step).map_err(|error| Failure::next(&self.name, &error))
    }
}

/// Opens the feed and gives it a number. A `group` of feeds can be cancelled together.
pub(crate) fn open(
    request: &Request,
    group: &str,
    access: Access,
    deadline: Duration,
) -> Result<u64, Failure> {
    check_cancelled(&table(), group, &request.name)?;
    let consumer = Consumer::open_to(access, &request.socket, &request.json, deadline)
        .map_err(|error| Failure::open(&request.name, &error))?;
    let handle = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    let (name, rank, group_of_it) = (request.name.clone(), request.rank, group.to_owned());
    let feed = Feed { consumer, rank, name, group: group_of_it };
    let mut table = table();
    check_cancelled(&table, group, &request.name)?;
    table.feeds.insert(handle, Arc::new(feed));
    Ok(handle)
}

/// The feed of this number.
pub(crate) fn get(handle: u64) -> Result<Arc<Feed>, Failure> {
    table()
        .feeds
        .get(&handle)
        .cloned()
        .ok_or_else(|| Failure::new(Kind::Cancelled, format!("feed {handle} is closed")))
}

/// The same, closed or not: whoever still has a batch may say what became of it.
pub(crate) fn get_even_closed(handle: u64) -> Result<Arc<Feed>, Failure> {
    let closed = table().closed.get(&handle).and_then(Weak::upgrade);
    closed.map_or_else(|| get(handle), Ok)
}

/// Ends the feed; batches that are held stay readable.
pub(crate) fn close(handle: u64) {
    // The guard is gone before the feed drops: dropping talks to the sidecar.
    let feed = {
        let mut table = table();
        let feed = table.feeds.remove(&handle);
        table.closed.retain(|_, feed| feed.strong_count() > 0);
        if let Some(feed) = &feed {
            table.closed.insert(handle, Arc::downgrade(feed));
        }
        feed
    };
    if let Some(feed) = feed {
        feed.consumer.cancel();
    }
}

/// Wakes everybody who waits for a feed of the group, and ends these feeds and those yet to be opened.
pub(crate) fn cancel(group: &str) {
    let mut table = table();
    table.cancelled.insert(group.to_owned());
    let feeds: Vec<_> = table.feeds.extract_if(.., |_, feed| feed.group == group).collect();
    drop(table);
    for (_, feed) in feeds {
        feed.consumer.cancel();
    }
}

/// Feeds that are open, and batches of theirs that are held.
pub(crate) fn open_feeds() -> (usize, usize) {
    let feeds = &table().feeds;
    (feeds.len(), feeds.values().map(|feed| feed.consumer.held()).sum())
}

fn check_cancelled(table: &Table, group: &str, name: &str) -> Result<(), Failure> {
    if table.cancelled.contains(group) {
        return Err(Failure::next(name, &NextError::Cancelled));
    }
    Ok(())
}

fn table() -> MutexGuard<'static, Table> {
    fork::watch();
    lock()
}

fn lock() -> MutexGuard<'static, Table> {
    TABLE.lock().expect("no code panics while it holds the table")
}
