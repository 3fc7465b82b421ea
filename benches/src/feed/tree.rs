//! A process and all that came of it: their CPU seconds and memory, looked at from outside again and again.
//!
//! In: a process. Out: sums over the tree. A process that ends counts with what it had used when it was last looked at. What
//! has left its parent stays in the tree that it was seen in.

use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, anyhow};

/// How often the tree is looked at: what a process uses after the last look before its end is lost.
const EVERY: Duration = Duration::from_millis(50);
/// Looks per look at memory, which costs the kernel a walk over every page table.
const MEMORY_EVERY: u32 = 4;

/// A process for good: its number, and when it started, for numbers come again.
type Identity = (u32, u64);

/// What was seen of a tree.
#[derive(Debug, Default, Clone)]
pub(super) struct Seen {
    ticks: BTreeMap<Identity, u64>,
    root: u32,
    /// The most bytes that all had at once, pages that several map counted once.
    pub(super) peak_bytes: u64,
}

impl Seen {
    pub(super) fn of(root: u32) -> Self {
        Self { root, ..Self::default() }
    }

    /// CPU seconds of all, up to the last look.
    pub(super) fn cpu_seconds(&self) -> f64 {
        seconds(self.ticks.values().sum())
    }

    /// CPU seconds of the root alone.
    pub(super) fn root_cpu_seconds(&self) -> f64 {
        seconds(self.ticks.iter().filter(|((pid, _), _)| *pid == self.root).map(|(_, ticks)| ticks).sum())
    }

    /// Looks at the CPU of all.
    pub(super) fn look(&mut self) {
        let processes = processes();
        let mut members: Vec<u32> = vec![self.root];
        members.extend(
            self.ticks
                .keys()
                .filter(|&&(pid, started)| {
                    processes.get(&pid).is_some_and(|process| process.started == started)
                })
                .map(|(pid, _)| *pid),
        );
        let mut at = 0;
        while let Some(&parent) = members.get(at) {
            let children =
                processes.iter().filter(|(_, process)| process.parent == parent).map(|(pid, _)| *pid);
            let new: Vec<_> = children.filter(|pid| !members.contains(pid)).collect();
            members.extend(new);
            at += 1;
        }
        for pid in members {
            if let Some(process) = processes.get(&pid) {
                self.ticks.insert((pid, process.started), process.ticks);
            }
        }
    }

    /// Looks at the memory of those that were there at the last look.
    pub(super) fn look_at_memory(&mut self) {
        let bytes = self.ticks.keys().filter_map(|&(pid, _)| proportional_bytes(pid)).sum();
        self.peak_bytes = self.peak_bytes.max(bytes);
    }

    /// Ends what is left of it.
    pub(super) fn kill(mut self) {
        self.look();
        let processes = processes();
        for (pid, started) in self.ticks.into_keys() {
            let number = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
            if let Some(number) = number
                && processes.get(&pid).is_some_and(|process| process.started == started)
            {
                // Ended by itself is as good.
                let _ = rustix::process::kill_process(number, rustix::process::Signal::KILL);
            }
        }
    }
}

/// Looks at a tree until it is told to stop.
pub(super) struct Watch {
    stop: Sender<()>,
    thread: JoinHandle<Seen>,
}

impl Watch {
    /// Goes on with what was seen before.
    pub(super) fn start(mut seen: Seen) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut looks = 0u32;
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                seen.look();
                if looks.is_multiple_of(MEMORY_EVERY) {
                    seen.look_at_memory();
                }
                looks += 1;
            }
            seen.look();
            seen.look_at_memory();
            seen
        });
        Self { stop, thread }
    }

    /// What was seen, up to now.
    pub(super) fn stop(self) -> Result<Seen> {
        drop(self.stop);
        self.thread.join().map_err(|_| anyhow!("the watch over a tree of processes fell over"))
    }
}

struct Process {
    parent: u32,
    started: u64,
    ticks: u64,
}

/// All processes of the machine.
fn processes() -> BTreeMap<u32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    entries
        .filter_map(|entry| {
            let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            // Whoever ended meanwhile is left out.
            Some((pid, parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))
        })
        .collect()
}

/// The fields of `/proc/PID/stat` after the name, which may itself hold spaces and brackets.
fn parse(stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Process {
        parent: u32::try_from(number(1)?).ok()?,
        started: number(19)?,
        ticks: number(11)? + number(12)?,
    })
}

fn proportional_bytes(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_grandchild_is_seen_and_ended_with_the_tree() {
        let script = "sh -c 'echo $$; exec sleep 1000' & wait";
        let mut child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let grandchild: u32 = line.trim().parse().unwrap();
        let mut seen = Seen::of(child.id());
        seen.look();
        seen.look_at_memory();
        assert!(seen.ticks.keys().any(|(pid, _)| *pid == grandchild) && seen.peak_bytes > 0);
        let own = std::process::id();
        assert!(!seen.ticks.keys().any(|(pid, _)| *pid == own));
        seen.kill();
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_name_may_look_like_fields() {
        let stat = "7 (a) b (c) S 3 1 1 0 -1 4 1 2 3 4 50 6 8 9 20 0 1 0 12345 1 1";
        let process = parse(stat).unwrap();
        assert_eq!((process.parent, process.ticks, process.started), (3, 56, 12345));
    }
}
