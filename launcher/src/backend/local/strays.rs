//! Ends what is left of a process whose agent was killed.
//!
//! In: the mark that the agent and all its descendants carry in their environment. Out: whether none of
//! them lives. It is the second line: as long as an agent lives, it does this itself, and better.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// The variable that carries the mark.
pub(super) const VARIABLE: &str = "PENSTOCK_PROCESS";
/// A killed process that is still there after it waits for a disk that does not answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at all processes.
const PAUSE: Duration = Duration::from_millis(5);

/// Kills every process that carries `mark`, until none is found.
pub(super) fn end_all(mark: &str) -> bool {
    let entry = format!("{VARIABLE}={mark}");
    let begun = Instant::now();
    loop {
        let marked = marked(entry.as_bytes());
        if marked.is_empty() {
            return true;
        }
        for process in marked {
            let _ = rustix::process::kill_process(process, Signal::KILL);
        }
        if begun.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Other users' environments cannot be read, and those of ended processes are empty.
fn marked(entry: &[u8]) -> Vec<Pid> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let is_marked = |process: &Pid| {
        let environment = std::fs::read(format!("/proc/{}/environ", process.as_raw_nonzero()));
        environment
            .is_ok_and(|variables| variables.split(|byte| *byte == 0).any(|variable| variable == entry))
    };
    processes
        .filter_map(|file| file.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Pid::from_raw)
        .filter(is_marked)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn marked_processes_end_and_no_others() {
        let start = |mark: &str| {
            Command::new("sh")
                .args(["-c", "echo up; sleep 1000 & setsid sleep 1000"])
                .env(VARIABLE, mark)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let mut ours = start("ours");
        let mut other = start("ours too");
        let mut output = ours.stdout.take().unwrap();
        output.read_exact(&mut [0; 3]).unwrap();
        assert!(end_all("ours"));
        ours.wait().unwrap();
        assert_eq!(output.read(&mut [0]).unwrap(), 0, "no holder of the pipe is left");
        assert!(other.try_wait().unwrap().is_none());
        assert!(end_all("ours too"));
        other.wait().unwrap();
    }
}
