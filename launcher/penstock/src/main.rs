//! The one binary: subcommands and their flags, and nothing else.
//!
//! In: a command line. Out: an exit code; an error is one line on standard error that says what to do.
//! Each subcommand is a file: raw arguments, resolved into its library's configuration, and the call.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests state their expectations by unwrapping"))]

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

mod agent;
mod cloud;
mod daemon;
mod gateway;
mod hadoop;
mod init;
mod inspect;
mod run;
mod runs;
mod sidecar;
mod size;
mod spelling;
mod submit;
mod tls;
mod top;
mod version;

/// Streams end and their memory is to be the machine's again, which glibc's allocator is slow to give back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Feeds training jobs: exact batches from Parquet to every worker, and the whole topology from one
/// command.
#[derive(Parser)]
#[command(name = "penstock", version = version::NUMBER, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  penstock run --num-workers 2 --input digits=data/train train.py --epochs 3
  penstock run --file job.yaml
  penstock submit --file job.yaml; penstock logs -f
  penstock gateway --listen 127.0.0.1:8815 --dataset digits=data/train
  penstock inspect data/train
  penstock top

`penstock COMMAND --help` says more about each.";

#[derive(Subcommand)]
enum Command {
    Run(Box<run::Args>),
    Init(init::Args),
    Submit(Box<submit::Args>),
    Ps(runs::Ps),
    Status(runs::Status),
    Logs(runs::Logs),
    Kill(runs::Kill),
    Spec(runs::Spec),
    Gateway(Box<gateway::Args>),
    Sidecar(sidecar::Args),
    Inspect(inspect::Args),
    Top(top::Args),
    Version(version::Args),
    #[command(hide = true)]
    Agent(agent::Args),
}

fn main() -> ExitCode {
    let words = spelling::ours(&Cli::command(), std::env::args_os());
    let outcome = match Cli::parse_from(words).command {
        Command::Run(args) => run::run(*args),
        Command::Init(args) => init::run(&args),
        Command::Submit(args) => submit::run(*args),
        Command::Ps(args) => runs::ps(&args),
        Command::Status(args) => runs::status(&args),
        Command::Logs(args) => runs::logs(&args),
        Command::Kill(args) => runs::kill(&args),
        Command::Spec(args) => runs::spec(&args),
        Command::Gateway(args) => gateway::run(*args),
        Command::Sidecar(args) => sidecar::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Top(args) => top::run(&args),
        Command::Version(args) => version::run(&args),
        Command::Agent(args) => agent::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        report(&error);
        ExitCode::FAILURE
    })
}

/// One line: the error and, behind colons, what caused it.
#[expect(clippy::print_stderr, reason = "where a command line's errors belong")]
fn report(error: &anyhow::Error) {
    eprintln!("error: {}", one_line(&format!("{error:#}")));
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
