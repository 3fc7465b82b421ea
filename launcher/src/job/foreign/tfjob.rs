//! Kubeflow's TFJob.
//!
//! In: the documents of a manifest. Out: a draft in which every replica type runs its own container's command. The
//! promise: version v1 alone; what belongs to pods (images, volumes, nodes) is named in a note.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::Ignored;
use crate::job::fields::Fields;
use crate::job::nearest::did_you_mean;
use crate::job::node::{Entry, Node, Value};
use crate::job::resources::Memory;
use crate::job::{Draft, Program, Resources, RoleDraft, SuccessPolicy};
use crate::topology::{RestartPolicy, Role};

const VERSION: &str = "kubeflow.org/v1";
/// The container that trains; others of the pod stand beside it.
const CONTAINER: &str = "tensorflow";
const RUN_POLICY: [&str; 6] = [
    "cleanPodPolicy",
    "backoffLimit",
    "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
    "suspend",
    "schedulingPolicy",
];

/// The one TFJob among them.
pub(super) fn from_documents(documents: &[Rc<Node>]) -> Result<Draft, String> {
    let kind =
        |node: &&Rc<Node>| node.get("kind").and_then(|kind| kind.text()).unwrap_or_default().to_owned();
    let mut jobs = documents.iter().filter(|node| kind(node) == "TFJob");
    let Some(job) = jobs.next() else {
        let found: Vec<_> = documents.iter().map(|node| kind(&node)).collect();
        return Err(format!(
            "it holds {}, and of Kubernetes' kinds only TFJob is read here",
            found.join(", ")
        ));
    };
    if let Some(second) = jobs.next() {
        return Err(format!("line {}: a second TFJob begins here, and one file is one job", second.line));
    }
    let mut ignored = Ignored::new("no meaning without pods");
    for other in documents.iter().filter(|node| kind(node) != "TFJob") {
        ignored.add(kind(&other));
    }
    let mut draft = of_job(job, &mut ignored)?;
    draft.notes.extend(ignored.note());
    Ok(draft)
}

fn of_job(job: &Node, ignored: &mut Ignored) -> Result<Draft, String> {
    let top = Fields::sorted(job, &["apiVersion", "kind", "metadata", "spec", "status"])?;
    let version = top.text("apiVersion")?.unwrap_or_default();
    if version != VERSION {
        let line = top.node("apiVersion").map_or(job.line, |node| node.line);
        return Err(format!(
            "line {line}: a TFJob of apiVersion {version:?} is not read here: write it as {VERSION}"
        ));
    }
    let name = match top.node("metadata") {
        Some(metadata) => Fields::sorted(metadata, &["name"])?.text("name")?,
        None => None,
    };
    let spec = top.node("spec").ok_or_else(|| format!("line {}: the TFJob has no spec", job.line))?;
    let mut known = vec!["tfReplicaSpecs", "runPolicy", "successPolicy", "enableDynamicWorker"];
    known.extend(RUN_POLICY);
    let fields = Fields::sorted(spec, &known)?;
    refuse_slips(&fields, &known)?;
    note_strange(&fields, "spec", ignored);
    let mut draft = Draft {
        name,
        success_policy: Some(success(&fields)?),
        // Whoever is not named is not started.
        num_workers: Some(0),
        ..Draft::default()
    };
    // Where they stood before there was a runPolicy.
    run_policy(&fields, &mut draft, ignored)?;
    if let Some(policy) = fields.node("runPolicy") {
        let policy = Fields::sorted(policy, &RUN_POLICY)?;
        note_strange(&policy, "runPolicy", ignored);
        run_policy(&policy, &mut draft, ignored)?;
    }
    if fields.flag("enableDynamicWorker")? == Some(true) {
        ignored.add("enableDynamicWorker");
    }
    let replicas = fields.entries("tfReplicaSpecs")?;
    if replicas.is_empty() {
        return Err(format!("line {}: the TFJob has no tfReplicaSpecs, so nothing to run", spec.line));
    }
    for entry in replicas {
        replica(entry, &mut draft, ignored)?;
    }
    Ok(draft)
}

