//! How every penstock process starts, reports and stops.
//!
//! In: a few options of the command line. Out: logs, an admin port, a drain that every task is spawned
//! through, and byte budgets. The promise: a process that is told to stop finishes what it has begun
//! inside its grace, or says by name what did not finish. It knows nothing of datasets and trainers.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests state their expectations by unwrapping"))]

pub mod admin;
pub mod budget;
pub mod drain;
pub mod logs;
pub mod pem;
mod process;
pub mod stop;
pub mod tls;

pub use budget::{Aside, Borrower, Budget, Lease, Loan};
pub use drain::Drain;
