//! What is told of a feed on `/metrics`, unit last.

use std::sync::OnceLock;

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};
use penstock_proto::Rank;

use super::tally::{Tally, Verdict};
use super::waits::Stage;

const ROWS: &str = "penstock_sidecar_feed_rows_total";
const BYTES: &str = "penstock_sidecar_feed_bytes_total";
const STEPS: &str = "penstock_sidecar_feed_steps_total";
const SLOTS: &str = "penstock_sidecar_feed_slots";
const USED_SLOTS: &str = "penstock_sidecar_feed_used_slots";
const OPEN: &str = "penstock_sidecar_feed_open_seconds";
const WAITED: &str = "penstock_sidecar_feed_waited_seconds";
const STEP_WAIT: &str = "penstock_sidecar_feed_step_wait_seconds";
const GPUS_BUSY: &str = "penstock_sidecar_feed_gpus_busy_ratio";
const SLOW: &str = "penstock_sidecar_feed_slow_stage";
const VERDICT: &str = "penstock_sidecar_feed_verdict";

const QUANTILES: [(f64, &str); 2] = [(0.5, "0.5"), (0.99, "0.99")];

/// The metrics of one name and rank.
pub(super) struct Series {
    pub(super) rows: Counter,
    pub(super) bytes: Counter,
    pub(super) steps: Counter,
    pub(super) slots: Gauge,
    pub(super) used_slots: Gauge,
    open: Gauge,
    waited: [Gauge; Stage::ALL.len()],
    step_wait: [Gauge; QUANTILES.len()],
    /// Absent until it is known.
    gpus_busy: OnceLock<Gauge>,
    labels: [(&'static str, String); 2],
    slow: [Gauge; Stage::ALL.len()],
    verdict: [Gauge; Verdict::ALL.len()],
}

pub(crate) fn describe() {
    describe_counter!(ROWS, "Rows handed to the trainer.");
    describe_counter!(BYTES, "Bytes of batches handed to the trainer, layout included.");
    describe_counter!(STEPS, "Batches handed to the trainer.");
    describe_gauge!(SLOTS, "Slots of the ring; none while no feed of the name is open.");
    describe_gauge!(USED_SLOTS, "Slots that are ready for the trainer or held by it.");
    describe_gauge!(OPEN, "Seconds from the ring's being there to the trainer's last sign of life.");
    describe_gauge!(
        WAITED,
        "Seconds in which the trainer waited for its next step and held one at most, by the stage that the step was in."
    );
    describe_gauge!(
        STEP_WAIT,
        "The same a step, since the first; a step that was there in time counts as zero."
    );
    describe_gauge!(GPUS_BUSY, "How busy the trainer's GPUs were while the feed was open, 0 to 1.");
    describe_gauge!(SLOW, "One at the stage that the whole goes no faster than.");
    describe_gauge!(VERDICT, "One at what holds: whether the feed kept its trainer waiting.");
}

impl Series {
    pub(super) fn new(name: &str, rank: Rank) -> Self {
        let labels = [("feed", name.to_owned()), ("rank", rank.to_string())];
        let also = |key: &'static str, value: &'static str| {
            let [feed, rank] = labels.clone();
            [feed, rank, (key, value.to_owned())]
        };
        Self {
            rows: counter!(ROWS, &labels),
            bytes: counter!(BYTES, &labels),
            steps: counter!(STEPS, &labels),
            slots: gauge!(SLOTS, &labels),
            used_slots: gauge!(USED_SLOTS, &labels),
            open: gauge!(OPEN, &labels),
            waited: Stage::ALL.map(|stage| gauge!(WAITED, &also("stage", stage.name()))),
            step_wait: QUANTILES.map(|(_, name)| gauge!(STEP_WAIT, &also("quantile", name))),
            gpus_busy: OnceLock::new(),
            slow: Stage::ALL.map(|stage| gauge!(SLOW, &also("stage", stage.name()))),
            verdict: Verdict::ALL.map(|verdict| gauge!(VERDICT, &also("verdict", verdict.name()))),
            labels,
        }
    }

    pub(super) fn tell(&self, tally: &Tally) {
        self.open.set(tally.open.as_secs_f64());
        for (stage, gauge) in Stage::ALL.iter().zip(&self.waited) {
            gauge.set(tally.waited.of(*stage).as_secs_f64());
        }
        for ((share, _), gauge) in QUANTILES.iter().zip(&self.step_wait) {
            gauge.set(tally.wait_at(*share).as_secs_f64());
        }
        if let Some(busy) = tally.gpus_busy() {
            self.gpus_busy.get_or_init(|| gauge!(GPUS_BUSY, &self.labels)).set(busy);
        }
        one_of(&self.slow, &Stage::ALL, &tally.slow_stage());
        one_of(&self.verdict, &Verdict::ALL, &tally.verdict());
    }
}

/// Sets the gauge of what holds, and clears those of the others.
fn one_of<T: PartialEq>(gauges: &[Gauge], all: &[T], holds: &T) {
    for (gauge, one) in gauges.iter().zip(all) {
        gauge.set(f64::from(u8::from(one == holds)));
    }
}
