//! What is to happen at a moment to come.
//!
//! In: moments. Out: what is due, the earliest first. The promise: an alarm that was taken back never goes off.

use tokio::time::{Instant, sleep_until};

use crate::topology::TaskId;

/// Something that waits for its moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alarm {
    /// Whoever was asked to end has had its time.
    TimeUp,
    /// A task's pause before its next start is over.
    Start(TaskId),
    /// The same of all members of the cluster.
    StartGang,
    /// Another look at who listens.
    Look,
    /// Another look at whether the chief's program has ended.
    ChiefsEnd,
    /// The job has had all the time that it may take.
    JobTimeout,
}

/// Those that are set, at most a few.
#[derive(Debug, Default)]
pub(super) struct Alarms(Vec<(Instant, Alarm)>);

impl Alarms {
    /// Sets an alarm, in place of the one of the same kind.
    pub(super) fn set(&mut self, alarm: Alarm, at: Instant) {
        self.clear(|other| other == alarm);
        self.0.push((at, alarm));
    }

    pub(super) fn clear(&mut self, which: impl Fn(Alarm) -> bool) {
        self.0.retain(|&(_, alarm)| !which(alarm));
    }

    /// Waits for the first that is due. Cancel-safe: it goes off when it is returned, not before.
    pub(super) async fn next(&mut self) -> Alarm {
        let Some(first) = (0..self.0.len()).min_by_key(|&place| self.0[place].0) else {
            return std::future::pending().await;
        };
        sleep_until(self.0[first].0).await;
        self.0.remove(first).1
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::topology::Role;

    #[tokio::test]
    async fn the_earliest_goes_off_first_and_none_that_was_taken_back() {
        // All are due.
        let now = Instant::now();
        let at = |seconds: u64| now - Duration::from_secs(10 - seconds);
        let start = |index| Alarm::Start(TaskId { role: Role::Worker, index });
        let mut alarms = Alarms::default();
        alarms.set(Alarm::TimeUp, at(1));
        alarms.set(Alarm::TimeUp, at(9));
        alarms.set(start(0), at(3));
        alarms.set(start(1), at(2));
        alarms.set(Alarm::StartGang, at(4));
        alarms.clear(|alarm| alarm == start(0));
        let mut went_off = Vec::new();
        for _ in 0..3 {
            went_off.push(alarms.next().await);
        }
        assert_eq!(went_off, [start(1), Alarm::StartGang, Alarm::TimeUp]);
    }
}
