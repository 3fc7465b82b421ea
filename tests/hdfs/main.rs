//! Feeds from a real HDFS, and what happens to them when parts of it fail: every row once in whatever can
//! succeed, one line within bounded time in whatever cannot.

#![allow(clippy::unwrap_used, reason = "tests state their expectations by unwrapping")]

mod datanodes;
mod namenodes;
mod proxy;
#[path = "../reader.rs"]
mod reader;
mod reading;
mod secure;
mod served;
mod shortcircuit;
