//! The job file: YAML in, draft out.
//!
//! In: a tree of YAML. Out: a draft, and the files of variables that it names. The promise: pure; a refusal is one line
//! that names the line of the file.

use std::path::{Path, PathBuf};

use super::fields::Fields;
use super::keys::{KEYS, RESOURCE_KEYS, ROLE_KEYS, names};
use super::node::{Entry, Node, Value};
use super::resources::Memory;
use super::{ArgStyle, Draft, JobError, Program, Resources, RoleDraft, SuccessPolicy, WiringDraft};
use crate::topology::{RestartPolicy, Role};

/// The draft of our own format; relative paths start at `base`.
pub(super) fn draft(node: &Node, base: &Path) -> Result<(Draft, Vec<PathBuf>), String> {
    if let Some(cluster) = node.get("cluster") {
        return Err(of_cluster(cluster));
    }
    let fields = Fields::only(node, &names(KEYS), "a job file")?;
    let here = |path: String| base.join(path);
    let (program, args) = program(&fields, base)?;
    let success_policy = fields.parsed("successPolicy", |text| {
        SuccessPolicy::from_name(text)
            .ok_or_else(|| format!("{text:?} is no success policy: write all-workers or chief"))
    })?;
    let mut draft = Draft {
        name: fields.text("name")?,
        program,
        args,
        python: fields.text("python")?.map(|python| found_from(base, python)),
        num_workers: fields.count("numWorkers")?,
        replicas: fields.count("replicas")?,
        num_ps: fields.count("numPs")?,
        chief: fields.flag("chief")?,
        evaluator: fields.flag("evaluator")?,
        inputs: fields.map("inputs")?.into_iter().map(|(name, uri)| (name, from(base, uri))).collect(),
        tensorboard: fields.flag("tensorboard")?,
        logdir: fields.text("logdir")?.map(here),
        run_dir: fields.text("runDir")?.map(here),
        grace: fields.length("grace")?,
        evaluator_grace: fields.length("evaluatorGrace")?,
        start_timeout: fields.length("startTimeout")?,
        exit_timeout: fields.length("exitTimeout")?,
        timeout: fields.length("timeout")?,
        wiring: wiring(&fields)?,
        success_policy,
        max_restarts: fields.count("maxRestarts")?,
        env: fields.map("env")?,
        ..Draft::default()
    };
    for entry in fields.entries("roles")? {
        let name = Role::from_name(&entry.key).ok_or_else(|| {
            format!(
                "line {}: {:?} is no role's name: use lower-case letters, digits, '-' and '_'",
                entry.line, entry.key
            )
        })?;
        draft.roles.insert(name, role(entry, base)?);
    }
    for entry in fields.entries("restartPolicies")? {
        let policy = entry.node.text().unwrap_or_default();
        draft
            .add_restart_policy(&format!("{}={policy}", entry.key))
            .map_err(|error| format!("line {}: {error}", entry.node.line))?;
    }
    let env_files = one_or_more(&fields, "envFile")?.into_iter().flatten().map(here).collect();
    Ok((draft, env_files))
}

/// How scripts learn who they are.
fn wiring(fields: &Fields<'_>) -> Result<WiringDraft, String> {
    let port = |text: &String| {
        let line = fields.node("ports").map_or(0, |node| node.line);
        text.parse().map_err(|_| format!("line {line}: {text:?} is no port: write numbers from 1 to 65535"))
    };
    let ports = fields.texts("ports")?;
    let arg_style = fields.parsed("argStyle", |style| {
        ArgStyle::from_name(style).ok_or_else(|| JobError::ArgStyle(style.to_owned()))
    })?;
    Ok(WiringDraft {
        arg_style,
        ports: ports.map(|ports| ports.iter().map(port).collect()).transpose()?,
        release_ports: fields.flag("releasePorts")?,
        tf1_compat: fields.flag("tf1Compat")?,
        map_fun: fields.text("mapFun")?,
    })
}

