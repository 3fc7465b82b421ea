//! The arguments of each task: placeholders filled in, and flags put behind them.
//!
//! In: a job's arguments and where everything is. Out: a task's. The promise: `{name}` and `%name%` are replaced where
//! the name is one of ours, and `{{name}}` is `{name}` then; any other byte of an argument stays as it is, the braces of
//! JSON among them.

use std::collections::BTreeMap;

use super::{Wiring, cluster};
use crate::job::{ArgStyle, Job};
use crate::topology::{Role, Task, Topology};

/// An input's URI: `{input:NAME}`.
const INPUT: &str = "input:";

/// The arguments of `task`.
pub fn arguments(
    job: &Job,
    own: &[String],
    task: &Task,
    topology: &Topology,
    wiring: &Wiring,
) -> Vec<String> {
    let values = values(job, task, topology, wiring);
    let mut arguments: Vec<_> = own.iter().map(|arg| fill(arg, &|name| value(name, &values, job))).collect();
    if task.id.role.is_tensorflows() {
        arguments.extend(flags(job.wiring.arg_style, task, wiring));
    }
    arguments
}

/// The first `{input:NAME}` of an argument whose NAME is none of these.
pub(crate) fn unknown_input<'a>(argument: &'a str, inputs: &BTreeMap<String, String>) -> Option<&'a str> {
    let open = format!("{{{INPUT}");
    argument.match_indices(&open).find_map(|(place, _)| {
        let name = argument[place + open.len()..].split_once('}')?.0;
        let is_escaped = argument[..place].ends_with('{');
        (!is_escaped && !inputs.contains_key(name)).then_some(name)
    })
}

type Values = BTreeMap<&'static str, String>;

fn values(job: &Job, task: &Task, topology: &Topology, wiring: &Wiring) -> Values {
    let role = task.id.role.name().to_owned();
    let index = task.id.index.to_string();
    let (host, port) = wiring.addresses.get(&task.id).map(|address| cluster::split(address)).unzip();
    let hosts = |role| cluster::hosts(role, wiring);
    let mut values = Values::from([
        ("role", role.clone()),
        ("job_name", role),
        ("index", index.clone()),
        ("task_index", index),
        ("ps_hosts", hosts(Role::Ps)),
        ("worker_hosts", hosts(Role::Worker)),
        ("chief_hosts", hosts(Role::Chief)),
        ("num_workers", job.num_workers.to_string()),
        ("num_ps", job.num_ps.to_string()),
        ("cluster", cluster::spec(topology.cluster(), wiring).to_string()),
        ("logdir", wiring.logdir.display().to_string()),
        ("run_dir", wiring.run_dir.display().to_string()),
    ]);
    if let (Some(host), Some(port)) = (host, port) {
        values.extend([("host", host.to_owned()), ("port", port.to_owned())]);
    }
    if let Some(data) = task.data {
        values.extend([("rank", data.rank.to_string()), ("world_size", data.world_size.to_string())]);
    }
    // Submarine's name for what a job with one input reads.
    if let (1, Some(uri)) = (job.inputs.len(), job.inputs.values().next()) {
        values.extend([("input", uri.clone()), ("input_path", uri.clone())]);
    }
    values
}

fn value<'a>(name: &str, values: &'a Values, job: &'a Job) -> Option<&'a str> {
    match name.strip_prefix(INPUT) {
        Some(input) => job.inputs.get(input).map(String::as_str),
        None => values.get(name).map(String::as_str),
    }
}

/// Replaces what `value` knows.
fn fill<'a>(text: &str, value: &impl Fn(&str) -> Option<&'a str>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find(['{', '%']) {
        let (before, at) = rest.split_at(place);
        filled.push_str(before);
        let (replacement, length) = replacement(at, value);
        filled.push_str(&replacement);
        rest = &at[length..];
    }
    filled + rest
}

/// What stands for the beginning of `text`, and how many bytes of it.
fn replacement<'a>(text: &str, value: &impl Fn(&str) -> Option<&'a str>) -> (String, usize) {
    for (open, close, escaped) in [("{{", "}}", true), ("{", "}", false), ("%", "%", false)] {
        let Some(name) =
            text.strip_prefix(open).and_then(|inner| inner.split_once(close)).map(|(name, _)| name)
        else {
            continue;
        };
        if let Some(value) = value(name) {
            let shown = if escaped { format!("{{{name}}}") } else { value.to_owned() };
            return (shown, open.len() + name.len() + close.len());
        }
    }
    (text[..1].to_owned(), 1)
}

fn flags(style: ArgStyle, task: &Task, wiring: &Wiring) -> Vec<String> {
    let (role, index) = (task.id.role.name(), task.id.index);
    let (ps, workers) = (cluster::hosts(Role::Ps, wiring), cluster::hosts(Role::Worker, wiring));
    match style {
        ArgStyle::None => Vec::new(),
        ArgStyle::Tf1 => vec![
            format!("--job_name={role}"),
            format!("--task_index={index}"),
            format!("--ps_hosts={ps}"),
            format!("--worker_hosts={workers}"),
        ],
        ArgStyle::Tf1Dashes => vec![
            format!("--job-name={role}"),
            format!("--task-index={index}"),
            format!("--ps-hosts={ps}"),
            format!("--worker-hosts={workers}"),
        ],
        ArgStyle::PsHost => {
            let (host, port) = cluster::split(&ps);
            let mut flags = vec![
                format!("--job-name={role}"),
                format!("--task-index={index}"),
                format!("--ps-host={host}"),
                format!("--port={port}"),
                "--worker-host".to_owned(),
            ];
            flags.extend(workers.split(',').map(|worker| cluster::split(worker).0.to_owned()));
            flags
        }
    }
}

#[cfg(test)]
mod tests;
