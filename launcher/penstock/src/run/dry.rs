//! `penstock run --dry-run`: what would run, and whether it could.

use std::io::Write as _;
use std::process::ExitCode;

use penstock_launcher::backend::local::{Plan, check};
use penstock_launcher::job::Job;

/// How a plan is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    Text,
    Json,
}

/// Shows all of it, also where a program is not there, which is an error then.
pub(super) fn show(job: &Job, format: Format) -> anyhow::Result<ExitCode> {
    let plan = Plan::new(job, &std::env::vars().collect());
    let text = match format {
        Format::Text => plan.to_text(),
        Format::Json => serde_json::to_string_pretty(&plan)? + "\n",
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    check(job)?;
    Ok(ExitCode::SUCCESS)
}