/// A replica type and how many there are.
fn replica(entry: &Entry, draft: &mut Draft, ignored: &mut Ignored) -> Result<(), String> {
    const TYPES: [&str; 5] = ["PS", "Worker", "Chief", "Master", "Evaluator"];
    let role = match TYPES.iter().find(|name| name.eq_ignore_ascii_case(&entry.key)) {
        Some(name) => Role::from_name(name).expect("TFJob's types are roles"),
        None => {
            let meant = did_you_mean(&entry.key, TYPES);
            return Err(format!(
                "line {}: {:?} is no replica type of a TFJob{meant}: there are PS, Worker, Chief, Master and Evaluator",
                entry.line, entry.key
            ));
        }
    };
    if draft.roles.contains_key(&role) {
        return Err(format!(
            "line {}: {} is there twice, Master and Chief being one",
            entry.line,
            role.name()
        ));
    }
    let known = ["replicas", "restartPolicy", "template"];
    let fields = Fields::sorted(&entry.node, &known)?;
    refuse_slips(&fields, &known)?;
    let count = fields.count("replicas")?.unwrap_or(1);
    match role {
        Role::Worker => draft.num_workers = Some(count),
        Role::Ps => draft.num_ps = Some(count),
        _ => {}
    }
    let policy = fields.parsed("restartPolicy", |text| {
        RestartPolicy::from_name(text).ok_or_else(|| {
            format!("{text:?} is no restart policy: there are Always, OnFailure, Never and ExitCode")
        })
    })?;
    let whose = entry.key.as_str();
    let template = fields.node("template").and_then(|template| template.get("spec"));
    let template = template
        .ok_or_else(|| format!("line {}: {whose} has no template.spec, so nothing to run", entry.line))?;
    let mut own = of_pod(template, whose, ignored)?;
    own.replicas = Some(count);
    // TFJob's own default is Never.
    own.restart_policy = Some(policy.unwrap_or(RestartPolicy::Never));
    draft.roles.insert(role, own);
    Ok(())
}

/// What the container called tensorflow runs.
fn of_pod(pod: &Node, whose: &str, ignored: &mut Ignored) -> Result<RoleDraft, String> {
    let fields = Fields::sorted(pod, &["containers", "restartPolicy"])?;
    note_strange(&fields, "template.spec", ignored);
    let containers = match fields.node("containers").map(|node| &node.value) {
        Some(Value::List(items)) => items.as_slice(),
        _ => return Err(format!("line {}: {whose} has no list of containers", pod.line)),
    };
    let named = |node: &&Rc<Node>| node.get("name").and_then(|name| name.text()) == Some(CONTAINER);
    let container = containers.iter().find(named).ok_or_else(|| {
        format!(
            "line {}: no container of {whose} is called {CONTAINER}, which is the one that trains",
            pod.line
        )
    })?;
    for other in containers.iter().filter(|node| !named(node)) {
        let name = other.get("name").and_then(|name| name.text()).unwrap_or("unnamed");
        ignored.add(format!("the container {name}"));
    }
    // Ports are the launcher's to give.
    let known = ["name", "command", "args", "env", "resources", "ports"];
    let fields = Fields::sorted(container, &known)?;
    note_strange(&fields, "containers", ignored);
    let env = variables(&fields, whose, ignored)?;
    let words = |name| -> Result<Option<Vec<String>>, String> {
        Ok(fields.texts(name)?.map(|words| words.iter().map(|word| expanded(word, &env)).collect()))
    };
    let (command, args) = (words("command")?, words("args")?);
    let (program, args) = match command.filter(|command| !command.is_empty()) {
        // The image's own program is not here: the job's script has these arguments.
        None => (None, args),
        Some(mut command) => {
            command.extend(args.unwrap_or_default());
            Program::foreign_words(command).unzip()
        }
    };
    if program.is_none() {
        ignored.add(format!("the program of {whose}'s image"));
    }
    Ok(RoleDraft { program, args, env, resources: resources(&fields, ignored)?, ..RoleDraft::default() })
}

