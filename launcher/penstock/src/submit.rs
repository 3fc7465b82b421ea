//! `penstock submit`: a run that goes on when its terminal does not.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use penstock_launcher::runs;

use crate::run;

/// What the launcher itself writes, beside the journal: an error before there is one.
const OUTPUT: &str = "launcher.log";
/// Between two looks at whether it has begun.
const EVERY: Duration = Duration::from_millis(20);

/// Run a job as `penstock run` does, in the background.
///
/// It returns once the job has begun, and prints its run directory. `penstock logs -f`, `penstock status` and
/// `penstock kill` go on from there. All flags are those of `penstock run`.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    run: run::Args,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.run.is_dry() {
        bail!("--dry-run runs nothing, so there is nothing to submit: penstock run --dry-run shows it");
    }
    let job = run::resolve(args.run)?;
    let directory = runs::prepare(&job)?;
    let mut launcher = Command::new(std::env::current_exe().context("cannot find this program's own file")?);
    launcher.arg("run").arg("--detached").arg(format!("--run-dir={}", directory.display()));
    // What was said to this command, but for its name; another --run-dir among it is the same one.
    launcher.args(std::env::args_os().skip(2));
    let output = std::fs::File::create(directory.join(OUTPUT)).context("cannot write the launcher's log")?;
    let errors = output.try_clone().context("cannot write the launcher's log")?;
    let child = launcher.stdin(Stdio::null()).stdout(output).stderr(errors).spawn();
    let mut child = child.context("cannot start the launcher")?;
    loop {
        if runs::has_begun(&directory) {
            return tell(&directory);
        }
        if let Some(status) = child.try_wait().context("cannot wait for the launcher")? {
            let said = std::fs::read_to_string(directory.join(OUTPUT)).unwrap_or_default();
            let last =
                said.lines().last().unwrap_or("it said nothing").trim_start_matches("error: ").to_owned();
            bail!("the launcher ended with {status}: {last}");
        }
        std::thread::sleep(EVERY);
    }
}

fn tell(directory: &Path) -> anyhow::Result<ExitCode> {
    let shown: PathBuf = match std::env::current_dir() {
        Ok(here) => directory.strip_prefix(here).unwrap_or(directory).to_owned(),
        Err(_) => directory.to_owned(),
    };
    let name = shown.display();
    writeln!(
        std::io::stdout().lock(),
        "{name}\nfollow it: penstock logs -f {name}\nend it: penstock kill {name}"
    )?;
    Ok(ExitCode::SUCCESS)
}
