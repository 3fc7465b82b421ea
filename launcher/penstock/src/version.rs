//! `penstock version`: what this binary is, for people and, with `--json`, for programs.

use std::io::Write as _;
use std::process::ExitCode;

use serde_json::json;

/// The workspace's version.
pub(crate) const NUMBER: &str = env!("CARGO_PKG_VERSION");

/// Print the version of this binary.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print it as a JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let platform = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
    let text = if args.json {
        json!({"name": "penstock", "version": NUMBER, "platform": platform}).to_string()
    } else {
        format!("penstock {NUMBER} ({platform})")
    };
    writeln!(std::io::stdout(), "{text}")?;
    Ok(ExitCode::SUCCESS)
}
