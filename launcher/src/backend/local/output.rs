//! The output of one process: whole into its log, line by line to the terminal.
//!
//! In: a pipe that carries standard output and standard error together, so that their order is kept.
//! Out: the log, prefixed lines here and in the journal, the last lines in memory. The promise: every byte reaches the log; at
//! most [`LINE_BYTES`] of an endless line and [`TAIL_LINES`] lines are held. The process waits when the
//! disk or the terminal is slow.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

use super::logs::{Journal, Log};
use crate::terminal::{Prefix, Terminal};

/// Lines of a failed process that are shown at the end.
const TAIL_LINES: usize = 20;
/// A longer line is shown in pieces.
const LINE_BYTES: usize = 16 << 10;

/// The last lines of a process.
#[derive(Clone, Default)]
pub(super) struct Tail(Arc<Mutex<VecDeque<String>>>);

impl Tail {
    pub(super) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn push(&self, line: &[u8]) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == TAIL_LINES {
            lines.pop_front();
        }
        lines.push_back(String::from_utf8_lossy(line).into_owned());
    }
}

/// Looks at every line.
pub(super) type Listener = Box<dyn Fn(&str) + Send>;

/// Where the output of a process goes.
pub(super) struct Sinks {
    pub(super) log: Log,
    pub(super) journal: Journal,
    /// Whose lines they are.
    pub(super) name: String,
    pub(super) tail: Tail,
    /// Absent: not shown.
    pub(super) shown: Option<(Terminal, Prefix)>,
    pub(super) listener: Option<Listener>,
}

/// Moves output until the last holder of the pipe's other end has closed it.
pub(super) fn pump(mut pipe: impl Read, mut sinks: Sinks) {
    let mut lines = Lines::default();
    let mut buffer = [0; 8192];
    loop {
        let length = match pipe.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        // A full disk must not end the training; the terminal and the tail still show the output.
        let _ = sinks.log.write(&buffer[..length]);
        lines.feed(&buffer[..length], |line| sinks.line(line));
    }
    lines.finish(|line| sinks.line(line));
}

impl Sinks {
    fn line(&self, line: &[u8]) {
        self.tail.push(line);
        self.journal.line(&self.name, line);
        if let Some((terminal, prefix)) = &self.shown {
            terminal.line(prefix, line);
        }
        if let Some(listener) = &self.listener {
            listener(&String::from_utf8_lossy(line));
        }
    }
}

/// Cuts bytes into lines. A carriage return ends a line too, as progress bars use it; an empty line
/// between the two of `\r\n` is none.
#[derive(Default)]
struct Lines {
    pending: Vec<u8>,
    after_return: bool,
}

impl Lines {
    fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        for &byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                // A bar that starts with a return has no line before it.
                b'\r' if self.pending.is_empty() => {}
                b'\n' | b'\r' => {
                    each(&self.pending);
                    self.pending.clear();
                }
                _ => {
                    self.pending.push(byte);
                    if self.pending.len() == LINE_BYTES {
                        each(&self.pending);
                        self.pending.clear();
                    }
                }
            }
        }
    }

    fn finish(mut self, mut each: impl FnMut(&[u8])) {
        if !self.pending.is_empty() {
            each(&std::mem::take(&mut self.pending));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of `pieces`, whatever the cuts between them.
    fn check(pieces: &[&str], expected: &[&str]) {
        let mut seen = Vec::new();
        let mut lines = Lines::default();
        for piece in pieces {
            lines.feed(piece.as_bytes(), |line| seen.push(String::from_utf8_lossy(line).into_owned()));
        }
        lines.finish(|line| seen.push(String::from_utf8_lossy(line).into_owned()));
        assert_eq!(seen, expected);
    }

    #[test]
    fn lines_are_cut_at_newlines_and_returns() {
        check(&["one\ntw", "o\n\nlast"], &["one", "two", "", "last"]);
        check(&["dos\r", "\nunix\n"], &["dos", "unix"]);
        check(&["\r10%\r", "20%\rdone\n"], &["10%", "20%", "done"]);
    }

    #[test]
    fn an_endless_line_comes_in_pieces() {
        let long = "x".repeat(LINE_BYTES + 1);
        check(&[&long], &[&long[1..], "x"]);
    }

    #[test]
    fn the_tail_keeps_the_last_lines() {
        let tail = Tail::default();
        for line in 0..50 {
            tail.push(line.to_string().as_bytes());
        }
        let lines = tail.lines();
        assert_eq!((lines.len(), lines[0].as_str()), (TAIL_LINES, "30"));
    }
}
