//! LinkedIn's TonY: its command line and its `tony.xml`.
//!
//! In: either. Out: a draft with a role for each `tony.ROLE.instances`. The promise: as there, nobody is started who is
//! not named, and commands are a shell's.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Ignored;
use super::flags;
use crate::job::resources::Memory;
use crate::job::{Draft, Program, Resources};
use crate::topology::Role;

/// Prefixes of keys that look like a role's and are not.
const NO_ROLES: [&str; 12] = [
    "application",
    "am",
    "task",
    "container",
    "containers",
    "docker",
    "yarn",
    "history",
    "portal",
    "https",
    "http",
    "keytab",
];

/// What is said, in whatever way.
#[derive(Debug, Default)]
struct Said {
    /// `tony.…` → value, and how a refusal calls the place.
    conf: BTreeMap<String, (String, String)>,
    executes: Option<String>,
    params: Option<String>,
    python: Option<String>,
    env: Vec<(String, String)>,
    ignored: Vec<String>,
}

/// Hadoop's XML.
pub(super) fn from_xml(text: &str) -> Result<Draft, String> {
    let mut said = Said::default();
    said.read_xml(text)?;
    said.draft()
}

pub(super) fn from_flags(words: &[String]) -> Result<Draft, String> {
    let mut said = Said::default();
    for flag in flags::read(words) {
        match flag.name.as_str() {
            "executes" => said.executes = Some(flag.text()?),
            "task-params" => said.params = Some(flag.text()?),
            "python-binary-path" => said.python = Some(flag.text()?),
            "shell-env" => said.env.push(flag.pair()?),
            "conf" => {
                let (name, value) = flag.pair()?;
                said.conf.insert(name, (value, flag.written));
            }
            "conf-file" => {
                let file = flag.text()?;
                return Err(format!("-conf_file {file} is not read behind --from: give it as --file {file}"));
            }
            _ => said.ignored.push(flag.written),
        }
    }
    said.draft()
}

impl Said {
    fn read_xml(&mut self, text: &str) -> Result<(), String> {
        let options = roxmltree::ParsingOptions { allow_dtd: false, ..roxmltree::ParsingOptions::default() };
        let document = roxmltree::Document::parse_with_options(text, options)
            .map_err(|error| format!("line {}: {error}", error.pos().row))?;
        let root = document.root_element();
        if !root.has_tag_name("configuration") {
            return Err(format!(
                "its root is {}, and of XML only Hadoop's configuration is read here",
                root.tag_name().name()
            ));
        }
        for property in root.children().filter(|node| node.has_tag_name("property")) {
            let line = document.text_pos_at(property.range().start).row;
            let text_of = |name: &str| {
                let found = property.children().find(|node| node.has_tag_name(name));
                found.and_then(|node| node.text()).map(|text| text.trim().to_owned())
            };
            let name = text_of("name").ok_or_else(|| format!("line {line}: a property has no name"))?;
            self.conf.insert(name, (text_of("value").unwrap_or_default(), format!("line {line}")));
        }
        Ok(())
    }

    fn draft(mut self) -> Result<Draft, String> {
        let mut draft = Draft { num_workers: Some(0), ..Draft::default() };
        let mut ignored = Ignored::new("no meaning on one machine");
        let mut commands: Vec<(Role, String)> = Vec::new();
        for (key, (value, place)) in std::mem::take(&mut self.conf) {
            let blame = |reason: String| format!("{place}: {key}: {reason}");
            let count = || value.parse::<u32>().map_err(|_| blame(format!("{value:?} is no whole number")));
            let parts: Vec<_> = key.split('.').collect();
            match parts.as_slice() {
                ["tony", "application", "name"] => draft.name = Some(value),
                ["tony", "application", "framework"] => {}
                ["tony", "application", "timeout"] => {
                    let length = Duration::from_millis(count()?.into());
                    draft.timeout = Some(length).filter(|length| !length.is_zero());
                }
                ["tony", "am", "retry-count"] => draft.max_restarts = Some(count()?),
                ["tony", "containers", "command"] => self.executes = self.executes.or(Some(value)),
                ["tony", role, what @ ("instances" | "memory" | "vcores" | "gpus" | "command")]
                    if !NO_ROLES.contains(role) =>
                {
                    let role =
                        Role::from_name(role).ok_or_else(|| blame(format!("{role:?} is no role's name")))?;
                    match *what {
                        "instances" => set_count(&mut draft, role, count()?),
                        "command" => commands.push((role, value)),
                        _ => {
                            let read = Resources::of(what, &value, Memory::Hadoop).map_err(blame)?;
                            let own = draft.roles.entry(role).or_default();
                            own.resources = read.or(own.resources);
                        }
                    }
                }
                _ => ignored.add(key.clone()),
            }
        }
        self.ignored.into_iter().for_each(|name| ignored.add(name));
        let starts = |role: &Role| match role {
            Role::Worker => draft.num_workers != Some(0),
            Role::Ps => draft.num_ps.is_some_and(|many| many > 0),
            other => draft.roles.get(other).is_some_and(|own| own.replicas.is_some_and(|many| many > 0)),
        };
        let started: Vec<_> = draft.roles.keys().copied().filter(starts).collect();
        draft.roles.retain(|role, _| started.contains(role));
        if let Some(executes) = &self.executes {
            let python = self.python.as_deref().map(|python| format!("{python} ")).unwrap_or_default();
            let params = self.params.as_deref().map(|params| format!(" {params}")).unwrap_or_default();
            let (program, args) = Program::shell(&format!("{python}{executes}{params}"));
            (draft.program, draft.args) = (Some(program), Some(args));
        } else if commands.is_empty() {
            return Err("it has no -executes and no tony.ROLE.command, so nothing to run".to_owned());
        }
        for (role, command) in commands {
            if started.contains(&role) {
                draft.set_command(role, &command);
            }
        }
        draft.env.extend(self.env);
        draft.notes.extend(ignored.note());
        Ok(draft)
    }
}

