//! What the readers of a stream have spent of late: it tells what a stream that waits for rows waits for.
//!
//! In: what each chunk cost whoever brought it. Out: the sum since the last look. It knows no clock.

use std::sync::{Mutex, PoisonError};

use penstock_proto::Effort;

/// Shared by all lanes of a stream, which read side by side: only the proportion means anything.
#[derive(Default)]
pub(super) struct Spent(Mutex<Effort>);

impl Spent {
    pub(super) fn add(&self, effort: Effort) {
        let mut sum = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *sum = sum.plus(effort);
    }

    /// What was spent since this was called last.
    pub(super) fn take(&self) -> Effort {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
