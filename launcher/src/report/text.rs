//! A summary as a person reads it.

use std::fmt::{self, Write as _};
use std::path::Path;

use super::{DaemonRecord, FeedRecord, Summary, TaskRecord};

impl Summary {
    /// Some lines: the outcome, each process, and after a failure its last lines and where the rest is.
    pub fn to_text(&self) -> String {
        let mut text = format!("job {} {} ({})\n", self.job, self.outcome, human_duration(self.seconds));
        let names =
            self.tasks.iter().map(TaskRecord::name).chain(self.daemons.iter().map(|d| d.name.clone()));
        let width = names.map(|name| name.len()).max().unwrap_or(0);
        for task in &self.tasks {
            self.task_line(&mut text, task, width);
        }
        for daemon in &self.daemons {
            daemon_line(&mut text, daemon, width);
            daemon.feeds.iter().for_each(|feed| feed_line(&mut text, feed));
        }
        if let Some(log) = &self.last_lines_log {
            let who = self.first_failure.as_deref().unwrap_or("the failed process");
            add(&mut text, format_args!("last lines of {who} (all of them: {}):", log.display()));
            for line in &self.last_lines {
                add(&mut text, format_args!("    {line}"));
            }
        }
        add(&mut text, format_args!("summary: {}", self.run_dir.join("summary.json").display()));
        text
    }

    fn task_line(&self, text: &mut String, task: &TaskRecord, width: usize) {
        let name = task.name();
        let log = shorten(&task.log, &self.run_dir);
        let length = task.seconds.map(human_duration).unwrap_or_default();
        let code = match (task.exit_code, task.signal) {
            (_, Some(signal)) => crate::agent::signal_name(signal),
            (Some(code), None) => format!("exit {code}"),
            (None, None) => String::new(),
        };
        let first = if task.first_failure { "  ← first failure" } else { "" };
        let restarts = match task.restarts {
            0 => String::new(),
            1 => "  (started again once)".to_owned(),
            often => format!("  (started again {often} times)"),
        };
        add(
            text,
            format_args!(
                "  {name:width$}  {:<11} {code:<8} {length:>8}  {}{restarts}{first}",
                task.state,
                log.display()
            ),
        );
    }
}

impl TaskRecord {
    fn name(&self) -> String {
        format!("{}:{}", self.role, self.index)
    }
}

fn daemon_line(text: &mut String, daemon: &DaemonRecord, width: usize) {
    let mut facts = Vec::new();
    if let Some(rows) = daemon.rows {
        facts.push(format!("{rows} rows"));
    }
    if let Some(bytes) = daemon.bytes {
        facts.push(human_bytes(bytes));
    }
    if let Some(peak) = daemon.peak_memory_bytes {
        facts.push(format!("peak memory {}", human_bytes(peak)));
    }
    if let Some(seconds) = daemon.cpu_seconds {
        facts.push(format!("{seconds:.2} s CPU"));
    }
    if facts.is_empty() {
        facts.push("no metrics".to_owned());
    }
    let first = if daemon.first_failure { "  ← first failure" } else { "" };
    add(text, format_args!("  {:width$}  {}{first}", daemon.name, facts.join(", ")));
}

fn feed_line(text: &mut String, feed: &FeedRecord) {
    let verdict = feed.verdict.as_deref().unwrap_or("nothing is known");
    let stage = match &feed.slow_stage {
        Some(stage) if stage != "trainer" => format!(" ({stage})"),
        _ => String::new(),
    };
    let (waited, open) = (human_duration(feed.waited()), human_duration(feed.open_seconds));
    let [p50, p99] = [feed.wait_p50_seconds, feed.wait_p99_seconds].map(human_wait);
    add(
        text,
        format_args!(
            "    {}, rank {}: {verdict}{stage}, waited {waited} of {open}; for a step {p50} (p50), {p99} (p99)",
            feed.feed, feed.rank
        ),
    );
}

fn add(text: &mut String, line: fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("a string takes any text");
}

