//! Who owns which lanes of a feed, remembered for a while.
//!
//! In: a feed's key and the fleet at this moment. Out: the owners of its lanes. The promise: what is found is said in
//! the log once, not by every stream of every rank.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use super::Members;
use super::owners::Owners;

/// Feeds that are remembered.
const KEPT: usize = 16;

/// The owners found lately.
#[derive(Default)]
pub(crate) struct Shares(Mutex<VecDeque<(Vec<u8>, Arc<Shared>)>>);

/// A feed's lanes, shared out among a fleet.
pub(crate) struct Shared {
    members: Arc<Members>,
    owners: Owners,
}

impl Shares {
    /// The owners of the lanes of a feed.
    pub(crate) fn of(&self, key: Vec<u8>, dataset: &str, lanes: u32, members: Arc<Members>) -> Arc<Shared> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().find(|(of, shared)| *of == key && shared.members == members);
        if let Some((_, shared)) = found {
            return Arc::clone(shared);
        }
        let owners = Owners::new(&key, lanes, members.names());
        let shared = Arc::new(Shared { members, owners });
        tracing::info!(dataset, owners = %shared.told(lanes), "lanes are shared out");
        known.push_back((key, Arc::clone(&shared)));
        if known.len() > KEPT {
            known.pop_front();
        }
        shared
    }
}

impl Shared {
    /// Those of some lanes that others own, by their locations.
    pub(crate) fn elsewhere(&self, lanes: impl Iterator<Item = u32>) -> BTreeMap<&str, Vec<u32>> {
        let mut owned: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for lane in lanes {
            let owner = self.owners.of(lane);
            if owner != self.members.own() {
                owned.entry(&self.members.names()[owner]).or_default().push(lane);
            }
        }
        owned
    }

    /// How many lanes each gateway owns, in words.
    fn told(&self, lanes: u32) -> String {
        let mut counts = vec![0u32; self.members.names().len()];
        for lane in 0..lanes {
            counts[self.owners.of(lane)] += 1;
        }
        let told = self.members.names().iter().zip(counts).map(|(name, count)| format!("{name}: {count}"));
        told.collect::<Vec<_>>().join(", ")
    }
}
