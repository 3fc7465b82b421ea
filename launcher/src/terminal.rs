//! The terminal: whole lines of many processes, each with its owner's name before it.
//!
//! In: lines. Out: `worker:0 | line`, coloured where a person reads. The promise: lines never mix, and a
//! reader that went away (`| head`) disturbs nobody. It knows no processes.

use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// The launcher's own name in front of its lines.
const OWN_NAME: &str = "penstock";
/// Told apart on dark and light ground; red is for failures.
const COLOURS: [u8; 6] = [36, 32, 33, 35, 34, 96];

/// Where lines are shown. Clones are the same terminal.
#[derive(Clone)]
pub struct Terminal {
    out: Arc<Mutex<Box<dyn Write + Send>>>,
    coloured: bool,
}

/// A name and its colour, made once for each process.
#[derive(Clone)]
pub struct Prefix(String);

/// Makes this process its own session's leader, which no terminal ends.
pub fn leave_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

impl Terminal {
    /// Standard output; coloured if it is a terminal and `NO_COLOR` is not set.
    pub fn standard() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let coloured = wanted && io::stdout().is_terminal();
        Self::new(Box::new(io::stdout()), coloured)
    }

    pub fn new(out: Box<dyn Write + Send>, coloured: bool) -> Self {
        Self { out: Arc::new(Mutex::new(out)), coloured }
    }

    /// The prefix of the `place`-th process.
    pub fn prefix(&self, name: &str, place: usize) -> Prefix {
        if self.coloured {
            let colour = COLOURS[place % COLOURS.len()];
            Prefix(format!("\x1b[{colour}m{name} |\x1b[0m "))
        } else {
            Prefix(format!("{name} | "))
        }
    }

    /// Shows a line of a process, as the bytes that it wrote.
    pub fn line(&self, prefix: &Prefix, line: &[u8]) {
        let mut whole = Vec::with_capacity(prefix.0.len() + line.len() + 1);
        whole.extend_from_slice(prefix.0.as_bytes());
        whole.extend_from_slice(line);
        whole.push(b'\n');
        self.write(&whole);
    }

    /// Shows lines of the launcher's own.
    pub fn say(&self, text: &str) {
        let prefix =
            if self.coloured { format!("\x1b[1m{OWN_NAME} |\x1b[0m ") } else { format!("{OWN_NAME} | ") };
        for line in text.lines() {
            self.line(&Prefix(prefix.clone()), line.as_bytes());
        }
    }

    fn write(&self, bytes: &[u8]) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody reads any more: the log files still hold everything.
        let _ = out.write_all(bytes).and_then(|()| out.flush());
    }
}