fn shorten<'a>(path: &'a Path, base: &Path) -> &'a Path {
    path.strip_prefix(base).unwrap_or(path)
}

/// `0.8 s`, `12.3 s`, `4 min 05 s`, `2 h 03 min`.
pub fn human_duration(seconds: f64) -> String {
    let whole = seconds as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
    }
}

/// `0`, `0.25 ms`, `120 ms`, `3.4 s`.
pub fn human_wait(seconds: f64) -> String {
    match seconds * 1000.0 {
        0.0 => "0".to_owned(),
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        _ => format!("{seconds:.1} s"),
    }
}

/// `512 B`, `1.5 KiB`, `45.0 MiB`.
pub fn human_bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn task(index: u32, code: i32, state: &'static str, first_failure: bool) -> TaskRecord {
        TaskRecord {
            role: "worker".into(),
            index,
            pid: Some(7),
            exit_code: Some(code),
            signal: (code > 128).then(|| code - 128),
            state,
            first_failure,
            restarts: index,
            started: None,
            seconds: Some(1.25),
            log: format!("/run/logs/worker-{index}.log").into(),
        }
    }

    #[test]
    fn a_failure_is_told_with_its_last_lines() {
        let summary = Summary {
            version: 1,
            job: "digits".into(),
            script: "train.py".into(),
            args: vec![],
            state: "failed",
            outcome: "failed: worker:1 exited with code 3".into(),
            exit_code: 3,
            first_failure: Some("worker:1".into()),
            started: String::new(),
            ended: String::new(),
            seconds: 75.0,
            inputs: BTreeMap::new(),
            run_dir: "/run".into(),
            tasks: vec![task(0, 143, "stopped", false), task(1, 3, "failed", true)],
            daemons: vec![DaemonRecord {
                name: "gateway".into(),
                kind: "gateway",
                pid: Some(8),
                exit_code: Some(0),
                signal: None,
                first_failure: false,
                log: "/run/logs/gateway.log".into(),
                peak_memory_bytes: Some(45 << 20),
                cpu_seconds: Some(0.5),
                rows: Some(1437),
                bytes: Some(1536),
                feeds: vec![FeedRecord {
                    feed: "train".into(),
                    rank: 1,
                    open_seconds: 70.0,
                    waited_seconds: BTreeMap::from([("store".into(), 5.0), ("pack".into(), 1.5)]),
                    wait_p99_seconds: 0.12,
                    slow_stage: Some("store".into()),
                    verdict: Some("starved by the feed".into()),
                    ..FeedRecord::default()
                }],
                metrics: BTreeMap::new(),
            }],
            last_lines: vec!["ValueError: no".into()],
            last_lines_log: Some("/run/logs/worker-1.log".into()),
        };
        let expected = "\
job digits failed: worker:1 exited with code 3 (1 min 15 s)
  worker:0  stopped     SIGTERM     1.2 s  logs/worker-0.log
  worker:1  failed      exit 3      1.2 s  logs/worker-1.log  (started again once)  ← first failure
  gateway   1437 rows, 1.5 KiB, peak memory 45.0 MiB, 0.50 s CPU
    train, rank 1: starved by the feed (store), waited 6.5 s of 1 min 10 s; for a step 0 (p50), 120 ms (p99)
last lines of worker:1 (all of them: /run/logs/worker-1.log):
    ValueError: no
summary: /run/summary.json
";
        assert_eq!(summary.to_text(), expected);
    }

    #[test]
    fn lengths_and_sizes_are_short() {
        assert_eq!(human_duration(0.84), "0.8 s");
        assert_eq!(human_duration(245.0), "4 min 05 s");
        assert_eq!(human_duration(7400.0), "2 h 03 min");
        assert_eq!([0.0, 0.00025, 0.12, 3.44].map(human_wait), ["0", "0.25 ms", "120 ms", "3.4 s"]);
        assert_eq!(human_bytes(512), "512 B");
        assert_eq!(human_bytes(3 << 30), "3.0 GiB");
    }
}
