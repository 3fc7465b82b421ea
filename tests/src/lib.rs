//! What the suites share: data sets whose rows carry ids, and penstock's processes as children.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop right there")]

pub mod data;
pub mod hdfs;
pub mod moto;
pub mod process;
pub mod real;
pub mod trainer;
