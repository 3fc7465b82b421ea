//! Apache Submarine's `job run`.
//!
//! In: its command line. Out: a draft, `%input_path%` and the like in its commands replaced. The promise: one worker
//! unless more were asked for, as there.

use super::Ignored;
use super::flags::{self, Flag};
use crate::job::resources::Memory;
use crate::job::{Draft, Program, Resources};
use crate::topology::Role;

pub(super) fn from_flags(words: &[String]) -> Result<Draft, String> {
    let mut draft = Draft::default();
    let mut commands = Vec::new();
    let mut paths = Vec::new();
    let mut ignored = Ignored::new("no meaning on one machine");
    for flag in flags::read(words) {
        match flag.name.as_str() {
            "name" => draft.name = Some(flag.text()?),
            "num-workers" => draft.num_workers = Some(flag.count()?),
            "num-ps" => draft.num_ps = Some(flag.count()?),
            "worker-launch-cmd" => commands.push((Role::Worker, flag.text()?)),
            "ps-launch-cmd" => commands.push((Role::Ps, flag.text()?)),
            "worker-resources" => set_resources(&mut draft, Role::Worker, &flag)?,
            "ps-resources" => set_resources(&mut draft, Role::Ps, &flag)?,
            "tensorboard-resources" => set_resources(&mut draft, Role::TensorBoard, &flag)?,
            "env" => {
                let (name, value) = flag.pair()?;
                draft.env.insert(name, value);
            }
            "tensorboard" => draft.tensorboard = Some(flag.flag()?),
            "input-path" | "checkpoint-path" | "saved-model-path" => {
                let value = flag.value.unwrap_or_default();
                if flag.name == "checkpoint-path" && !value.is_empty() && !value.contains("://") {
                    // Where its TensorBoard looks.
                    draft.logdir = Some(value.clone().into());
                }
                paths.push((format!("%{}%", flag.name.replace('-', "_")), value));
            }
            // A job is waited for, and told of, in any case.
            "wait-job-finish" | "verbose" | "framework" => {}
            _ => ignored.add(flag.written),
        }
    }
    if commands.is_empty() {
        return Err("it has no --worker_launch_cmd, so nothing to run".to_owned());
    }
    for (role, command) in commands {
        let command = paths.iter().fold(command, |command, (name, path)| command.replace(name, path));
        if let Some(name) = ["%input_path%", "%checkpoint_path%", "%saved_model_path%"]
            .iter()
            .find(|name| command.contains(*name))
        {
            let flag = name.trim_matches('%');
            return Err(format!("a command says {name}, and no --{flag} was given"));
        }
        let (program, args) = Program::shell(&command);
        let own = draft.roles.entry(role).or_default();
        (own.program, own.args) = (Some(program), Some(args));
    }
    draft.notes.extend(ignored.note());
    Ok(draft)
}

fn set_resources(draft: &mut Draft, role: Role, flag: &Flag) -> Result<(), String> {
    let read = Resources::parse_in(&flag.text()?, Memory::Hadoop).map_err(|error| flag.blame(error))?;
    draft.roles.entry(role).or_default().resources = read;
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::job::foreign::{Tool, check_flags};

    fn check(line: &[&str], expected: &str) {
        check_flags(Tool::Submarine, line, expected);
    }

    #[test]
    fn a_job_run_becomes_a_job() {
        check(
            &[
                "yarn",
                "jar",
                "submarine.jar",
                "job",
                "run",
                "--name",
                "tf-1",
                "--num_workers",
                "2",
                "--num_ps=1",
                "--input_path",
                "/data",
                "--checkpoint_path",
                "/ckpt",
                "--worker_resources",
                "memory=4G,vcores=2,gpu=1",
                "--worker_launch_cmd",
                "python t.py --d=%input_path% --j=%checkpoint_path%",
                "--ps_launch_cmd",
                "python t.py --ps",
                "--env",
                "A=b=c",
                "--tensorboard",
                "--docker_image",
                "tf:1",
                "-verbose",
                "--queue",
                "q",
            ],
            r#"tf-1: workers 2, ps 1, chief false, evaluator false, tensorboard true, logdir Some("/ckpt"), env {"A": "b=c"}
worker: Command("sh") ["-c", "python t.py --d=/data --j=/ckpt"] Resources { memory_bytes: Some(4294967296), vcores: Some(2), gpus: Some(1) }
ps: Command("sh") ["-c", "python t.py --ps"] Resources { memory_bytes: None, vcores: None, gpus: None }
ignored: --docker_image, --queue, which have no meaning on one machine
"#,
        );
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let refuse = |line: &[&str], expected: &str| {
            check(line, &format!("the submarine command line cannot be used: {expected}"));
        };
        refuse(&["job", "run", "--name", "x"], "it has no --worker_launch_cmd, so nothing to run");
        refuse(&["job", "run", "--num_workers", "many"], "--num_workers \"many\" is no whole number");
        refuse(
            &["job", "run", "--worker_launch_cmd", "a %input_path%"],
            "a command says %input_path%, and no --input_path was given",
        );
        refuse(
            &["job", "run", "--ps_resources", "memory=x"],
            "--ps_resources: \"x\" is no amount of memory: write e.g. 8G or 512M",
        );
    }
}
