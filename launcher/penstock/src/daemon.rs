//! What `gateway` and `sidecar` have in common: logs, admin port, ready line, drain.
//!
//! In: options and a start. Out: an exit code, after the drain. The promise: standard output carries the
//! ready lines alone, the admin port's before the daemon's own, each when it is true, and before the last how far
//! it is.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use penstock_daemon::stop::Stop;
use penstock_daemon::{Drain, admin, logs};
use penstock_launcher::job::parse_duration;

/// Options of every daemon.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Serve /metrics (Prometheus) and /healthz here; port 0 takes a free one.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) admin: Option<String>,

    /// Leave, as on SIGTERM, when this process ends.
    #[arg(long, value_name = "PID")]
    exit_with: Option<i32>,

    /// How long work that has begun may go on after SIGTERM.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "30s")]
    drain: Duration,

    /// How log lines look, on standard error.
    #[arg(long, value_enum, default_value = "text")]
    log_format: LogFormat,

    /// What is logged, e.g. "debug" or "penstock_gateway=debug,info".
    #[arg(long, env = "PENSTOCK_LOG", value_name = "FILTER", default_value = "info")]
    log: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

/// Starts with `start`, which returns where the daemon listens, and serves until told to stop.
pub(crate) fn serve(
    options: &Options,
    start: impl AsyncFnOnce(&Drain) -> anyhow::Result<String>,
) -> anyhow::Result<ExitCode> {
    let format = match options.log_format {
        LogFormat::Text => logs::Format::Text,
        LogFormat::Json => logs::Format::Json,
    };
    logs::init(format, &options.log)?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the async runtime")?;
    runtime.block_on(async {
        let drain = Drain::new();
        // First, since it is what metrics are registered with.
        if let Some(address) = &options.admin {
            let bound = admin::serve(resolve(address).await?, &drain).await?;
            say(&format!("admin on http://{bound}"))?;
        }
        let address = start(&drain).await?;
        // Before the ready line: whoever reads it may send a signal at once.
        let stop = Stop::listen(options.exit_with)?;
        say(&format!("listening on {address}"))?;
        stop.drain(&drain, options.drain).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Says how far a daemon is that is not ready yet.
pub(crate) fn tell(line: &str) {
    // Nobody may be listening: it is the ready line that must be heard.
    let _unheard = say(line);
}

async fn resolve(address: &str) -> anyhow::Result<std::net::SocketAddr> {
    let help = || format!("{address:?} is not an address for --admin: write HOST:PORT, e.g. 127.0.0.1:9100");
    tokio::net::lookup_host(address).await.with_context(help)?.next().with_context(help)
}

fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("cannot write the ready line")
}
