//! The sets of the bench `feed`, as its scripts make and describe them; made once, and kept.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::client;

/// One set.
#[derive(Debug, Deserialize)]
pub(crate) struct Set {
    pub(crate) name: String,
    pub(crate) rows: u64,
    pub(crate) row_bytes: u64,
    pub(crate) lists: bool,
}

/// Makes what is not there; where all sets lie, and which there are.
pub(crate) fn make() -> Result<(PathBuf, Vec<Set>)> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench/feed-sets");
    let sets = serde_json::from_slice(&client::output("feed/make_data.py", &data)?)?;
    Ok((data, sets))
}

/// One of the sets.
pub(crate) fn named<'a>(sets: &'a [Set], name: &str) -> Result<&'a Set> {
    sets.iter().find(|set| set.name == name).with_context(|| format!("no set {name}"))
}

impl Set {
    pub(crate) fn directory(&self, data: &Path) -> PathBuf {
        data.join(&self.name)
    }

    /// Its files, of those that lie in `data`.
    pub(crate) fn files(&self, data: &Path) -> Result<Vec<PathBuf>> {
        let directory = self.directory(data);
        let entries = std::fs::read_dir(&directory);
        let entries = entries.with_context(|| format!("cannot list {}", directory.display()))?;
        entries.map(|entry| Ok(entry?.path())).collect()
    }
}