/// What is said of one role.
fn role(entry: &Entry, base: &Path) -> Result<RoleDraft, String> {
    let fields = Fields::only(&entry.node, &names(ROLE_KEYS), &format!("the role {}", entry.key))?;
    let (program, args) = program(&fields, base)?;
    let restart_policy = fields.parsed("restartPolicy", |text| {
        RestartPolicy::from_name(text).ok_or_else(|| JobError::Policy(text.to_owned()).to_string())
    })?;
    Ok(RoleDraft {
        replicas: fields.count("replicas")?,
        program,
        args,
        env: fields.map("env")?,
        restart_policy,
        resources: resources(&fields, &entry.key)?,
    })
}

fn resources(fields: &Fields<'_>, role: &str) -> Result<Resources, String> {
    let mut resources = Resources::default();
    let Some(node) = fields.node("resources") else { return Ok(resources) };
    let known = names(RESOURCE_KEYS);
    let said = Fields::only(node, &known, &format!("resources of {role}"))?;
    for name in known {
        if let Some(one) = said.parsed(name, |amount| Resources::of(name, amount, Memory::Own))? {
            resources = one.or(resources);
        }
    }
    Ok(resources)
}

/// The one of script, module and command that is there, and arguments, which may be of a script that is named elsewhere.
fn program(fields: &Fields<'_>, base: &Path) -> Result<(Option<Program>, Option<Vec<String>>), String> {
    let said = ["script", "module", "command"].map(|name| fields.node(name));
    let mut there = said.iter().flatten();
    if let (Some(_), Some(second)) = (there.next(), there.next()) {
        return Err(format!(
            "line {}: script, module and command exclude each other: leave one",
            second.line
        ));
    }
    let args = fields.texts("args")?;
    if let Some(script) = fields.text("script")? {
        return Ok((Some(Program::Script(base.join(script))), args));
    }
    if let Some(module) = fields.text("module")? {
        return Ok((Some(Program::Module(module)), args));
    }
    let Some(command) = fields.node("command") else { return Ok((None, args)) };
    match (&command.value, args) {
        (Value::Text { text, .. }, None) => {
            let (program, args) = Program::shell(text);
            Ok((Some(program), Some(args)))
        }
        (Value::Text { .. }, Some(_)) => Err(format!(
            "line {}: args stand beside a command that is one text: put them into it, or write the command as a list",
            command.line
        )),
        (_, args) => {
            let mut words = fields.texts("command")?.unwrap_or_default();
            let Some(program) = words.first_mut() else {
                return Err(format!("line {}: the command is an empty list: name a program", command.line));
            };
            *program = found_from(base, std::mem::take(program)).to_string_lossy().into_owned();
            words.extend(args.unwrap_or_default());
            Ok(Program::words(words).unzip())
        }
    }
}

/// A bare name is looked up in PATH, wherever the file lies.
fn found_from(base: &Path, program: String) -> PathBuf {
    if program.contains('/') { base.join(program) } else { program.into() }
}

fn one_or_more(fields: &Fields<'_>, name: &str) -> Result<Option<Vec<String>>, String> {
    match fields.node(name).and_then(Node::text) {
        Some(text) => Ok(Some(vec![text.to_owned()])),
        None => fields.texts(name),
    }
}

/// A URI with a scheme stands for itself, a path starts at `base`.
fn from(base: &Path, uri: String) -> String {
    if uri.contains("://") { uri } else { base.join(uri).to_string_lossy().into_owned() }
}

/// The file is TensorFlow's cluster spec, or holds one.
fn of_cluster(cluster: &Node) -> String {
    let line = cluster.line;
    match cluster.get("evaluator") {
        Some(_) => format!(
            "line {line}: the evaluator is in the cluster, where the others would wait for it for ever: the cluster is made here, write evaluator: true"
        ),
        None => format!(
            "line {line}: the cluster is made here, on ports that are held: write numWorkers, numPs and chief in its place"
        ),
    }
}
