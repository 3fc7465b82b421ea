//! `libpenstock_tf.so`: the trainer's end of a feed, for TensorFlow and for Python.
//!
//! *In:* a request and a sidecar's socket. *Out:* batches, as TensorFlow tensors through a few ops, or
//! as pointers through a plain C ABI. *Promise:* no number is copied (but for a batch that would take
//! the ring's last slot); an error of any kind is a status with a text, never a panic across the
//! border, a hang or a bus error. *Knows nothing* of Arrow, Flight or datasets.
//!
//! The library does not link to TensorFlow. It finds TensorFlow's C API in the process that loads it,
//! so one file serves any version, and a process without TensorFlow.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests state their expectations by unwrapping"))]

mod api;
pub mod c_abi;
mod failure;
mod ops;
mod registry;
mod request;
mod string;
mod tensor;