fn variables(
    fields: &Fields<'_>,
    whose: &str,
    ignored: &mut Ignored,
) -> Result<BTreeMap<String, String>, String> {
    let mut env = BTreeMap::new();
    let Some(node) = fields.node("env") else { return Ok(env) };
    let Value::List(items) = &node.value else {
        return Err(format!("line {}: env of {whose} is {}, where a list belongs", node.line, node.shown()));
    };
    for item in items {
        let item_fields = Fields::sorted(item, &["name", "value", "valueFrom"])?;
        let name = item_fields.text("name")?;
        let name = name.ok_or_else(|| format!("line {}: a variable of {whose} has no name", item.line))?;
        if item_fields.node("valueFrom").is_some() {
            ignored.add(format!("the variable {name} of {whose} (valueFrom)"));
            continue;
        }
        let value = expanded(&item_fields.text("value")?.unwrap_or_default(), &env);
        env.insert(name, value);
    }
    Ok(env)
}

/// `$(NAME)` is the variable's value, where it is known; `$$` is a dollar.
fn expanded(text: &str, env: &BTreeMap<String, String>) -> String {
    let mut done = String::new();
    let mut rest = text;
    while let Some(place) = rest.find('$') {
        done.push_str(&rest[..place]);
        rest = &rest[place..];
        let name = rest.strip_prefix("$(").and_then(|inner| inner.split_once(')'));
        if let Some(after) = rest.strip_prefix("$$") {
            done.push('$');
            rest = after;
        } else if let Some((value, after)) = name.and_then(|(name, after)| Some((env.get(name)?, after))) {
            done.push_str(value);
            rest = after;
        } else {
            done.push('$');
            rest = &rest[1..];
        }
    }
    done + rest
}

/// Limits, and where there are none, requests.
fn resources(fields: &Fields<'_>, ignored: &mut Ignored) -> Result<Resources, String> {
    let Some(node) = fields.node("resources") else { return Ok(Resources::default()) };
    let both = Fields::sorted(node, &["limits", "requests"])?;
    let mut of = |which| -> Result<Resources, String> {
        let mut resources = Resources::default();
        for entry in both.entries(which)? {
            let amount = entry.node.text().unwrap_or_default();
            if !["memory", "cpu", "nvidia.com/gpu"].contains(&entry.key.as_str()) {
                ignored.add(format!("the resource {}", entry.key));
                continue;
            }
            let one = Resources::of(&entry.key, amount, Memory::Kubernetes)
                .map_err(|error| format!("line {}: {error}", entry.node.line))?;
            resources = one.or(resources);
        }
        Ok(resources)
    };
    Ok(of("limits")?.or(of("requests")?))
}

/// Nothing said: the chief's success is the job's, or worker 0's.
fn success(fields: &Fields<'_>) -> Result<SuccessPolicy, String> {
    let said = fields.parsed("successPolicy", |text| match text {
        "" | "Default" => Ok(SuccessPolicy::Chief),
        "AllWorkers" => Ok(SuccessPolicy::AllWorkers),
        other => Err(format!("{other:?} is no success policy of a TFJob: there are \"\" and AllWorkers")),
    })?;
    Ok(said.unwrap_or(SuccessPolicy::Chief))
}

fn run_policy(fields: &Fields<'_>, draft: &mut Draft, ignored: &mut Ignored) -> Result<(), String> {
    draft.max_restarts = fields.count("backoffLimit")?.or(draft.max_restarts);
    let deadline = fields.count("activeDeadlineSeconds")?;
    draft.timeout = deadline.map(|seconds| std::time::Duration::from_secs(seconds.into())).or(draft.timeout);
    // Nothing runs on when a job has ended, whatever the policy.
    fields.text("cleanPodPolicy")?;
    for name in ["ttlSecondsAfterFinished", "schedulingPolicy"] {
        if fields.node(name).is_some() {
            ignored.add(name);
        }
    }
    if fields.flag("suspend")? == Some(true) {
        ignored.add("suspend");
    }
    Ok(())
}

/// A key that is nearly one of ours was meant to be it.
fn refuse_slips(fields: &Fields<'_>, known: &[&'static str]) -> Result<(), String> {
    for Entry { key, line, .. } in &fields.strange {
        if let Some(meant) = crate::job::nearest::slip_of(key, known.iter().copied()) {
            return Err(format!("line {line}: a TFJob has no key {key:?} here, did you mean {meant}?"));
        }
    }
    Ok(())
}

fn note_strange(fields: &Fields<'_>, whose: &str, ignored: &mut Ignored) {
    for entry in &fields.strange {
        ignored.add(format!("{whose}.{}", entry.key));
    }
}

#[cfg(test)]
mod tests;
