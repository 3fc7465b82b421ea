//! What a run would start, without starting it.
//!
//! In: a job, and the variables that its tasks would inherit. Out: each task's command line, variables, rank and restart
//! rule. The promise: pure; what is known only once it runs (a port, the run directory's name) stands as a word in
//! capitals.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::specs::command_line;
use crate::environment::{Wiring, variables};
use crate::job::Job;
use crate::topology::{Scope, Task, Topology};

/// A run that was not started.
#[derive(Debug, Serialize)]
pub struct Plan {
    pub job: String,
    /// How its tasks train together.
    pub strategy: String,
    /// Dataset name → URI; with any, a gateway runs, and a sidecar beside each task that has a rank.
    pub inputs: BTreeMap<String, String>,
    pub tasks: Vec<PlannedTask>,
}

#[derive(Debug, Serialize)]
pub struct PlannedTask {
    pub name: String,
    pub command: Vec<String>,
    /// Those that differ from what it inherits.
    pub env: BTreeMap<String, String>,
    pub rank: Option<u32>,
    pub world_size: Option<u32>,
    /// Which ends another start may mend: `Never`, `OnFailure`, `ExitCode` or `Always`.
    pub restart_policy: String,
    /// Who is started again then: `alone` or `gang`.
    pub restart_scope: &'static str,
}

impl Plan {
    pub fn new(job: &Job, inherited: &BTreeMap<String, String>) -> Self {
        let topology = Topology::new(job);
        let wiring = wiring(job, &topology, inherited);
        let planned = |task: &Task| {
            let (program, args) = command_line(job, task, &topology, &wiring);
            let mut env = variables(job, task, &topology, &wiring);
            env.retain(|name, value| inherited.get(name) != Some(value));
            let rule = topology.rule(task.id.role);
            PlannedTask {
                name: task.id.to_string(),
                command: std::iter::once(program.display().to_string()).chain(args).collect(),
                env,
                rank: task.data.map(|data| data.rank),
                world_size: task.data.map(|data| data.world_size),
                restart_policy: rule.policy.to_string(),
                restart_scope: match rule.scope {
                    Scope::Alone => "alone",
                    Scope::Gang => "gang",
                },
            }
        };
        Self {
            job: job.name.clone(),
            strategy: topology.strategy.to_string(),
            inputs: job.inputs.clone(),
            tasks: topology.tasks.iter().map(planned).collect(),
        }
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let mut text = format!("job {}: {}\n", self.job, self.strategy);
        for (name, uri) in &self.inputs {
            text += &format!(
                "input {name}: {uri}, by a gateway and a sidecar beside each task that has a rank\n"
            );
        }
        for task in &self.tasks {
            let words: Vec<_> = task.command.iter().map(|word| quoted(word)).collect();
            let rank = match (task.rank, task.world_size) {
                (Some(rank), Some(world_size)) => format!(", rank {rank} of {world_size}"),
                _ => String::new(),
            };
            let again = match (task.restart_policy.as_str(), task.restart_scope) {
                ("Never", _) => "never started again".to_owned(),
                (policy, "gang") => format!("started again with all others ({policy})"),
                (policy, _) => format!("started again alone ({policy})"),
            };
            text += &format!("\n{}{rank}, {again}\n  {}\n", task.name, words.join(" "));
            for (name, value) in &task.env {
                text += &format!("    {name}={}\n", quoted(value));
            }
        }
        text
    }
}

/// Addresses and places in words.
fn wiring(job: &Job, topology: &Topology, inherited: &BTreeMap<String, String>) -> Wiring {
    let run_dir = job.run_dir.clone().unwrap_or_else(|| PathBuf::from("RUN_DIR"));
    let no_proxy = ["no_proxy", "NO_PROXY"].iter().find_map(|name| inherited.get(*name)).cloned();
    let mut wiring = Wiring {
        addresses: topology.addressed().map(|task| (task, "127.0.0.1:PORT".to_owned())).collect(),
        logdir: job.logdir.clone().unwrap_or_else(|| run_dir.join("tensorboard")),
        datasets: job.inputs.keys().cloned().collect(),
        no_proxy,
        ..Wiring::default()
    };
    if !job.inputs.is_empty() {
        wiring.gateways = vec!["grpc://127.0.0.1:PORT".to_owned()];
        let fed = topology.tasks.iter().filter(|task| task.data.is_some()).map(|task| task.id);
        let socket =
            |id: crate::topology::TaskId| run_dir.join("sockets").join(format!("{}.sock", id.file_stem()));
        wiring.sidecars = fed.map(|id| (id, socket(id))).collect();
    }
    wiring.run_dir = run_dir;
    wiring
}

/// As a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    let mut quoted = String::from("'");
    for c in word.chars() {
        match c {
            '\'' => quoted += "'\\''",
            c => quoted.write_char(c).expect("a text takes any character"),
        }
    }
    quoted + "'"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Draft, Program};

    #[test]
    fn every_task_is_told_with_what_it_would_find() {
        let mut draft = Draft {
            program: Some(Program::Script("my train.py".into())),
            args: Some(vec!["--lr".into(), "0.1".into()]),
            num_workers: Some(1),
            num_ps: Some(1),
            run_dir: Some("/run".into()),
            ..Draft::default()
        };
        draft.add_env("SAME=1").unwrap();
        draft.add_input("train=data").unwrap();
        draft.set_command(crate::topology::Role::Ps, "serve it");
        let inherited = [("SAME", "1"), ("no_proxy", "x")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let mut plan = Plan::new(&Job::resolve(draft).unwrap(), &inherited);
        for task in &mut plan.tasks {
            // Which other variables there are is the environment's to test.
            task.env.retain(|name, _| {
                ["TF_CONFIG", "SAME", "PENSTOCK_SIDECAR", "no_proxy"].contains(&name.as_str())
            });
        }
        assert_eq!(
            plan.to_text(),
            r#"job my-train: workers and parameter servers
input train: data, by a gateway and a sidecar beside each task that has a rank

worker:0, rank 0 of 1, started again alone (ExitCode)
  python3 'my train.py' --lr 0.1
    PENSTOCK_SIDECAR=/run/sockets/worker-0.sock
    TF_CONFIG='{"cluster":{"ps":["127.0.0.1:PORT"],"worker":["127.0.0.1:PORT"]},"task":{"index":0,"type":"worker"}}'
    no_proxy=x,127.0.0.1,localhost

ps:0, started again with all others (ExitCode)
  sh -c 'serve it'
    TF_CONFIG='{"cluster":{"ps":["127.0.0.1:PORT"],"worker":["127.0.0.1:PORT"]},"task":{"index":0,"type":"ps"}}'
    no_proxy=x,127.0.0.1,localhost
"#
        );
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
