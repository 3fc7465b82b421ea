//! `penstock agent`, hidden: started by `penstock run` beside every process, never by a person.
//!
//! Nothing may be written here to standard output or error: they belong to the process.

use std::process::ExitCode;
use std::time::Duration;

use penstock_launcher::agent;
use penstock_launcher::job::parse_duration;

/// Run a process of a job and end all that it leaves behind.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// From SIGTERM to SIGKILL once the launcher is gone.
    #[arg(long, value_parser = parse_duration)]
    grace: Duration,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (program, arguments) = args.command.split_first().expect("clap requires a program");
    agent::run(program, arguments, args.grace)?;
    Ok(ExitCode::SUCCESS)
}
