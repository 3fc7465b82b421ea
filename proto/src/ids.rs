//! Names for things that would otherwise be bare numbers and strings.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a dataset held when it was looked at: the hash of its files, sizes, versions and schema, in
/// lower-case hex. What the datasets of a mixture held is written with `+` in between.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SnapshotId(String);

impl SnapshotId {
    pub fn new(hex: impl Into<String>) -> Self {
        Self(hex.into())
    }

    /// Of a mixture.
    pub fn join<'a>(ids: impl IntoIterator<Item = &'a Self>) -> Self {
        let ids: Vec<&str> = ids.into_iter().map(Self::as_str).collect();
        Self(ids.join("+"))
    }

    /// The reverse of [`join`](Self::join).
    pub fn split(&self) -> impl Iterator<Item = Self> + '_ {
        self.0.split('+').map(Self::new)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How many ranks share a feed; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorldSize(u32);

impl WorldSize {
    pub const ONE: Self = Self(1);

    /// `None` for a world of nobody.
    pub fn new(size: u32) -> Option<Self> {
        (size > 0).then_some(Self(size))
    }

    pub fn get(self) -> u32 {
        self.0
    }

    pub fn ranks(self) -> impl Iterator<Item = Rank> {
        (0..self.0).map(Rank)
    }

    /// The rank of that index, if the world has one.
    pub fn rank(self, index: u32) -> Option<Rank> {
        (index < self.0).then_some(Rank(index))
    }
}

impl fmt::Display for WorldSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A data-parallel consumer's index in its world; made by [`WorldSize::rank`], so never out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank(u32);

impl Rank {
    pub const ZERO: Self = Self(0);

    pub fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The rules by which an epoch's order is made of a feed: a step holds other rows under other rules, so positions are
/// kept with theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OrderRules(u32);

impl OrderRules {
    /// What holds where nothing is said. The remainder is the last rows of every epoch.
    pub const FIRST: Self = Self(1);
    /// Of a shuffled feed that drops its remainder: other rows are dropped every epoch.
    pub const DROP_BY_EPOCH: Self = Self(2);

    pub fn new(rules: u32) -> Self {
        Self(rules)
    }

    pub fn get(self) -> u32 {
        self.0
    }

    pub fn is_first(&self) -> bool {
        *self == Self::FIRST
    }
}

impl Default for OrderRules {
    fn default() -> Self {
        Self::FIRST
    }
}

impl fmt::Display for OrderRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
