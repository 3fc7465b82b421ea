//! What is counted of every store.

use metrics::{Counter, Gauge, Unit, counter, describe_counter, describe_gauge, gauge};

/// The metrics of one store.
pub(super) struct StoreMetrics {
    /// Its URI without a path.
    pub(super) store: String,
    pub(super) requests: Counter,
    pub(super) retries: Counter,
    pub(super) throttled: Counter,
    pub(super) hedged: Counter,
    pub(super) bytes: Counter,
    pub(super) limit: Gauge,
}

impl StoreMetrics {
    pub(super) fn new(store: &str) -> Self {
        describe_counter!(
            "penstock_gateway_store_requests_total",
            Unit::Count,
            "Requests to an object store"
        );
        describe_counter!(
            "penstock_gateway_store_retries_total",
            Unit::Count,
            "Requests that were made again"
        );
        describe_counter!(
            "penstock_gateway_store_throttled_total",
            Unit::Count,
            "Answers of an object store that asks to slow down"
        );
        describe_counter!(
            "penstock_gateway_store_hedged_total",
            Unit::Count,
            "Late requests that were made a second time beside the first"
        );
        describe_counter!("penstock_gateway_store_bytes_total", Unit::Bytes, "Bytes received");
        describe_gauge!(
            "penstock_gateway_store_limit",
            Unit::Count,
            "Requests that an object store is asked at once, at most: fewer after it asked to slow down"
        );
        let store = store.to_owned();
        Self {
            requests: counter!("penstock_gateway_store_requests_total", "store" => store.clone()),
            retries: counter!("penstock_gateway_store_retries_total", "store" => store.clone()),
            throttled: counter!("penstock_gateway_store_throttled_total", "store" => store.clone()),
            hedged: counter!("penstock_gateway_store_hedged_total", "store" => store.clone()),
            bytes: counter!("penstock_gateway_store_bytes_total", "store" => store.clone()),
            limit: gauge!("penstock_gateway_store_limit", "store" => store.clone()),
            store,
        }
    }
}
