//! What a sidecar counts, unit last.

use std::time::Duration;

use metrics::{counter, describe_counter, describe_gauge, gauge};

use crate::account;

const ROWS: &str = "penstock_sidecar_rows_total";
const BYTES: &str = "penstock_sidecar_bytes_total";
const STEPS: &str = "penstock_sidecar_steps_total";
const AGAIN: &str = "penstock_sidecar_steps_offered_again_total";
const RECONNECTS: &str = "penstock_sidecar_reconnects_total";
const FEEDS: &str = "penstock_sidecar_feeds";
const MEMORY: &str = "penstock_sidecar_memory_bytes";
const TRAINER_WAIT: &str = "penstock_sidecar_trainer_wait_seconds";
const FEED_WAIT: &str = "penstock_sidecar_feed_wait_seconds";

/// Says what they mean and starts them at zero, so that a scrape finds them before the first feed.
pub(crate) fn register() {
    describe_counter!(ROWS, "Rows handed to trainers.");
    describe_counter!(BYTES, "Bytes of batches handed to trainers, layout included.");
    describe_counter!(STEPS, "Batches handed to trainers.");
    describe_counter!(AGAIN, "Batches handed out again, for nobody had acknowledged them.");
    describe_counter!(RECONNECTS, "Times a stream left a gateway before its epoch was complete.");
    describe_gauge!(FEEDS, "Feeds that are open.");
    describe_gauge!(MEMORY, "Bytes leased to feeds.");
    describe_gauge!(
        TRAINER_WAIT,
        "Seconds in which trainers waited for a batch and held one at most, all feeds together."
    );
    describe_gauge!(
        FEED_WAIT,
        "Seconds in which a batch was ready and the trainer held all slots, all feeds together."
    );
    account::describe();
    for name in [ROWS, BYTES, STEPS, AGAIN, RECONNECTS] {
        counter!(name).increment(0);
    }
    for name in [FEEDS, MEMORY, TRAINER_WAIT, FEED_WAIT] {
        gauge!(name).increment(0.0);
    }
}

pub(crate) fn handed_out(rows: u64, bytes: u64) {
    counter!(ROWS).increment(rows);
    counter!(BYTES).increment(bytes);
    counter!(STEPS).increment(1);
}

pub(crate) fn offered_again() {
    counter!(AGAIN).increment(1);
}

pub(crate) fn reconnected() {
    counter!(RECONNECTS).increment(1);
}

pub(crate) fn trainer_waited(time: Duration) {
    gauge!(TRAINER_WAIT).increment(time.as_secs_f64());
}

pub(crate) fn feed_waited(time: Duration) {
    gauge!(FEED_WAIT).increment(time.as_secs_f64());
}

pub(crate) fn memory(bytes: u64) {
    gauge!(MEMORY).set(bytes as f64);
}

/// Counts a feed for as long as it lives.
pub(crate) struct OpenFeed(());

impl OpenFeed {
    pub(crate) fn new() -> Self {
        gauge!(FEEDS).increment(1.0);
        Self(())
    }
}

impl Drop for OpenFeed {
    fn drop(&mut self) {
        gauge!(FEEDS).decrement(1.0);
    }
}
