//! What a gateway counts.

use metrics::{
    Counter, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, histogram,
};

use crate::read;

/// Says once what the names mean.
pub(crate) fn describe() {
    describe_counter!("penstock_gateway_rows_total", Unit::Count, "Rows sent, padding included");
    describe_counter!("penstock_gateway_bytes_total", Unit::Bytes, "Bytes of record batches sent");
    describe_counter!(
        "penstock_gateway_lent_bytes_total",
        Unit::Bytes,
        "Bytes of record batches lent in shared memory, of all that were sent"
    );
    describe_histogram!(
        "penstock_gateway_step_seconds",
        Unit::Seconds,
        "From the first part of a step being wanted to the last being queued; includes waiting for the reader"
    );
    describe_gauge!("penstock_gateway_streams", Unit::Count, "Streams being read");
    describe_gauge!("penstock_gateway_fleet_size", Unit::Count, "Gateways of the fleet, this one among them");
    describe_counter!(
        "penstock_gateway_lanes_owned_total",
        Unit::Count,
        "Lanes of streams that this gateway owns"
    );
    describe_counter!(
        "penstock_gateway_lanes_pulled_total",
        Unit::Count,
        "Lanes asked for from their owners"
    );
    describe_counter!(
        "penstock_gateway_lanes_fallen_back_total",
        Unit::Count,
        "Lanes decoded here though another gateway owns them"
    );
    describe_counter!(
        "penstock_gateway_lanes_pulled_again_total",
        Unit::Count,
        "Lanes that had fallen back and come from their owners again"
    );
    describe_counter!("penstock_gateway_pulled_bytes_total", Unit::Bytes, "Bytes that came from owners");
    describe_counter!("penstock_gateway_fleet_rows_total", Unit::Count, "Rows sent to other gateways");
    describe_counter!("penstock_gateway_fleet_bytes_total", Unit::Bytes, "Bytes sent to other gateways");
    describe_histogram!(
        "penstock_gateway_fleet_step_seconds",
        Unit::Seconds,
        "As penstock_gateway_step_seconds, of what other gateways read"
    );
    describe_gauge!("penstock_gateway_budget_bytes", Unit::Bytes, "Bytes of --memory leased to streams");
    describe_gauge!(
        "penstock_gateway_footer_bytes",
        Unit::Bytes,
        "Bytes of footers, of --memory but for 16 MiB"
    );
    read::describe();
}

/// Counters of the streams of one dataset.
#[derive(Clone)]
pub(crate) struct StreamMetrics {
    pub(crate) rows: Counter,
    pub(crate) bytes: Counter,
    pub(crate) step: Histogram,
}

impl StreamMetrics {
    pub(crate) fn new(dataset: &str) -> Self {
        Self::named(
            dataset,
            "penstock_gateway_rows_total",
            "penstock_gateway_bytes_total",
            "penstock_gateway_step_seconds",
        )
    }

    /// Of streams that other gateways read: they count the rows that they send on.
    pub(crate) fn of_fleet(dataset: &str) -> Self {
        Self::named(
            dataset,
            "penstock_gateway_fleet_rows_total",
            "penstock_gateway_fleet_bytes_total",
            "penstock_gateway_fleet_step_seconds",
        )
    }

    fn named(dataset: &str, rows: &'static str, bytes: &'static str, step: &'static str) -> Self {
        let dataset = dataset.to_owned();
        Self {
            rows: counter!(rows, "dataset" => dataset.clone()),
            bytes: counter!(bytes, "dataset" => dataset.clone()),
            step: histogram!(step, "dataset" => dataset),
        }
    }
}