fn set_count(draft: &mut Draft, role: Role, count: u32) {
    match role {
        Role::Worker => draft.num_workers = Some(count),
        Role::Ps => draft.num_ps = Some(count),
        _ => {}
    }
    draft.roles.entry(role).or_default().replicas = Some(count);
}

#[cfg(test)]
mod tests {
    use crate::job::foreign::{Tool, check_flags, parse_file};

    const XML: &str = "<?xml version=\"1.0\"?>
<configuration>
  <property><name>tony.application.name</name><value>mnist</value></property>
  <property><name>tony.worker.instances</name><value>2</value></property>
  <property><name>tony.worker.memory</name><value>4g</value></property>
  <property><name>tony.worker.gpus</name><value>1</value></property>
  <property><name>tony.worker.command</name><value>python train.py</value></property>
  <property><name>tony.ps.instances</name><value>1</value></property>
  <property><name>tony.ps.command</name><value>python serve.py</value></property>
  <property><name>tony.application.timeout</name><value>60000</value></property>
  <property><name>tony.yarn.queue</name><value>ml</value></property>
</configuration>";

    fn check_xml(xml: &str, expected: &str) {
        let shown = match parse_file(xml, std::path::Path::new("")) {
            Ok((draft, _)) => super::super::shown(draft),
            Err(refusal) => refusal,
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_file_becomes_a_job() {
        check_xml(
            XML,
            r#"mnist: workers 2, ps 1, chief false, evaluator false, tensorboard false, logdir None, env {}
worker: Command("sh") ["-c", "python train.py"] Resources { memory_bytes: Some(4294967296), vcores: None, gpus: Some(1) }
ps: Command("sh") ["-c", "python serve.py"] Resources { memory_bytes: None, vcores: None, gpus: None }
ignored: tony.yarn.queue, which has no meaning on one machine
"#,
        );
    }

    #[test]
    fn a_command_line_becomes_a_job() {
        check_flags(
            Tool::Tony,
            &[
                "java",
                "-cp",
                "tony.jar",
                "com.linkedin.tony.cli.ClusterSubmitter",
                "-executes",
                "mnist.py",
                "-task_params",
                "--steps 100",
                "-python_binary_path",
                "venv/bin/python",
                "-shell_env",
                "A=1",
                "-conf",
                "tony.chief.instances=1",
                "-conf",
                "tony.worker.instances=1",
                "-conf",
                "tony.db.instances=1",
                "-src_dir",
                "src",
            ],
            r#"mnist: workers 1, ps 0, chief true, evaluator false, tensorboard false, logdir None, env {"A": "1"}
chief: Command("sh") ["-c", "venv/bin/python mnist.py --steps 100"] Resources { memory_bytes: None, vcores: None, gpus: None }
worker: Command("sh") ["-c", "venv/bin/python mnist.py --steps 100"] Resources { memory_bytes: None, vcores: None, gpus: None }
db: Command("sh") ["-c", "venv/bin/python mnist.py --steps 100"] Resources { memory_bytes: None, vcores: None, gpus: None }
ignored: -cp, -src_dir, which have no meaning on one machine
"#,
        );
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        check_xml(&XML.replace(">2<", ">two<"), "line 4: tony.worker.instances: \"two\" is no whole number");
        check_xml(
            &XML.replace("4g", "much"),
            "line 5: tony.worker.memory: \"much\" is no amount of memory: write e.g. 8G or 512M",
        );
        check_xml("<a/>", "its root is a, and of XML only Hadoop's configuration is read here");
        let broken = parse_file("<configuration>\n<a", std::path::Path::new("")).unwrap_err();
        assert!(broken.starts_with("line "), "{broken}");
        check_xml("<configuration/>", "it has no -executes and no tony.ROLE.command, so nothing to run");
        check_flags(
            Tool::Tony,
            &["-executes", "a.py", "-conf_file", "tony.xml"],
            "the tony command line cannot be used: -conf_file tony.xml is not read behind --from: give it as --file tony.xml",
        );
    }
}
