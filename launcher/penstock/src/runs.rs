//! `penstock ps|status|logs|kill|spec`: runs of this machine, seen from outside.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use penstock_launcher::runs::{self, Filter, Follow, Run, Standing};

/// Between two looks at what goes on.
const EVERY: Duration = Duration::from_millis(200);

/// Which run is meant.
#[derive(clap::Args)]
pub(crate) struct Which {
    /// A run directory, its name below --dir, or a job's name, the latest of that name
    /// [default: the latest that runs, or else the latest].
    run: Option<String>,

    /// Where runs are kept.
    #[arg(long, value_name = "DIR", default_value = runs::DIRECTORY)]
    dir: PathBuf,
}

/// List the runs below a directory, the latest first.
#[derive(clap::Args)]
pub(crate) struct Ps {
    /// Where runs are kept.
    #[arg(long, value_name = "DIR", default_value = runs::DIRECTORY)]
    dir: PathBuf,

    /// Those that go on only.
    #[arg(long)]
    running: bool,
}

/// Show how the tasks of a run stand.
#[derive(clap::Args)]
pub(crate) struct Status {
    #[command(flatten)]
    which: Which,
}

/// Show what the processes of a run wrote, by time.
#[derive(clap::Args)]
#[command(after_help = LOG_EXAMPLES)]
pub(crate) struct Logs {
    #[command(flatten)]
    which: Which,

    /// Go on until the run ends.
    #[arg(long, short)]
    follow: bool,

    /// Lines of this role or task only: worker, worker:1, gateway, "sidecar of worker:1", penstock. May be given again.
    #[arg(long, value_name = "NAME")]
    role: Vec<String>,

    /// The last lines only.
    #[arg(long, value_name = "N")]
    tail: Option<usize>,

    /// With the moment, in UTC, before each line.
    #[arg(long, short)]
    timestamps: bool,
}

const LOG_EXAMPLES: &str = "\
Examples:
  penstock logs -f
  penstock logs digits --role worker:1 --role ps --tail 50";

/// End a run, as Ctrl-C in its terminal would, and wait until it has ended.
#[derive(clap::Args)]
pub(crate) struct Kill {
    #[command(flatten)]
    which: Which,

    /// Do not wait for tasks to end by themselves.
    #[arg(long)]
    now: bool,
}

/// Print the cluster spec of a run that goes on, as JSON.
#[derive(clap::Args)]
pub(crate) struct Spec {
    #[command(flatten)]
    which: Which,
}

impl Which {
    fn find(&self) -> anyhow::Result<Run> {
        Ok(runs::find(&self.dir, self.run.as_deref())?)
    }
}

pub(crate) fn ps(args: &Ps) -> anyhow::Result<ExitCode> {
    let mut all = runs::all(&args.dir);
    all.retain(|run| !args.running || run.standing == Standing::Running);
    show(&runs::of_runs(&all))
}

pub(crate) fn status(args: &Status) -> anyhow::Result<ExitCode> {
    show(&runs::of_run(&args.which.find()?))
}

pub(crate) fn spec(args: &Spec) -> anyhow::Result<ExitCode> {
    let run = args.which.find()?;
    let cluster = run.cluster();
    if run.standing != Standing::Running || cluster.is_empty() {
        bail!("the run {} does not go on, or has no addresses yet: see `penstock status`", run.name());
    }
    show(&(serde_json::to_string_pretty(&cluster)? + "\n"))
}

pub(crate) fn logs(args: &Logs) -> anyhow::Result<ExitCode> {
    let run = args.which.find()?;
    quietly(args.show(&run), &run.path)
}

impl Logs {
    fn show(&self, run: &Run) -> io::Result<()> {
        let filter = Filter { names: self.role.clone() };
        let mut follow = Follow::new(&run.path);
        match self.tail {
            None => follow.lines(|line| self.print(&filter, line))?,
            Some(most) => {
                let mut last = VecDeque::new();
                follow.lines(|line| {
                    if filter.wants(line) {
                        last.push_back(line.to_owned());
                    }
                    if last.len() > most {
                        last.pop_front();
                    }
                    Ok(())
                })?;
                last.iter().try_for_each(|line| self.print(&filter, line))?;
            }
        }
        if !self.follow {
            return Ok(());
        }
        loop {
            // Asked before the last look, so that no last line is missed.
            let again = runs::find(&self.which.dir, run.path.to_str());
            let is_over = again.is_ok_and(|run| run.standing != Standing::Running);
            follow.lines(|line| self.print(&filter, line))?;
            if is_over {
                return Ok(());
            }
            std::thread::sleep(EVERY);
        }
    }

    fn print(&self, filter: &Filter, line: &str) -> io::Result<()> {
        if !filter.wants(line) {
            return Ok(());
        }
        let told = line.split_once(' ').map_or(line, |(_, told)| told);
        writeln!(io::stdout().lock(), "{}", if self.timestamps { line } else { told })
    }
}

pub(crate) fn kill(args: &Kill) -> anyhow::Result<ExitCode> {
    let run = args.which.find()?;
    if run.standing != Standing::Running {
        bail!("the run {} does not go on: see `penstock status {}`", run.name(), run.name());
    }
    run.interrupt(args.now).with_context(|| format!("cannot reach the launcher of {}", run.name()))?;
    loop {
        let now = runs::find(&args.which.dir, run.path.to_str())?;
        match now.standing {
            Standing::Running => std::thread::sleep(EVERY),
            Standing::Ended(ending) => {
                return show(&format!("job {} {}\n", run.job().unwrap_or(""), ending.outcome));
            }
            Standing::Lost => bail!("the launcher of {} has ended without a summary", run.name()),
        }
    }
}

fn show(text: &str) -> anyhow::Result<ExitCode> {
    quietly(io::stdout().lock().write_all(text.as_bytes()), Path::new("standard output"))
}

/// A reader that went away (`| head`) has seen enough.
fn quietly(shown: io::Result<()>, what: &Path) -> anyhow::Result<ExitCode> {
    match shown {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        other => {
            other.with_context(|| format!("cannot show {}", what.display()))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
