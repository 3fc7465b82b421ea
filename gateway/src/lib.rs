//! Dataset to Flight: plans a dataset into partitions and streams record batches.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests state their expectations by unwrapping"))]

pub mod dataset;
pub mod partition;
pub mod plan;
