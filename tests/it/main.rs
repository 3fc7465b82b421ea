//! The hermetic suite: gateways, sidecars and rings in one process or as children on the loopback.

#![allow(clippy::unwrap_used, reason = "tests state their expectations by unwrapping")]

mod acknowledged;
mod architecture;
mod bad_input;
mod client;
mod cuts;
mod cutter;
mod faults;
mod fleet;
mod gateway;
mod gpus;
mod readers;
mod sidecar;
mod sidecar_bed;
mod transports;
mod waits;
