//! A place for one job: scripts, a penstock whose daemons are played, and what came of the job.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use penstock_launcher::backend::local::{self, LocalError, Setup};
use penstock_launcher::job::{Draft, Job, Program};
use penstock_launcher::report::{Summary, TaskRecord};
use penstock_launcher::terminal::Terminal;
use tempfile::TempDir;
use tokio::sync::mpsc;

/// The real binary.
pub(crate) const PENSTOCK: &str = env!("CARGO_BIN_EXE_penstock");

/// A daemon that is ready at once and stays until it is told to go. `$BED` is the bed's directory.
pub(crate) const GOOD_DAEMON: &str = r#"
echo "$*" > "$BED/$1.args"
echo $$ > "$BED/$1.pid"
trap 'echo "$1" >> "$BED/ended"; exit 0' TERM
echo "admin on http://${ADMIN:-127.0.0.1:9}"
echo "listening on grpc://127.0.0.1:7"
while :; do sleep 1000 & wait $!; done
"#;

/// One directory, removed at the end.
pub(crate) struct Bed {
    pub(crate) directory: TempDir,
}

/// What came of a job.
pub(crate) struct Outcome {
    pub(crate) summary: Summary,
    /// Everything that was shown.
    pub(crate) shown: String,
}

#[derive(Clone, Default)]
struct Screen(Arc<Mutex<Vec<u8>>>);

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Bed {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Writes an executable shell script.
    pub(crate) fn script(&self, name: &str, body: &str) -> PathBuf {
        let path = self.path(name);
        let bed = self.directory.path().display();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let draft = path.with_extension("draft");
        std::fs::write(&draft, format!("#!/bin/sh\nBED='{bed}'\n{body}\n")).unwrap();
        // By another process: while this one has a program open for writing, a test beside this one may
        // fork, and until its child calls exec the program is busy and cannot be run.
        let installed = Command::new("install").args(["-m", "755"]).arg(&draft).arg(&path).status().unwrap();
        assert!(installed.success());
        path
    }

    /// The real agent, and `daemon` in place of gateway and sidecar.
    pub(crate) fn penstock(&self, daemon: &str) -> PathBuf {
        let body = format!("if [ \"$1\" = agent ]; then exec '{PENSTOCK}' \"$@\"; fi\n{daemon}");
        self.script("penstock", &body)
    }

    /// A job of two workers, run by the shell. `$index` and `$role` say which task a script is in.
    pub(crate) fn draft(&self, body: &str) -> Draft {
        let who = r#"
index=$(echo "$TF_CONFIG" | sed 's/.*"index":\([0-9]*\).*/\1/')
role=$(echo "$TF_CONFIG" | sed 's/.*"type":"\([a-z]*\)".*/\1/')
"#;
        Draft {
            program: Some(Program::Script(self.script("task.sh", &format!("{who}{body}")))),
            python: Some("/bin/sh".into()),
            num_workers: Some(2),
            run_dir: Some(self.path("run")),
            ..Draft::default()
        }
    }

    pub(crate) fn run(&self, draft: Draft) -> Outcome {
        self.run_with(draft, GOOD_DAEMON, &[]).unwrap()
    }

    /// Runs a job; `interrupts` arrive at once.
    pub(crate) fn run_with(
        &self,
        draft: Draft,
        daemon: &str,
        interrupts: &[i32],
    ) -> Result<Outcome, LocalError> {
        let job = Job::resolve(draft).unwrap();
        let screen = Screen::default();
        let setup = Setup {
            penstock: self.penstock(daemon),
            terminal: Terminal::new(Box::new(screen.clone()), false),
            start_deadline: Duration::from_secs(60),
        };
        let (tell, told) = mpsc::channel(8);
        for signal in interrupts {
            tell.try_send(*signal).unwrap();
        }
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let summary = runtime.block_on(local::run(&job, &setup, told))?;
        let shown = String::from_utf8(screen.0.lock().unwrap().clone()).unwrap();
        Ok(Outcome { summary, shown })
    }
}

impl Outcome {
    /// `worker:0 stopped, signal 15`, a line for each task.
    fn tasks(&self) -> Vec<String> {
        let line = |task: &TaskRecord| {
            let how = match (task.exit_code, task.signal) {
                (_, Some(signal)) => format!("signal {signal}"),
                (Some(code), None) => format!("code {code}"),
                (None, None) => "never ran".to_owned(),
            };
            format!("{}:{} {}, {how}", task.role, task.index, task.state)
        };
        self.summary.tasks.iter().map(line).collect()
    }

    pub(crate) fn check(&self, state: &str, exit_code: i32, tasks: &[&str]) {
        assert_eq!(self.summary.state, state, "{}", self.shown);
        assert_eq!(self.summary.exit_code, exit_code, "{}", self.shown);
        assert_eq!(self.tasks(), tasks, "{}", self.shown);
        let written = std::fs::read_to_string(self.summary.run_dir.join("summary.json")).unwrap();
        let written: serde_json::Value = serde_json::from_str(&written).unwrap();
        assert_eq!(written["exit_code"], exit_code);
    }

    pub(crate) fn assert_shown(&self, text: &str) {
        assert!(self.shown.contains(text), "expected {text:?} in:\n{}", self.shown);
    }
}
