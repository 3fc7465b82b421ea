//! What a bench found: lines of ours beside the peers', as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

/// One figure beside the peers' for the same work.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) ours: f64,
    pub(crate) peers: BTreeMap<String, f64>,
    /// Ours over the best peer's: more is better for rates, less for costs.
    pub(crate) ratio: Option<f64>,
    /// What the ratio must reach, or without peers what `ours` must stay within; none where nothing was promised.
    pub(crate) goal: Option<f64>,
    pub(crate) holds: bool,
    /// CPU seconds of our side of the work, all processes.
    pub(crate) cpu_s: f64,
}

/// A bench's lines, and the sentence that says how they came about.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) title: String,
    pub(crate) lines: Vec<Line>,
}

impl Line {
    /// A rate without a goal: the ratio is to the fastest peer.
    pub(crate) fn rate(
        what: impl Into<String>,
        unit: &'static str,
        ours: f64,
        cpu_s: f64,
        peers: BTreeMap<String, f64>,
    ) -> Self {
        let best = peers.values().copied().reduce(f64::max);
        Self::beside(best, what.into(), unit, ours, cpu_s, peers)
    }

    /// A cost without a goal: the ratio is to the cheapest peer.
    pub(crate) fn cost(
        what: impl Into<String>,
        unit: &'static str,
        ours: f64,
        cpu_s: f64,
        peers: BTreeMap<String, f64>,
    ) -> Self {
        let best = peers.values().copied().reduce(f64::min);
        Self::beside(best, what.into(), unit, ours, cpu_s, peers)
    }

    /// Holds a rate to a part of its peer's.
    pub(crate) fn must_reach(self, goal: f64) -> Self {
        let holds = self.ratio.is_some_and(|ratio| ratio >= goal);
        Self { goal: Some(goal), holds, ..self }
    }

    /// Holds a cost to a part of its peer's.
    pub(crate) fn must_stay_within(self, goal: f64) -> Self {
        let holds = self.ratio.is_some_and(|ratio| ratio <= goal);
        Self { goal: Some(goal), holds, ..self }
    }

    /// Holds a cost to a limit of its own, whatever a peer needs.
    pub(crate) fn at_most(self, limit: f64) -> Self {
        Self { goal: Some(limit), holds: self.ours <= limit, ..self }
    }

    fn beside(
        best: Option<f64>,
        what: String,
        unit: &'static str,
        ours: f64,
        cpu_s: f64,
        peers: BTreeMap<String, f64>,
    ) -> Self {
        let ratio = best.map(|best| ours / best);
        Self { what, unit, ours, peers, ratio, goal: None, holds: true, cpu_s }
    }
}

impl Report {
    /// Writes `target/bench/NAME.json`.
    pub(crate) fn write(&self, name: &str) -> Result<()> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench");
        fs::create_dir_all(&directory)?;
        let path = directory.join(format!("{name}.json"));
        fs::write(&path, serde_json::to_vec_pretty(&self.lines)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        writeln!(f, "{:<44} {:>8} {:>7} {:>8} {:>7}  peers", "what", "ours", "unit", "cpu s", "ratio")?;
        for line in &self.lines {
            let peers: Vec<_> = line.peers.iter().map(|(name, value)| format!("{name} {value:.3}")).collect();
            let ratio = line.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"));
            let verdict = match (line.goal, line.holds) {
                (None, _) => String::new(),
                (Some(goal), true) => format!("  holds {goal:.3}"),
                (Some(goal), false) => format!("  MISSES {goal:.3}"),
            };
            writeln!(
                f,
                "{:<44} {:>8.3} {:>7} {:>8.2} {ratio:>7}  {}{verdict}",
                line.what,
                line.ours,
                line.unit,
                line.cpu_s,
                peers.join(", ")
            )?;
        }
        Ok(())
    }
}
