//! What a sidecar tells of each of its feeds.
//!
//! In: its metrics. Out: a record of each feed, by name and rank. It judges nothing: the verdict is the sidecar's.

use std::collections::BTreeMap;

use serde::Serialize;

use super::metrics::{Labels, Metrics};

/// A feed by its name and rank, and what came of it so far; feeds that follow one another are one.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FeedRecord {
    pub feed: String,
    pub rank: u32,
    pub steps: u64,
    pub rows: u64,
    pub bytes: u64,
    /// From the first batch's being there to the trainer's last sign of life.
    pub open_seconds: f64,
    /// In which the trainer waited for its next step, by the stage that the step was in.
    pub waited_seconds: BTreeMap<String, f64>,
    /// The trainer's wait for a step; zero where it was there in time.
    pub wait_p50_seconds: f64,
    pub wait_p99_seconds: f64,
    /// `store`, `decode`, `network`, `pack` or `trainer`: what the whole goes no faster than.
    pub slow_stage: Option<String>,
    /// How busy the trainer's GPUs were meanwhile, 0 to 1; absent where nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus_busy: Option<f64>,
    /// `starved by the feed`, `starved by the host` or `not starved`.
    pub verdict: Option<String>,
    /// Of its ring; none once it is over.
    #[serde(skip)]
    pub slots: u32,
    #[serde(skip)]
    pub used_slots: u32,
}

impl FeedRecord {
    /// All feeds that a sidecar has had.
    pub fn all(metrics: &Metrics) -> Vec<Self> {
        let mut feeds: BTreeMap<(String, u32), Self> = BTreeMap::new();
        for (name, mut labels, value) in metrics.labelled("penstock_sidecar_feed_") {
            let (Some(feed), Some(rank)) = (labels.remove("feed"), rank(&mut labels)) else { continue };
            let new = || Self { feed: feed.clone(), rank, ..Self::default() };
            feeds.entry((feed.clone(), rank)).or_insert_with(new).take(name, &labels, value);
        }
        feeds.into_values().collect()
    }

    pub fn waited(&self) -> f64 {
        self.waited_seconds.values().sum()
    }

    /// Numbers that do not fit saturate.
    fn take(&mut self, name: &str, labels: &Labels, value: f64) {
        let label = |key: &str| labels.get(key).cloned();
        match name {
            "rows_total" => self.rows = value as u64,
            "bytes_total" => self.bytes = value as u64,
            "steps_total" => self.steps = value as u64,
            "slots" => self.slots = value as u32,
            "used_slots" => self.used_slots = value as u32,
            "open_seconds" => self.open_seconds = value,
            "waited_seconds" => self.waited_seconds.extend(label("stage").map(|stage| (stage, value))),
            "step_wait_seconds" => match labels.get("quantile").map(String::as_str) {
                Some("0.5") => self.wait_p50_seconds = value,
                Some("0.99") => self.wait_p99_seconds = value,
                _ => {}
            },
            "gpus_busy_ratio" => self.gpus_busy = Some(value),
            "slow_stage" if value == 1.0 => self.slow_stage = label("stage"),
            "verdict" if value == 1.0 => self.verdict = label("verdict"),
            _ => {}
        }
    }
}

fn rank(labels: &mut Labels) -> Option<u32> {
    labels.remove("rank")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feeds_are_told_apart_by_name_and_rank() {
        let metrics = Metrics::parse(
            "penstock_sidecar_feed_rows_total{feed=\"a \\\"b\\\"\",rank=\"1\"} 4000\n\
             penstock_sidecar_feed_steps_total{feed=\"train\",rank=\"0\"} 10\n\
             penstock_sidecar_feed_open_seconds{feed=\"train\",rank=\"0\"} 8\n\
             penstock_sidecar_feed_waited_seconds{feed=\"train\",rank=\"0\",stage=\"store\"} 1.5\n\
             penstock_sidecar_feed_waited_seconds{feed=\"train\",rank=\"0\",stage=\"pack\"} 0.5\n\
             penstock_sidecar_feed_step_wait_seconds{feed=\"train\",rank=\"0\",quantile=\"0.99\"} 0.75\n\
             penstock_sidecar_feed_slow_stage{feed=\"train\",rank=\"0\",stage=\"pack\"} 0\n\
             penstock_sidecar_feed_slow_stage{feed=\"train\",rank=\"0\",stage=\"store\"} 1\n\
             penstock_sidecar_feed_verdict{feed=\"train\",rank=\"0\",verdict=\"starved by the feed\"} 1\n\
             penstock_sidecar_feed_verdict{feed=\"train\",rank=\"0\",verdict=\"not starved\"} 0\n\
             penstock_sidecar_feeds 1\n",
        );
        let [quoted, train] = FeedRecord::all(&metrics).try_into().unwrap();
        assert_eq!((quoted.feed.as_str(), quoted.rank, quoted.rows), ("a \"b\"", 1, 4000));
        assert_eq!((train.feed.as_str(), train.rank, train.steps), ("train", 0, 10));
        assert_eq!((train.waited(), train.wait_p99_seconds), (2.0, 0.75));
        assert_eq!(train.slow_stage.as_deref(), Some("store"));
        assert_eq!(train.verdict.as_deref(), Some("starved by the feed"));
    }
}
