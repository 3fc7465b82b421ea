//! What launcher and agent say to each other: one JSON value a line.
//!
//! In and out: lines. The promise: a line that is not understood is no order and no report.

use std::fmt;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use serde::{Deserialize, Serialize};

/// From the launcher to the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// SIGTERM to the process group.
    Terminate,
    /// SIGKILL to the process group.
    Kill,
}

/// From the agent to the launcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The process runs; its id is its process group's too.
    Started { pid: i32 },
    /// The process and all that it started have ended. Nothing follows.
    Exited(Exit),
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// It never ran; the text says why.
    NotStarted(String),
    /// Its agent ended without a word, so nobody saw how it ended.
    Lost,
}

impl Order {
    pub fn to_line(self) -> String {
        line(&self)
    }

    pub fn from_line(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }
}

impl Report {
    pub fn to_line(&self) -> String {
        line(self)
    }

    pub fn from_line(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }
}

fn line(message: &impl Serialize) -> String {
    let mut line = serde_json::to_string(message).expect("messages hold nothing that JSON cannot");
    line.push('\n');
    line
}

impl Exit {
    pub fn is_success(&self) -> bool {
        *self == Self::Code(0)
    }

    /// As a shell reports it: 128 + n for a signal, 127 for a program that cannot be run.
    pub fn code(&self) -> i32 {
        match self {
            Self::Code(code) => *code,
            Self::Signal(signal) => 128 + signal,
            Self::NotStarted(_) => 127,
            Self::Lost => 1,
        }
    }

    pub fn signal(&self) -> Option<i32> {
        match self {
            Self::Signal(signal) => Some(*signal),
            _ => None,
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Lost,
        }
    }
}

/// Completes a sentence that begins with who: `worker:1 was killed by SIGKILL (exit code 137)`.
impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Signal(signal) => {
                let name = signal_name(*signal);
                write!(f, "was killed by {name} (exit code {})", self.code())?;
                if *signal == 9 {
                    f.write_str(", by hand or for want of memory")?;
                }
                Ok(())
            }
            Self::NotStarted(why) => write!(f, "did not start: {why}"),
            Self::Lost => f.write_str("was lost: its agent was killed, so nobody saw how it ended"),
        }
    }
}

/// The signals that end training processes in practice; any other by number.
pub fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_and_orders_come_back_as_sent() {
        for report in [
            Report::Started { pid: 7 },
            Report::Exited(Exit::Code(3)),
            Report::Exited(Exit::Signal(9)),
            Report::Exited(Exit::NotStarted("no such\nfile".to_owned())),
        ] {
            let line = report.to_line();
            assert_eq!(line.matches('\n').count(), 1, "one line: {line:?}");
            assert_eq!(Report::from_line(&line), Some(report));
        }
        assert_eq!(Order::from_line(&Order::Kill.to_line()), Some(Order::Kill));
        assert_eq!(Order::from_line("nonsense"), None);
    }

    #[test]
    fn exits_have_the_codes_of_a_shell_and_say_how() {
        assert_eq!(Exit::Signal(9).code(), 137);
        assert_eq!(Exit::Code(3).to_string(), "exited with code 3");
        assert_eq!(Exit::Signal(15).to_string(), "was killed by SIGTERM (exit code 143)");
    }
}
