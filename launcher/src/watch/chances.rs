//! How often a task may come back, and how long it waits before it does.
//!
//! In: deaths, counted by whoever is started again. Out: whether there is another start, and the pause before
//! it. The promise: pure; nothing comes back for ever, and nothing in a tight loop.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::agent::Exit;
use crate::topology::{RestartPolicy, TaskId};

/// What `PreemptionCheckpointHandler` exits with once it has saved.
const PREEMPTED: i32 = 42;
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// The starts that were granted.
#[derive(Debug)]
pub(super) struct Chances {
    max: u32,
    /// By task, or of the gang.
    granted: BTreeMap<Option<TaskId>, u32>,
}

impl Chances {
    pub(super) fn new(max: u32) -> Self {
        Self { max, granted: BTreeMap::new() }
    }

    /// Grants another start after this end, if the policy and the budget do.
    pub(super) fn grant(&mut self, whom: Option<TaskId>, policy: RestartPolicy, exit: &Exit) -> bool {
        let granted = self.granted.entry(whom).or_default();
        let is_granted = covers(policy, exit) && *granted < self.max;
        *granted += u32::from(is_granted);
        is_granted
    }

    pub(super) fn granted(&self, whom: Option<TaskId>) -> u32 {
        self.granted.get(&whom).copied().unwrap_or(0)
    }

    /// Before the start that was granted last: none before the first, then 1 s, 2 s, 4 s … 60 s.
    pub(super) fn pause(&self, whom: Option<TaskId>) -> Duration {
        match self.granted(whom) {
            0 | 1 => Duration::ZERO,
            granted => Duration::from_secs(1 << (granted - 2).min(6)).min(MAX_PAUSE),
        }
    }
}

fn covers(policy: RestartPolicy, exit: &Exit) -> bool {
    match (policy, exit) {
        // What cannot be run cannot be run again.
        (RestartPolicy::Never, _) | (_, Exit::NotStarted(_)) => false,
        (RestartPolicy::Always, _) => true,
        (RestartPolicy::OnFailure, _) => !exit.is_success(),
        (RestartPolicy::ExitCode, Exit::Code(code)) => *code >= 128 || *code == PREEMPTED,
        (RestartPolicy::ExitCode, Exit::Signal(_) | Exit::Lost) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Role;

    #[test]
    fn codes_of_signals_may_be_mended_and_a_scripts_own_may_not() {
        let covered = |policy| {
            let ends = [
                Exit::Code(0),
                Exit::Code(1),
                Exit::Code(42),
                Exit::Code(127),
                Exit::Code(137),
                Exit::Signal(11),
                Exit::Lost,
                Exit::NotStarted(String::new()),
            ];
            ends.map(|exit| if covers(policy, &exit) { '+' } else { '-' }).iter().collect::<String>()
        };
        assert_eq!(covered(RestartPolicy::Never), "--------");
        assert_eq!(covered(RestartPolicy::ExitCode), "--+-+++-");
        assert_eq!(covered(RestartPolicy::OnFailure), "-++++++-");
        assert_eq!(covered(RestartPolicy::Always), "+++++++-");
    }

    #[test]
    fn the_budget_ends_and_the_pauses_grow() {
        let mut chances = Chances::new(9);
        let mut pauses = Vec::new();
        while chances.grant(None, RestartPolicy::ExitCode, &Exit::Signal(9)) {
            pauses.push(chances.pause(None).as_secs());
        }
        assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 32, 60, 60]);
        let other = Some(TaskId { role: Role::Worker, index: 0 });
        assert!(chances.grant(other, RestartPolicy::ExitCode, &Exit::Signal(9)), "has a budget of its own");
    }
}
