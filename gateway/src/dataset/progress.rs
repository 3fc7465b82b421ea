//! How far a look at a dataset is.
//!
//! In: one footer after the other. Out: a word about how many were read, at most one a second, so that a look which
//! takes a moment says nothing.

use std::time::Duration;

use tokio::time::Instant;

const BETWEEN: Duration = Duration::from_secs(1);

/// Files whose footers were read, of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub read: usize,
    pub files: usize,
}

/// Counts footers.
pub(super) struct Counting {
    progress: Progress,
    said: Instant,
}

impl Counting {
    pub(super) fn new(files: usize) -> Self {
        Self { progress: Progress { read: 0, files }, said: Instant::now() }
    }

    /// One more was read; how far it is, if it is time to say so.
    pub(super) fn count(&mut self) -> Option<Progress> {
        self.progress.read += 1;
        if self.said.elapsed() < BETWEEN {
            return None;
        }
        self.said = Instant::now();
        Some(self.progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_second_without_a_word_is_followed_by_one() {
        let mut counting = Counting::new(10_000);
        let mut said = Vec::new();
        for _ in 0..10_000 {
            said.extend(counting.count());
            tokio::time::advance(Duration::from_micros(250)).await;
        }
        assert_eq!(said.iter().map(|progress| progress.read).collect::<Vec<_>>(), [4001, 8001]);
        assert!(said.iter().all(|progress| progress.files == 10_000));
    }
}
