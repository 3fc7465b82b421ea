//! Ends the descendants that a finished process left behind.
//!
//! In: nothing but `/proc`. Out: nothing. The promise: on return this process has no living
//! descendant, provided that it is a subreaper. It must have no child that should live.

use rustix::process::{Pid, Signal, WaitOptions};

/// Kills and reaps until there is no child. Killing one hands its children to this process, so every
/// round digs a generation deeper. A child that has ended stays in the list until it is reaped here, so
/// that none slips through between two looks.
pub(super) fn end_all() {
    loop {
        let children = children();
        for child in &children {
            let _ = rustix::process::kill_process(*child, Signal::KILL);
        }
        // Without a child that is known there is nothing to wait for.
        if children.is_empty() {
            return;
        }
        // Interrupted or reaped, the next look tells.
        let _ = rustix::process::wait(WaitOptions::empty());
    }
}

/// Read from every `/proc/PID/stat`, since not all kernels list a task's children.
fn children() -> Vec<Pid> {
    let me = rustix::process::getpid();
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Pid::from_raw)
        .filter(|process| parent(*process) == Some(me))
        .collect()
}

fn parent(process: Pid) -> Option<Pid> {
    let path = format!("/proc/{}/stat", process.as_raw_nonzero());
    let stat = std::fs::read(path).ok()?;
    Pid::from_raw(parent_field(&stat)?)
}

/// The fourth field. The second, the command's name in parentheses, may hold blanks and parentheses of
/// its own, so fields are counted from the last one.
fn parent_field(stat: &[u8]) -> Option<i32> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_behind_any_name() {
        assert_eq!(parent_field(b"12 (python3) S 7 12 12 0"), Some(7));
        assert_eq!(parent_field(b"12 (a) b) (c) Z 8 12 12 0"), Some(8));
        assert_eq!(parent_field(b"garbage"), None);
    }

    #[test]
    fn this_process_has_a_parent() {
        assert!(parent(rustix::process::getpid()).is_some());
    }
}
