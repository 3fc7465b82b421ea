//! `penstock run`: flags and a job file in, a job run to its end out.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use penstock_launcher::backend::local::{self, Setup};
use penstock_launcher::job::{
    Draft, Job, JobError, Program, SuccessPolicy, Tool, WiringDraft, parse_duration,
};
use penstock_launcher::terminal::{self, Terminal};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

mod aliases;
mod dry;
mod roles;

/// A gateway reads every footer before it is ready.
const START_DEADLINE: Duration = Duration::from_secs(120);

/// Run a training script as a job: workers, their cluster, their data, their logs.
///
/// Every worker runs the same script with TF_CONFIG set, so that MultiWorkerMirroredStrategy finds its
/// peers. With --input, a gateway and one sidecar a worker feed them: `penstock.feed(dataset="NAME")` in
/// the script needs no address, rank or world size.
///
/// The job succeeds when all workers exit with 0. A worker that a signal ended is started again, and with
/// it all others, since they cannot go on without it: from their last checkpoint, if the script loads one.
/// Any other failure ends the job; penstock exits with that task's code (128 + n after signal n), names it
/// and shows its last lines. Output, summary.json and metrics are kept in the run directory.
///
/// With --num-ps and --chief the job is over when the chief is: workers and parameter servers, which
/// serve for ever, are ended then. A worker that dies is started again alone, on its address.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Workers to start; worker 0 acts as chief [default: 1].
    #[arg(long, short = 'n', aliases = ["np", "num-worker", "worker-num", "num-slots"], value_name = "N")]
    num_workers: Option<u32>,

    /// How many neighbouring workers hold parts of one model: they share a rank, and get the same batches
    /// [default: 1].
    #[arg(long, value_name = "N")]
    replicas: Option<u32>,

    /// Parameter servers to start beside the workers [default: 0].
    #[arg(long, alias = "ps-num", value_name = "N")]
    num_ps: Option<u32>,

    /// Start a task of type "chief" too: the coordinator of a ParameterServerStrategy.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    chief: Option<bool>,

    /// Start an evaluator too: the same script with task type "evaluator".
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    evaluator: Option<bool>,

    /// Feed the job from a dataset: a file, a directory or a glob of Parquet. May be given again.
    #[arg(long, value_name = "NAME=URI")]
    input: Vec<String>,

    /// Run TensorBoard for as long as the job runs, and print its address.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    tensorboard: Option<bool>,

    /// Where scripts write events and TensorBoard reads them; PENSTOCK_LOGDIR tells the scripts
    /// [default: tensorboard in the run directory].
    #[arg(long, value_name = "DIR")]
    logdir: Option<PathBuf>,

    /// Where logs and summary.json go [default: penstock-runs/NAME-TIME].
    #[arg(long, value_name = "DIR", overrides_with = "run_dir")]
    run_dir: Option<PathBuf>,

    /// The Python that runs the script [default: python3].
    #[arg(long, alias = "python-binary-path", value_name = "PATH")]
    python: Option<PathBuf>,

    /// How long a task may take to end after SIGTERM [default: 10s; 3s once another task has failed].
    #[arg(long, alias = "grace-secs", value_name = "TIME", value_parser = parse_duration)]
    grace: Option<Duration>,

    /// How often what has died is started again: each task whose peers wait for it alone, all of them together
    /// otherwise [default: 3].
    #[arg(long, aliases = ["backoff-limit", "nb-retries"], value_name = "N")]
    max_restarts: Option<u32>,

    /// Which ends of a role's tasks another start may mend: Never, OnFailure, ExitCode (by a signal, 128 and above, 42)
    /// or Always. May be given again.
    #[arg(long, value_name = "ROLE=POLICY")]
    restart_policy: Vec<String>,

    /// How long the evaluator may go on once the training is done [default: 5m].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    evaluator_grace: Option<Duration>,

    /// How long members of the cluster may take until they serve each other, once some do; 0: for ever [default: 10m].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    start_timeout: Option<Duration>,

    /// How long the process of a chief may go on behind the end of its program, where it serves parameter servers' workers
    /// [default: 1m].
    #[arg(long, alias = "exit_timeout", value_name = "TIME", value_parser = parse_duration)]
    exit_timeout: Option<Duration>,

    /// How long the job may run; it fails with code 124 then [default: for ever].
    #[arg(long, aliases = ["active-deadline-seconds", "application-timeout"], value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,

    /// Put flags that tell who a task is behind its arguments: tf1 (--job_name= --task_index= --ps_hosts=
    /// --worker_hosts=), tf1-dashes (the same with dashes) or ps-host (--job-name= --task-index= --ps-host= --port=
    /// --worker-host …).
    #[arg(long, value_name = "STYLE")]
    arg_style: Option<String>,

    /// The ports of the cluster's members, parameter servers first, for scripts that have them written down
    /// [default: any that are free].
    #[arg(long, value_name = "PORT,…", value_delimiter = ',')]
    ports: Option<Vec<u16>>,

    /// Hold no port once its task is started, for servers that cannot bind beside the holder.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    release_ports: Option<bool>,

    /// Let `import tensorflow` be TensorFlow 1's API, for scripts that were written for it.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    tf1_compat: Option<bool>,

    /// Call this function of the script, FUNCTION(args, ctx), as TensorFlowOnSpark does, in place of running it.
    #[arg(long, value_name = "FUNCTION")]
    map_fun: Option<String>,

    /// When the job has succeeded: when all workers have (all-workers), or when the chief, or worker 0 where there is
    /// none, has (chief) [default: all-workers].
    #[arg(long, value_name = "WHOSE", value_parser = success_policy)]
    success_policy: Option<SuccessPolicy>,

    /// Set a variable for all tasks. May be given again.
    #[arg(long, alias = "shell-env", value_name = "NAME=VALUE")]
    env: Vec<String>,

    /// Set the variables that a file holds, one NAME=VALUE a line; --env wins. May be given again.
    #[arg(long, value_name = "FILE")]
    env_file: Vec<PathBuf>,

    #[command(flatten)]
    roles: roles::Args,

    #[command(flatten)]
    aliases: aliases::Args,

    /// The job's name, for its run directory [default: the script's].
    #[arg(long, alias = "app-name")]
    name: Option<String>,

    /// What follows is another launcher's own command line: tony, submarine or xlearning. Flags win over it.
    #[arg(long, value_name = "TOOL", value_parser = tool)]
    from: Option<Tool>,

    /// Read the job from a file; flags win over it. Our own is YAML, and its paths start at its own directory; a TFJob
    /// of Kubeflow and TonY's tony.xml are read, too.
    #[arg(long, short = 'f', value_name = "JOB.YAML")]
    file: Option<PathBuf>,

    /// Show what would run, and run nothing: every task's command line, variables, rank and restart rule.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "text", value_name = "FORMAT")]
    dry_run: Option<dry::Format>,

    /// Leave the terminal's session: for `penstock submit`.
    #[arg(long, hide = true)]
    detached: bool,

    /// SCRIPT is the name of a module, as with `python -m`.
    #[arg(long, short = 'm', conflicts_with = "no_python")]
    module: bool,

    /// SCRIPT is a program of its own, and is run without Python.
    #[arg(long)]
    no_python: bool,

    /// The script; all that follows it is the script's own.
    script: Option<PathBuf>,

    /// Arguments of the script.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  penstock run train.py
  penstock run --num-workers 2 --input digits=data/train train.py --epochs 3
  penstock run -n 4 --evaluator --tensorboard --python venv/bin/python train.py
  penstock run --chief --num-workers 2 --num-ps 1 --input flights=data/train train.py
  penstock run --file job.yaml --num-workers 8
  penstock run --dry-run --file tfjob.yaml
  penstock run --from submarine -- job run --name mnist --num_workers 2 --worker_launch_cmd 'python train.py'

