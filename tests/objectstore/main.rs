//! Feeds from object stores: one that behaves as S3 does, and one that fails in every way: every row once in
//! whatever can succeed, one line within bounded time in whatever cannot.

#![allow(clippy::unwrap_used, reason = "tests state their expectations by unwrapping")]

mod faults;
#[path = "../reader.rs"]
mod reader;
mod s3;
mod served;
mod store;
