//! How often a task may come back, and how long it waits before it does.
//!
//! In: deaths, counted by whoever is started again. Out: whether there is another start, and the pause before
//! it. The promise: pure; what was preempted comes back without using the budget up, and never in a tight loop.

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
    granted: BTreeMap<Option<TaskId>, Granted>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Granted {
    counted: u32,
    all: u32,
}

impl Chances {
    pub(super) fn new(max: u32) -> Self {
        Self { max, granted: BTreeMap::new() }
    }

    /// Grants another start after this end, if the policy and the budget do.
    pub(super) fn grant(&mut self, whom: Option<TaskId>, policy: RestartPolicy, exit: &Exit) -> bool {
        if !covers(policy, exit) {
            return false;
        }
        let granted = self.granted.entry(whom).or_default();
        // Zero means that nobody is to come back, whyever he left.
        if self.max == 0 || granted.counted == self.max && !is_preempted(exit) {
            return false;
        }
        granted.all = granted.all.saturating_add(1);
        granted.counted += u32::from(!is_preempted(exit));
        true
    }

    /// How many of them used the budget.
    pub(super) fn counted(&self, whom: Option<TaskId>) -> u32 {
        self.of(whom).counted
    }

    /// Before the start that was granted last: none before the first, then 1 s, 2 s, 4 s … 60 s.
    pub(super) fn pause(&self, whom: Option<TaskId>) -> Duration {
        match self.of(whom).all {
            0 | 1 => Duration::ZERO,
            all => Duration::from_secs(1 << (all - 2).min(6)).min(MAX_PAUSE),
        }
    }

    fn of(&self, whom: Option<TaskId>) -> Granted {
        self.granted.get(&whom).copied().unwrap_or_default()
    }
}

fn covers(policy: RestartPolicy, exit: &Exit) -> bool {
    match (policy, exit) {
        // What cannot be run cannot be run again.
        (RestartPolicy::Never, _) | (_, Exit::NotStarted(_)) => false,
        (RestartPolicy::Always, _) => true,
        (RestartPolicy::OnFailure, _) => !exit.is_success(),
        (RestartPolicy::ExitCode, Exit::Code(code)) => *code >= 128 || is_preempted(exit),
        (RestartPolicy::ExitCode, Exit::Signal(_) | Exit::Lost) => true,
    }
}

fn is_preempted(exit: &Exit) -> bool {
    *exit == Exit::Code(PREEMPTED)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut chances = Chances::new(3);
        let mut pauses = Vec::new();
        while chances.grant(None, RestartPolicy::ExitCode, &Exit::Signal(9)) {
            pauses.push(chances.pause(None).as_secs());
        }
        assert_eq!(pauses, [0, 1, 2]);
        for _ in 0..10 {
            assert!(chances.grant(None, RestartPolicy::ExitCode, &Exit::Code(PREEMPTED)), "is not counted");
        }
        assert_eq!((chances.counted(None), chances.pause(None)), (3, MAX_PAUSE));
        assert!(!Chances::new(0).grant(None, RestartPolicy::Always, &Exit::Code(PREEMPTED)));
    }
}
