//! How a job's daemons are doing, from what they tell at two moments. Pure.

use serde::Serialize;

use super::roster::{DaemonKind, Entry};
use crate::report::FeedRecord;
use crate::report::metrics::Metrics;

/// What one daemon told; nothing if it did not answer.
pub(super) struct Told<'a> {
    pub(super) entry: &'a Entry,
    pub(super) now: Option<&'a Metrics>,
    /// What it told last, if it did, and how many seconds ago.
    pub(super) before: Option<(&'a Metrics, f64)>,
}

/// How all of them are doing.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sample {
    pub ranks: Vec<RankRow>,
    pub gateways: Vec<GatewayRow>,
    /// Daemons that did not answer.
    pub silent: Vec<String>,
}

/// A feed of a rank. Rates are those since the last look, and at the first look since the feed began.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RankRow {
    /// Whose sidecar tells it: `worker:0`, or an address.
    pub task: String,
    pub feed: String,
    pub rank: u32,
    /// Whether it is open.
    pub open: bool,
    pub rows_per_second: f64,
    pub bytes_per_second: f64,
    /// The trainer's wait for a step, since the feed began.
    pub wait_p50_seconds: f64,
    pub wait_p99_seconds: f64,
    /// How much of the time its trainer waited, 0 to 1.
    pub waiting: f64,
    pub slow_stage: Option<String>,
    /// How busy its GPUs were since the feed began, 0 to 1.
    pub gpus_busy: Option<f64>,
    pub verdict: Option<String>,
    pub used_slots: u32,
    pub slots: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GatewayRow {
    pub name: String,
    /// Of the process.
    pub memory_bytes: u64,
    /// Leased to streams.
    pub leased_bytes: u64,
    /// Absent at the first look.
    pub bytes_per_second: Option<f64>,
}

impl Sample {
    pub(super) fn of<'a>(all: impl Iterator<Item = Told<'a>>) -> Self {
        let mut sample = Self::default();
        for told in all {
            match (told.now, told.entry.kind) {
                (None, _) => sample.silent.push(told.entry.name.clone()),
                (Some(now), DaemonKind::Sidecar) => sample.ranks.extend(told.ranks(now)),
                (Some(now), DaemonKind::Gateway) => sample.gateways.push(told.gateway(now)),
            }
        }
        sample.ranks.sort_by(|a, b| (a.rank, &a.task, &a.feed).cmp(&(b.rank, &b.task, &b.feed)));
        sample
    }
}

impl Told<'_> {
    fn ranks(&self, now: &Metrics) -> Vec<RankRow> {
        let before = self.before.map(|(metrics, seconds)| (FeedRecord::all(metrics), seconds));
        let row = |feed: FeedRecord| {
            let since = before.as_ref().and_then(|(feeds, seconds)| {
                let same = |old: &&FeedRecord| (&old.feed, old.rank) == (&feed.feed, feed.rank);
                feeds.iter().find(same).map(|old| (old, *seconds))
            });
            let nothing = FeedRecord::default();
            let (old, seconds) = since.unwrap_or((&nothing, feed.open_seconds));
            RankRow {
                task: self.entry.name.clone(),
                rank: feed.rank,
                open: feed.slots > 0,
                rows_per_second: rate(feed.rows as f64, old.rows as f64, seconds),
                bytes_per_second: rate(feed.bytes as f64, old.bytes as f64, seconds),
                wait_p50_seconds: feed.wait_p50_seconds,
                wait_p99_seconds: feed.wait_p99_seconds,
                waiting: rate(feed.waited(), old.waited(), seconds).min(1.0),
                used_slots: feed.used_slots,
                slots: feed.slots,
                feed: feed.feed,
                gpus_busy: feed.gpus_busy,
                slow_stage: feed.slow_stage,
                verdict: feed.verdict,
            }
        };
        FeedRecord::all(now).into_iter().map(row).collect()
    }

    fn gateway(&self, now: &Metrics) -> GatewayRow {
        let bytes = |metrics: &Metrics| metrics.total("penstock_gateway_bytes_total").unwrap_or(0.0);
        GatewayRow {
            name: self.entry.name.clone(),
            memory_bytes: now.count("process_resident_memory_bytes").unwrap_or(0),
            leased_bytes: now.count("penstock_gateway_budget_bytes").unwrap_or(0),
            bytes_per_second: self.before.map(|(old, seconds)| rate(bytes(now), bytes(old), seconds)),
        }
    }
}

/// A daemon that was started again counts from zero: that is no negative rate.
fn rate(now: f64, before: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { (now - before).max(0.0) / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sidecar(rows: u64, waited: f64, open: f64) -> Metrics {
        let labels = "feed=\"train\",rank=\"1\"";
        Metrics::parse(&format!(
            "penstock_sidecar_feed_rows_total{{{labels}}} {rows}\n\
             penstock_sidecar_feed_bytes_total{{{labels}}} {}\n\
             penstock_sidecar_feed_slots{{{labels}}} 8\n\
             penstock_sidecar_feed_used_slots{{{labels}}} 3\n\
             penstock_sidecar_feed_open_seconds{{{labels}}} {open}\n\
             penstock_sidecar_feed_waited_seconds{{{labels},stage=\"store\"}} {waited}\n",
            rows * 10
        ))
    }

    #[test]
    fn rates_are_since_the_last_look_or_since_the_beginning() {
        let entry = |kind, name: &str| Entry { kind, name: name.into(), admin: String::new() };
        let worker = entry(DaemonKind::Sidecar, "worker:1");
        let gateway = entry(DaemonKind::Gateway, "gateway");
        let (old, new) = (sidecar(1000, 1.0, 10.0), sidecar(1500, 2.0, 12.0));
        let served = Metrics::parse("process_resident_memory_bytes 4096\npenstock_gateway_bytes_total 800\n");
        let look = |before: Option<&'static str>| {
            let before = before.map(|_| 2.0);
            Sample::of(
                [
                    Told { entry: &worker, now: Some(&new), before: before.map(|seconds| (&old, seconds)) },
                    Told {
                        entry: &gateway,
                        now: Some(&served),
                        before: before.map(|seconds| (&served, seconds)),
                    },
                    Told { entry: &gateway, now: None, before: None },
                ]
                .into_iter(),
            )
        };
        let first = look(None);
        assert_eq!((first.ranks[0].rows_per_second, first.ranks[0].bytes_per_second), (125.0, 1250.0));
        assert_eq!((first.gateways[0].memory_bytes, first.gateways[0].bytes_per_second), (4096, None));
        assert_eq!(first.silent, ["gateway"]);
        let later = look(Some("two seconds"));
        assert_eq!((later.ranks[0].rows_per_second, later.ranks[0].waiting), (250.0, 0.5));
        assert_eq!((later.ranks[0].used_slots, later.ranks[0].slots), (3, 8));
        assert_eq!(later.gateways[0].bytes_per_second, Some(0.0));
    }
}
