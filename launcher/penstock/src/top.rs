//! `penstock top`: a job's daemons asked again and again, a table of its ranks out.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use penstock_launcher::job::parse_duration;
use penstock_launcher::top::{DaemonKind, Entry, Roster, RosterError, Sample, Top};

/// Where `penstock run` keeps runs.
const RUNS: &str = "penstock-runs";
/// Home, and nothing behind what is written.
const REDRAW: &str = "\x1b[H\x1b[J";

/// Show how a running job is doing, rank by rank: rates, waits for steps, what is slow.
///
/// Without flags it is the job that was started last below penstock-runs. WAITING is how much of the time a rank's
/// trainer waited for its next step, SLOW the stage that the whole goes no faster than: store, decode, network,
/// pack, or the trainer itself. It ends when the job does.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The job of this run directory.
    #[arg(long, alias = "run_dir", value_name = "DIR", conflicts_with_all = ["sidecar", "gateway"])]
    run_dir: Option<PathBuf>,

    /// Sidecars by the addresses of their --admin, instead of a job.
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',')]
    sidecar: Vec<String>,

    /// Gateways by the addresses of their --admin.
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',')]
    gateway: Vec<String>,

    /// How long between two looks.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "2s")]
    every: Duration,

    /// Look once.
    #[arg(long)]
    once: bool,

    /// Print each look as a JSON object in a line.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  penstock top
  penstock top --run-dir penstock-runs/train-20260131-120000 --every 10s
  penstock top --sidecar node1:9100,node2:9100 --gateway node3:9100
  penstock top --once --json";

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut top = Top::new(roster(args)?);
    let is_redrawn = std::io::stdout().is_terminal() && !args.json && !args.once;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the async runtime")?.block_on(async {
        let mut has_answered = false;
        loop {
            let sample = top.look().await;
            let is_silent =
                sample.ranks.is_empty() && sample.gateways.is_empty() && !sample.silent.is_empty();
            if is_silent && !has_answered {
                let silent = sample.silent.join(", ");
                bail!("no answer from {silent}: the job has ended, or that is no address of an --admin");
            }
            // Who has shown the last of a job is done; so is one whose reader went away.
            if is_silent || show(&sample, args.json, is_redrawn).is_err() || args.once {
                return Ok(ExitCode::SUCCESS);
            }
            has_answered = true;
            tokio::time::sleep(args.every).await;
        }
    })
}

fn roster(args: &Args) -> Result<Roster, RosterError> {
    if args.sidecar.is_empty() && args.gateway.is_empty() {
        return match &args.run_dir {
            Some(run) => Roster::of_run(run),
            None => Roster::of_latest(Path::new(RUNS)),
        };
    }
    let entry = |kind, address: &String| {
        let address = address.strip_prefix("http://").unwrap_or(address);
        Entry { kind, name: address.to_owned(), admin: format!("http://{address}") }
    };
    let sidecars = args.sidecar.iter().map(|address| entry(DaemonKind::Sidecar, address));
    let gateways = args.gateway.iter().map(|address| entry(DaemonKind::Gateway, address));
    Ok(Roster { daemons: sidecars.chain(gateways).collect() })
}

fn show(sample: &Sample, json: bool, is_redrawn: bool) -> anyhow::Result<()> {
    let text = if json { serde_json::to_string(sample)? + "\n" } else { sample.to_text() };
    let before = if is_redrawn { REDRAW } else { "" };
    let mut out = std::io::stdout().lock();
    write!(out, "{before}{text}")?;
    Ok(out.flush()?)
}
