//! The job file: YAML in, draft out.
//!
//! Keys are taken in `camelCase` and in `snake_case`; a key that is not known is refused by name, since
//! a misspelt option that does nothing costs a night of training.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Draft, Program, WiringDraft, parse_duration};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Raw {
    name: Option<String>,
    script: Option<PathBuf>,
    args: Option<Vec<String>>,
    python: Option<PathBuf>,
    #[serde(alias = "num_workers")]
    num_workers: Option<u32>,
    replicas: Option<u32>,
    #[serde(alias = "num_ps")]
    num_ps: Option<u32>,
    chief: Option<bool>,
    evaluator: Option<bool>,
    #[serde(default)]
    inputs: BTreeMap<String, String>,
    tensorboard: Option<bool>,
    logdir: Option<PathBuf>,
    #[serde(alias = "run_dir")]
    run_dir: Option<PathBuf>,
    grace: Option<String>,
    #[serde(alias = "evaluator_grace")]
    evaluator_grace: Option<String>,
    #[serde(alias = "max_restarts")]
    max_restarts: Option<u32>,
    #[serde(alias = "start_timeout")]
    start_timeout: Option<String>,
    #[serde(alias = "exit_timeout")]
    exit_timeout: Option<String>,
    timeout: Option<String>,
    #[serde(alias = "arg_style")]
    arg_style: Option<String>,
    ports: Option<Vec<u16>>,
    #[serde(alias = "release_ports")]
    release_ports: Option<bool>,
    #[serde(alias = "tf1_compat")]
    tf1_compat: Option<bool>,
    #[serde(alias = "map_fun")]
    map_fun: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default, alias = "restart_policies")]
    restart_policies: BTreeMap<String, String>,
}

/// The draft that `text` holds; relative paths start at `base`. The error is one line.
pub(super) fn parse(text: &str, base: &Path) -> Result<Draft, String> {
    let raw: Raw = serde_saphyr::from_str(text).map_err(|error| one_line(&error))?;
    let length = |text: Option<String>| {
        text.map(|text| parse_duration(&text).map_err(|bad| bad.to_string())).transpose()
    };
    let here = |path: PathBuf| base.join(path);
    let mut draft = Draft {
        name: raw.name,
        program: raw.script.map(here).map(Program::Script),
        args: raw.args,
        // A bare name is looked up in PATH, wherever the file lies.
        python: raw.python.map(|python| if is_bare(&python) { python } else { base.join(python) }),
        num_workers: raw.num_workers,
        replicas: raw.replicas,
        num_ps: raw.num_ps,
        chief: raw.chief,
        evaluator: raw.evaluator,
        inputs: raw.inputs.into_iter().map(|(name, uri)| (name, from(base, uri))).collect(),
        tensorboard: raw.tensorboard,
        logdir: raw.logdir.map(here),
        run_dir: raw.run_dir.map(here),
        grace: length(raw.grace)?,
        evaluator_grace: length(raw.evaluator_grace)?,
        max_restarts: raw.max_restarts,
        start_timeout: length(raw.start_timeout)?,
        exit_timeout: length(raw.exit_timeout)?,
        timeout: length(raw.timeout)?,
        wiring: WiringDraft {
            arg_style: None,
            ports: raw.ports,
            release_ports: raw.release_ports,
            tf1_compat: raw.tf1_compat,
            map_fun: raw.map_fun,
        },
        env: raw.env,
        roles: BTreeMap::new(),
    };
    if let Some(style) = &raw.arg_style {
        draft.wiring.set_arg_style(style).map_err(|error| error.to_string())?;
    }
    for (role, policy) in raw.restart_policies {
        draft.add_restart_policy(&format!("{role}={policy}")).map_err(|error| error.to_string())?;
    }
    Ok(draft)
}

fn is_bare(python: &Path) -> bool {
    python.components().count() == 1
}

/// A URI with a scheme stands for itself, a path starts at `base`.
fn from(base: &Path, uri: String) -> String {
    if uri.contains("://") { uri } else { base.join(uri).to_string_lossy().into_owned() }
}

fn one_line(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
