//! How a running job is doing, rank by rank.
//!
//! In: who serves it. Out: samples, each from what all daemons told at one moment and at the one before. The promise:
//! a daemon that does not answer holds up nobody for longer than a scrape's deadline. It judges nothing and knows no
//! terminal.

mod roster;
mod sample;
mod table;

use std::collections::BTreeMap;

use tokio::task::JoinSet;
use tokio::time::Instant;

pub use self::roster::{DaemonKind, Entry, Roster, RosterError};
use self::sample::Told;
pub use self::sample::{GatewayRow, RankRow, Sample};
use crate::report::metrics::Metrics;
use crate::scrape::scrape;

/// A job that is being looked at.
pub struct Top {
    roster: Roster,
    /// What each daemon told last, by its place in the roster.
    before: BTreeMap<usize, (Instant, Metrics)>,
}

impl Top {
    pub fn new(roster: Roster) -> Self {
        Self { roster, before: BTreeMap::new() }
    }

    /// Asks all daemons. Call it inside a tokio runtime.
    pub async fn look(&mut self) -> Sample {
        let mut asked = JoinSet::new();
        for (place, entry) in self.roster.daemons.iter().enumerate() {
            let admin = entry.admin.clone();
            asked
                .spawn(async move { (place, scrape(&admin).await.map(|metrics| (Instant::now(), metrics))) });
        }
        let mut told = BTreeMap::new();
        while let Some(answer) = asked.join_next().await {
            if let Ok((place, Some(answer))) = answer {
                told.insert(place, answer);
            }
        }
        let before = std::mem::replace(&mut self.before, told);
        let told_by = |(place, entry)| {
            let now = self.before.get(&place);
            let since = now.zip(before.get(&place)).map(|((at, _), (then, metrics))| {
                (metrics, at.saturating_duration_since(*then).as_secs_f64())
            });
            Told { entry, now: now.map(|(_, metrics)| metrics), before: since }
        };
        Sample::of(self.roster.daemons.iter().enumerate().map(told_by))
    }
}