A job file:
  script: train.py
  args: [--epochs, 3]
  numWorkers: 2
  inputs:
    digits: data/train

What a task finds in its environment: TF_CONFIG, PENSTOCK_RANK, PENSTOCK_WORLD_SIZE, PENSTOCK_REPLICA,
PENSTOCK_RUN_DIR, PENSTOCK_LOGDIR, and with inputs PENSTOCK_SIDECAR, PENSTOCK_GATEWAYS, PENSTOCK_DATASETS.";

impl Args {
    /// Whether nothing is to be run.
    pub(crate) fn is_dry(&self) -> bool {
        self.dry_run.is_some()
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.detached {
        // A terminal that is closed ends what is in its session.
        terminal::leave_session().context("cannot leave the terminal's session")?;
    }
    let dry_run = args.dry_run;
    let job = resolve(args)?;
    if let Some(format) = dry_run {
        return dry::show(&job, format);
    }
    let penstock = std::env::current_exe().context("cannot find this program's own file")?;
    let setup = Setup { penstock, terminal: Terminal::standard(), start_deadline: START_DEADLINE };
    let runtime = tokio::runtime::Runtime::new().context("cannot start the async runtime")?;
    let summary = runtime
        .block_on(async { local::run(&job, &setup, interrupts()?).await.map_err(anyhow::Error::from) })?;
    if summary.exit_code != 0 {
        // The report went to standard output, which may lead elsewhere.
        crate::report(&anyhow::anyhow!("job {} {}", summary.job, summary.outcome));
    }
    // Exit codes of processes are 0 to 255; anything else would be no failure to a shell.
    Ok(ExitCode::from(u8::try_from(summary.exit_code).unwrap_or(u8::MAX)))
}

/// Flags of the topology that stand behind the script, which hardly any script has of its own.
fn misplaced(args: &[String]) -> Option<&str> {
    const OURS: [&str; 6] = ["--num-workers", "--replicas", "--num-ps", "--chief", "--evaluator", "--input"];
    let flags = args.iter().map(|arg| arg.split('=').next().unwrap_or(arg));
    flags.into_iter().find(|flag| OURS.contains(flag))
}

#[expect(clippy::print_stderr, reason = "where a command line's remarks belong")]
pub(crate) fn resolve(args: Args) -> anyhow::Result<Job> {
    if let (None, Some(flag)) = (args.from, misplaced(&args.args)) {
        eprintln!("note: {flag} stands behind the script and is given to it; penstock's own flags go before");
    }
    // Behind --from, no word is ours.
    let (script, words) = match (args.from, args.script) {
        (Some(_), first) => {
            let first = first.map(|word| word.to_string_lossy().into_owned());
            (None, first.into_iter().chain(args.args).collect())
        }
        (None, script) => (script, args.args),
    };
    let foreign = args.from.map(|tool| Draft::from_tool(tool, &words)).transpose()?.unwrap_or_default();
    let words = if args.from.is_some() { Vec::new() } else { words };
    let program = |script: PathBuf| match (args.module, args.no_python) {
        (true, _) => Program::Module(script.to_string_lossy().into_owned()),
        (_, true) => Program::Command(script),
        _ => Program::Script(script),
    };
    let mut flags = Draft {
        name: args.name,
        program: script.map(program),
        args: (!words.is_empty()).then_some(words),
        python: args.python,
        num_workers: args.aliases.num_workers(args.num_workers)?,
        cluster_size: args.aliases.cluster_size,
        replicas: args.replicas,
        num_ps: args.num_ps,
        chief: args.chief,
        evaluator: args.evaluator,
        tensorboard: args.tensorboard,
        logdir: args.logdir,
        run_dir: args.run_dir,
        grace: args.grace,
        evaluator_grace: args.evaluator_grace,
        max_restarts: args.max_restarts,
        start_timeout: args.start_timeout,
        exit_timeout: args.exit_timeout,
        timeout: args.timeout,
        wiring: WiringDraft {
            arg_style: None,
            ports: args.ports,
            release_ports: args.release_ports,
            tf1_compat: args.tf1_compat,
            map_fun: args.map_fun,
        },
        success_policy: args.success_policy,
        ..Draft::default()
    };
    if let Some(style) = &args.arg_style {
        flags.wiring.set_arg_style(style)?;
    }
    for input in &args.input {
        flags.add_input(input)?;
    }
    for variable in &args.env {
        flags.add_env(variable)?;
    }
    for file in &args.env_file {
        flags.add_env_file(file)?;
    }
    args.roles.tell(&mut flags)?;
    for policy in &args.restart_policy {
        flags.add_restart_policy(policy)?;
    }
    let below = args.file.as_deref().map(Draft::from_file).transpose()?.unwrap_or_default();
    let draft = flags.over(foreign).over(below);
    for note in &draft.notes {
        eprintln!("note: {note}");
    }
    Ok(Job::resolve(draft)?)
}

fn tool(name: &str) -> Result<Tool, String> {
    Tool::from_name(name).ok_or_else(|| format!("there are {}", Tool::NAMES.join(", ")))
}

fn success_policy(name: &str) -> Result<SuccessPolicy, JobError> {
    SuccessPolicy::from_name(name).ok_or_else(|| JobError::Success(name.to_owned()))
}

/// SIGINT, SIGTERM and SIGHUP, as they come.
fn interrupts() -> anyhow::Result<mpsc::Receiver<i32>> {
    let (tell, interrupts) = mpsc::channel(4);
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let mut signals = signal(kind).context("cannot listen for signals")?;
        let tell = tell.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if tell.send(kind.as_raw_value()).await.is_err() {
                    return;
                }
            }
        });
    }
    Ok(interrupts)
}

#[cfg(test)]
mod tests {
    use penstock_launcher::job::keys;

    use super::*;

    #[test]
    fn flags_and_keys_of_a_file_say_the_same() {
        let command = <Args as clap::Args>::augment_args(clap::Command::new("run"));
        // Of the command line itself; args and script are positional, roles have a few flags each.
        let alone = ["file", "from", "dry-run", "worker-cmd", "worker-resources"];
        let flags: std::collections::BTreeSet<_> = command
            .get_arguments()
            .filter(|arg| !arg.is_hide_set())
            .filter_map(|arg| arg.get_long())
            .filter(|flag| !alone.contains(flag))
            .collect();
        let keys: std::collections::BTreeSet<_> = keys::KEYS.iter().filter_map(|key| key.flag).collect();
        assert_eq!(flags, keys);
    }

    #[test]
    fn a_flag_behind_the_script_is_noticed() {
        let args = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(misplaced(&args("--epochs 3 --num-workers=2")), Some("--num-workers"));
        assert_eq!(misplaced(&args("--epochs 3 --workers 2 num-ps")), None);
    }
}
