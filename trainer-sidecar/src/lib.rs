//! The trainer sidecar: Flight streams in, exact batches in shared memory out.
//!
//! In: gateways, and feeds that trainers ask for over a Unix socket. Out: one ring a feed. The promise:
//! every row that a feed owes is handed over once and in order, whatever breaks on the way. It knows
//! neither the gateway's code nor TensorFlow.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests state their expectations by unwrapping"))]

mod account;
mod batcher;
mod config;
mod cpu;
#[cfg(test)]
mod fake;
mod feed;
#[cfg(test)]
mod fuzz;
mod gpu;
mod metrics;
mod pack;
pub mod probe;
mod request;
mod sidecar;
mod stream;
mod subscribe;
mod wire;

pub use config::{Config, DEFAULT_MEMORY, Deadlines, GpuConfig, TlsConfig};
pub use pack::fed_as;
pub use penstock_daemon::tls::TlsError;
pub use sidecar::{Bound, Sidecar, StartError};
