//! The ring: how batches pass from a sidecar to a trainer on the same host.
//!
//! Data lies in shared memory, control travels as messages. One connection over a `SOCK_SEQPACKET`
//! Unix socket is one feed, and one feed has one ring: a sealed memfd of equal slots that the
//! sidecar writes and the trainer maps. The sidecar says "slot 3 is step 17", the trainer
//! says "slot 3 is free". Ordering, wake-ups, back-pressure and the death of either side are the
//! kernel's; no atomic is shared with another process.
//!
//! ```text
//!   sidecar                                            trainer
//!   Ring::take ── FreeSlot ── SlotWriter                Consumer::next
//!      ▲                          │ hand_out                 │
//!      │                          ▼      Batch{slot,step}    ▼
//!      │                       Socket ─────────────────▶  Batch ── ColumnView (&[u8] in the mapping)
//!   Ring::release ◀──────────── Socket ◀───────────────── drop
//!                                        Release{slot}
//! ```
//!
//! *In:* columns as bytes. *Out:* the same bytes in the other process, without a copy. *Promise:* a
//! slot has one writer or any number of readers, never both; a slot given back is written again in
//! any order; no offset is used before it was checked; a full ring makes the sidecar wait. *Knows
//! nothing* of Arrow, tokio or TensorFlow.
//!
//! The sidecar is trusted not to write into a slot it has handed out (it runs as the same user); it
//! is not trusted to be free of mistakes, so everything it says is checked.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests state their expectations by unwrapping"))]

#[cfg(not(all(target_os = "linux", target_endian = "little", target_pointer_width = "64")))]
compile_error!("the ring needs 64-bit little-endian Linux: memfd, seals and SOCK_SEQPACKET");

mod batch;
mod consumer;
mod dtype;
mod free_list;
#[cfg(test)]
mod fuzz;
mod layout;
mod lent;
mod map;
mod memory;
mod message;
mod ring;
mod slot;
mod socket;
mod writer;

pub use batch::{Batch, ColumnView};
pub use consumer::{Consumer, NextError, OpenError};
pub use dtype::DType;
pub use free_list::{ReleaseError, SlotId};
pub use layout::{ColumnSpec, LayoutError, MAX_DIMS, SlotLayout};
pub use lent::{Borrowed, Lent};
pub use map::Access;
pub use memory::{MemoryError, seal_text};
pub use message::{MAX_PAYLOAD, Message, MessageError, ToSidecar, ToTrainer};
pub use ring::{FreeSlot, Ring, RingError};
pub use slot::{BatchHeader, SlotError};
pub use socket::{Listener, Socket};
pub use writer::{ColumnMut, Oversize, SlotWriter, WriteError};
