//! How far the ranks of a delivery are: what sidecars tell gateways, and what gateways tell them.
//!
//! A *delivery* is one pass over a feed by ranks that acknowledge every step. Its end is the ranks' end
//! together: a rank that runs dry early would end the training under the others' hands. In: reports of
//! single ranks. Out: the standing of all. The promise: reports may be repeated, lost and reordered;
//! the standing only grows.

use serde::{Deserialize, Serialize};

use crate::{Code, Error};

/// The Flight action that takes a [`Report`] and answers with the [`Standing`], both as JSON.
pub const ACTION: &str = "ReportDelivery";

/// More ranks than any job has; a standing has a place for each.
const MAX_WORLD_SIZE: u32 = 1 << 16;
const MAX_NAME_BYTES: usize = 256;

/// How far one rank is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The delivery's name, unique among all deliveries.
    pub delivery: String,
    pub world_size: u32,
    pub rank: u32,
    #[serde(flatten)]
    pub tally: Tally,
}

/// Steps of one rank's share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub acknowledged: u64,
    /// All that there are.
    pub steps: u64,
}

/// How far all ranks are; `None` for one that was not heard of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    pub ranks: Vec<Option<Tally>>,
}

impl Report {
    /// Reads the body of an action.
    ///
    /// # Errors
    /// It is no report, or one of a rank that cannot be.
    pub fn parse(json: &[u8]) -> Result<Self, Error> {
        let invalid =
            |what: String| Error::new(Code::InvalidFeed, format!("the report is not readable: {what}"));
        let report: Self = serde_json::from_slice(json).map_err(|error| invalid(error.to_string()))?;
        if report.rank >= report.world_size || report.world_size > MAX_WORLD_SIZE {
            return Err(invalid(format!("rank {} of {}", report.rank, report.world_size)));
        }
        if report.delivery.len() > MAX_NAME_BYTES {
            return Err(invalid(format!("a name of {} bytes", report.delivery.len())));
        }
        Ok(report)
    }
}

impl Standing {
    pub fn new(world_size: u32) -> Self {
        Self { ranks: vec![None; world_size as usize] }
    }

    /// Takes a report in. One that is older than what is known changes nothing.
    ///
    /// # Errors
    /// The world has another size than this.
    pub fn take(&mut self, report: &Report) -> Result<(), Error> {
        let mut of_one = Self::new(report.world_size);
        if let Some(place) = of_one.ranks.get_mut(report.rank as usize) {
            *place = Some(report.tally);
        }
        if of_one.ranks.len() != self.ranks.len() {
            return Err(Error::new(
                Code::InvalidFeed,
                format!(
                    "delivery \"{}\" is one of {} ranks, not of {}: all its feeds need the same world size",
                    report.delivery,
                    self.ranks.len(),
                    of_one.ranks.len()
                ),
            ));
        }
        self.merge(&of_one);
        Ok(())
    }

    /// The furthest that is known of every rank.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.ranks.iter_mut().zip(&other.ranks) {
            let further = theirs.filter(|new| mine.is_none_or(|old| new.acknowledged > old.acknowledged));
            *mine = further.or(*mine);
        }
    }

    /// Whether every rank has acknowledged every step.
    pub fn is_complete(&self) -> bool {
        self.unfinished().next().is_none()
    }

    /// Who has not: `rank 1 (3 of 8 steps acknowledged), rank 2 (never heard of)`.
    pub fn laggards(&self) -> String {
        let say = |(rank, tally): (usize, Option<Tally>)| match tally {
            Some(Tally { acknowledged, steps }) => {
                format!("rank {rank} ({acknowledged} of {steps} steps acknowledged)")
            }
            None => format!("rank {rank} (never heard of)"),
        };
        self.unfinished().map(say).collect::<Vec<_>>().join(", ")
    }

    fn unfinished(&self) -> impl Iterator<Item = (usize, Option<Tally>)> + '_ {
        let is_done = |tally: &Option<Tally>| tally.is_some_and(|tally| tally.acknowledged >= tally.steps);
        self.ranks.iter().copied().enumerate().filter(move |(_, tally)| !is_done(tally))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(world_size: u32, rank: u32, acknowledged: u64) -> Report {
        Report { delivery: "d".into(), world_size, rank, tally: Tally { acknowledged, steps: 8 } }
    }

    #[test]
    fn a_standing_only_grows_and_names_who_is_missing() {
        let mut standing = Standing::new(3);
        for (rank, acknowledged) in [(0, 8), (1, 3), (1, 2)] {
            standing.take(&report(3, rank, acknowledged)).unwrap();
        }
        assert!(!standing.is_complete());
        assert_eq!(standing.laggards(), "rank 1 (3 of 8 steps acknowledged), rank 2 (never heard of)");
        let refusal = standing.take(&report(2, 0, 1)).unwrap_err().to_string();
        assert!(refusal.contains("one of 3 ranks, not of 2"), "{refusal}");
        standing.take(&report(3, 1, 8)).unwrap();
        standing.take(&report(3, 2, 8)).unwrap();
        assert!(standing.is_complete());
    }

    #[test]
    fn a_report_comes_back_as_sent_or_is_refused() {
        let json = |report: &Report| serde_json::to_vec(report).unwrap();
        assert_eq!(Report::parse(&json(&report(3, 2, 5))).unwrap(), report(3, 2, 5));
        assert!(Report::parse(&json(&report(3, 3, 5))).is_err());
        assert!(Report::parse(&json(&report(u32::MAX, 3, 5))).is_err());
        assert!(Report::parse(b"{}").is_err());
    }
}
