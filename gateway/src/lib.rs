//! Dataset to Flight.
//!
//! In: Parquet where it lies. Out: the exact batches of any rank, over Arrow Flight. The walk of a row is
//! `dataset → count → plan → partition → read → encode → flight`; none of them knows the next.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests state their expectations by unwrapping"))]

mod compact;
pub mod config;
pub mod count;
pub mod dataset;
mod encode;
pub mod expression;
pub mod fleet;
pub mod flight;
pub mod partition;
pub mod plan;
mod read;
pub mod store;

pub use config::Config;
pub use flight::{Bound, Gateway, StartError};
pub use read::decode_file;
