//! Runs and their tasks as a person reads them.

use super::{Run, Standing};
use crate::report::human_duration;

/// A line a run.
pub fn of_runs(runs: &[Run]) -> String {
    let header = ["RUN", "STATE", "TASKS", "STARTED", "TOOK"].map(str::to_owned).to_vec();
    let row = |run: &Run| {
        let state = run.state.as_ref();
        let tasks = state.map_or(0, |state| state.tasks.len());
        let took = match &run.standing {
            Standing::Ended(ending) => human_duration(ending.seconds),
            Standing::Running | Standing::Lost => String::new(),
        };
        vec![
            run.name(),
            run.standing.word().to_owned(),
            tasks.to_string(),
            state.map_or_else(String::new, |state| moment(&state.started)),
            took,
        ]
    };
    table(std::iter::once(header).chain(runs.iter().map(row)))
}

/// The run, then a line a task.
pub fn of_run(run: &Run) -> String {
    let outcome = match &run.standing {
        Standing::Running => "runs".to_owned(),
        Standing::Lost => "was lost: its launcher is gone without a summary".to_owned(),
        Standing::Ended(ending) => format!("{} ({})", ending.outcome, human_duration(ending.seconds)),
    };
    let mut text = format!("job {} {outcome}\n", run.job().unwrap_or("of an earlier version"));
    if let Some(state) = &run.state {
        text.push_str(&format!(
            "{}, since {}, in {}\n",
            state.program,
            moment(&state.started),
            run.path.display()
        ));
    }
    let header = ["TASK", "STATE", "EXIT", "RESTARTS", "PID", "ADDRESS", "RANK"].map(str::to_owned).to_vec();
    let optional = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let rows: Vec<_> = match (&run.standing, &run.state) {
        (Standing::Ended(ending), _) => ending
            .tasks
            .iter()
            .map(|task| {
                let exit = optional(task.exit_code.map(|code| code.to_string()));
                let name = format!("{}:{}", task.role, task.index);
                vec![name, task.state.clone(), exit, task.restarts.to_string()]
            })
            .collect(),
        (_, Some(state)) => state
            .tasks
            .iter()
            .map(|task| {
                vec![
                    format!("{}:{}", task.role, task.index),
                    task.state.clone(),
                    "-".to_owned(),
                    task.restarts.to_string(),
                    optional(task.pid.map(|pid| pid.to_string())),
                    optional(task.address.clone()),
                    optional(task.rank.map(|rank| rank.to_string())),
                ]
            })
            .collect(),
        (_, None) => Vec::new(),
    };
    let columns = rows.first().map_or(0, Vec::len);
    text + &table(std::iter::once(header[..columns].to_vec()).filter(|header| !header.is_empty()).chain(rows))
}

impl Standing {
    pub fn word(&self) -> &str {
        match self {
            Self::Running => "running",
            Self::Ended(ending) => &ending.state,
            Self::Lost => "lost",
        }
    }
}

/// `2026-01-31T12:00:00.250Z` → `2026-01-31 12:00:00 UTC`
fn moment(text: &str) -> String {
    match text.split_once('T') {
        Some((date, time)) => format!("{date} {} UTC", time.get(..8).unwrap_or(time)),
        None => text.to_owned(),
    }
}

fn table(rows: impl Iterator<Item = Vec<String>>) -> String {
    let rows: Vec<Vec<String>> = rows.collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column| rows.iter().filter_map(|row| row.get(column)).map(String::len).max();
    let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Launcher, RunState, TaskStanding};
    use super::*;

    #[test]
    fn a_run_that_goes_on_is_shown_with_its_addresses() {
        let task = |index, pid| TaskStanding {
            role: "worker".into(),
            index,
            state: if index == 0 { "running" } else { "waiting" }.into(),
            pid,
            restarts: index,
            address: Some(format!("127.0.0.1:700{index}")),
            rank: Some(index),
            log: "/run/logs/worker.log".into(),
        };
        let state = RunState {
            version: 1,
            job: "digits".into(),
            program: "train.py".into(),
            launcher: Launcher { pid: 1, started_ticks: 1 },
            started: "2026-01-31T12:00:00.250Z".into(),
            tasks: vec![task(0, Some(17)), task(1, None)],
        };
        let run = Run { path: "/runs/digits-1".into(), state: Some(state), standing: Standing::Running };
        let expected = "\
job digits runs
train.py, since 2026-01-31 12:00:00 UTC, in /runs/digits-1
TASK      STATE    EXIT  RESTARTS  PID  ADDRESS         RANK
worker:0  running  -     0         17   127.0.0.1:7000  0
worker:1  waiting  -     1         -    127.0.0.1:7001  1
";
        assert_eq!(of_run(&run), expected);
        let expected = "\
RUN       STATE    TASKS  STARTED                  TOOK
digits-1  running  2      2026-01-31 12:00:00 UTC
";
        assert_eq!(of_runs(&[run]), expected);
    }
}
