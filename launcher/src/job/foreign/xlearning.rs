//! Qihoo's XLearning, now Hbox: `xl-submit`.
//!
//! In: its command line. Out: a draft in which all tasks run the launch command. The promise: as there, an evaluator is
//! one of the workers that were asked for.

use super::Ignored;
use super::flags;
use crate::job::resources::Memory;
use crate::job::{Draft, Program, Resources};
use crate::topology::Role;

pub(super) fn from_flags(words: &[String]) -> Result<Draft, String> {
    let mut draft = Draft::default();
    let mut ignored = Ignored::new("no meaning on one machine, where tasks run in this directory");
    for flag in flags::read(words) {
        let (role, what) = match flag.name.split_once('-') {
            Some(("worker", what)) => (Role::Worker, what),
            Some(("ps", what)) => (Role::Ps, what),
            Some(("evaluatorworker", what)) => (Role::Evaluator, what),
            _ => (Role::TensorBoard, flag.name.as_str()),
        };
        match (role, what) {
            (Role::Worker, "num") => draft.num_workers = Some(flag.count()?),
            (Role::Ps, "num") => draft.num_ps = Some(flag.count()?),
            (Role::Worker | Role::Ps | Role::Evaluator, "memory" | "cores" | "gpus" | "gcores") => {
                let name = if what == "gcores" { "gpus" } else { what };
                let read =
                    Resources::of(name, &flag.text()?, Memory::Hadoop).map_err(|error| flag.blame(error))?;
                let own = draft.roles.entry(role).or_default();
                own.resources = read.or(own.resources);
            }
            (_, "app-name") => draft.name = Some(flag.text()?),
            (_, "launch-cmd") => {
                let (program, args) = Program::shell(&flag.text()?);
                (draft.program, draft.args) = (Some(program), Some(args));
            }
            (_, "tf-evaluator") => draft.evaluator = Some(flag.flag()?),
            (_, "board-enable") => draft.tensorboard = Some(flag.flag()?),
            (_, "board-logdir") => draft.logdir = Some(flag.text()?.into()),
            (_, "app-type") => {}
            _ => ignored.add(flag.written),
        }
    }
    if draft.program.is_none() {
        return Err("it has no --launch-cmd, so nothing to run".to_owned());
    }
    if draft.evaluator == Some(true) {
        let workers = draft.num_workers.unwrap_or(1);
        draft.num_workers = Some(workers.saturating_sub(1));
    }
    if draft.evaluator != Some(true) && draft.roles.remove(&Role::Evaluator).is_some() {
        ignored.add("--evaluatorworker-memory");
    }
    draft.notes.extend(ignored.note());
    Ok(draft)
}

#[cfg(test)]
mod tests {
    use crate::job::foreign::{Tool, check_flags};

    #[test]
    fn a_submission_becomes_a_job() {
        check_flags(
            Tool::XLearning,
            &[
                "xl-submit",
                "--app-type",
                "tensorflow",
                "--app-name",
                "tf-demo",
                "--files",
                "demo.py",
                "--launch-cmd",
                "python demo.py --data=./data",
                "--input",
                "/tmp/data#data",
                "--worker-memory",
                "10G",
                "--worker-num",
                "3",
                "--worker-cores",
                "3",
                "--ps-memory",
                "1024",
                "--ps-num",
                "1",
                "--tf-evaluator",
                "true",
                "--board-enable",
                "true",
                "--board-logdir",
                "events",
            ],
            r#"tf-demo: workers 2, ps 1, chief false, evaluator true, tensorboard true, logdir Some("events"), env {}
worker: Command("sh") ["-c", "python demo.py --data=./data"] Resources { memory_bytes: Some(10737418240), vcores: Some(3), gpus: None }
ps: Command("sh") ["-c", "python demo.py --data=./data"] Resources { memory_bytes: Some(1073741824), vcores: None, gpus: None }
ignored: --files, --input, which have no meaning on one machine, where tasks run in this directory
"#,
        );
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let check = |line: &[&str], expected: &str| {
            check_flags(
                Tool::XLearning,
                line,
                &format!("the xlearning command line cannot be used: {expected}"),
            );
        };
        check(&["xl-submit", "--worker-num", "2"], "it has no --launch-cmd, so nothing to run");
        check(
            &["--launch-cmd", "x", "--tf-evaluator", "maybe"],
            "--tf-evaluator \"maybe\" is neither true nor false",
        );
        check(&["--launch-cmd"], "--launch-cmd says nothing: a value belongs behind it");
        check_flags(
            Tool::XLearning,
            &["--launch-cmd", "x", "--tf-evaluator", "true"],
            "0 workers cannot be started: give --num-workers a number from 1 to 1024",
        );
    }
}
