//! Backends: where a topology becomes running processes. This machine is the first.

pub mod local;
