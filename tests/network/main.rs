//! Gateways, a sidecar and readers on machines of their own, whose links are slowed, cut and silenced: the trainer gets
//! what it would have got, by ids, and who vanishes holds nothing.
//!
//! The machines are network namespaces. Every test enters one in which it may do so, as a process of its own, and all
//! of them are gone when that ends, however it ends.

#![allow(clippy::unwrap_used, reason = "tests state their expectations by unwrapping")]

mod machines;
mod readers;
mod stories;
