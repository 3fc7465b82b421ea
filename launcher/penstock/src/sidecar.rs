//! `penstock sidecar`: flags in, a sidecar that waits for feeds out.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use penstock_sidecar::{Config, GpuConfig, Sidecar, TlsConfig};

use crate::{daemon, size};

/// Serve trainers on this machine: pull their partitions, cut exact batches into shared memory.
///
/// Started without a feed: a trainer's `penstock.feed(…)` asks for one over the socket. `penstock run`
/// starts one beside every task, and `penstock.feed("data/*.parquet")` its own.
///
/// Prints `listening on unix:PATH` once it serves.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The Unix socket for trainers, at most 107 bytes long.
    #[arg(long, value_name = "PATH")]
    listen: PathBuf,

    /// Gateways for feeds that name none; grpc+tls://HOST:PORT and grpc+unix:///PATH too.
    #[arg(long, value_name = "grpc://HOST:PORT,…", value_delimiter = ',')]
    gateway: Vec<String>,

    /// Reach grpc+tls:// gateways whose certificates come from these authorities (PEM).
    #[arg(long, env = "PENSTOCK_TLS_CA", value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    /// Show gateways this certificate (PEM).
    #[arg(long, env = "PENSTOCK_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,

    /// The certificate's key (PEM).
    #[arg(long, env = "PENSTOCK_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,

    /// What all feeds together have, shared memory included; one that asks for nothing begins with a quarter [default: 1GiB].
    #[arg(long, env = "PENSTOCK_SIDECAR_MEMORY", value_name = "SIZE", value_parser = size::parse)]
    memory: Option<u64>,

    /// What they may have where their steps are too large for that [default: the same].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    most_memory: Option<u64>,

    /// The trainer's GPUs, as in CUDA_VISIBLE_DEVICES [default: all]. The sidecar stays on their NUMA node, and tells
    /// how busy they are.
    #[arg(long, env = "CUDA_VISIBLE_DEVICES", value_name = "INDEX|UUID,…")]
    gpu: Option<String>,

    /// The NVIDIA driver's library; without it nothing is known of GPUs.
    #[arg(
        long,
        env = "PENSTOCK_NVML",
        value_name = "PATH",
        default_value = "libnvidia-ml.so.1",
        hide = true
    )]
    nvml: PathBuf,

    /// Where sysfs is mounted.
    #[arg(long, value_name = "DIR", default_value = "/sys", hide = true)]
    sysfs: PathBuf,

    #[command(flatten)]
    daemon: daemon::Options,
}

const EXAMPLES: &str = "\
Example:
  penstock sidecar --listen /tmp/trainer-0.sock --gateway grpc://node1:8815,grpc://node2:8815";

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut config = Config::new(args.listen);
    config.gateways = args.gateway;
    config.tls = tls(args.tls_ca, args.tls_cert, args.tls_key)?;
    config.gpus = Some(GpuConfig { chosen: args.gpu, library: args.nvml, sysfs: args.sysfs });
    if let Some(memory) = args.memory {
        config.memory = memory;
    }
    if let Some(memory) = args.most_memory {
        config.most_memory = memory;
    }
    daemon::serve(&args.daemon, async move |drain| {
        let bound = Sidecar::start(config, drain)?;
        Ok(format!("unix:{}", bound.path.display()))
    })
}

fn tls(
    ca: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
) -> anyhow::Result<Option<TlsConfig>> {
    match (ca, certificate, key) {
        (None, None, None) => Ok(None),
        (Some(ca), None, None) => Ok(Some(TlsConfig { ca, own: None })),
        (Some(ca), Some(certificate), Some(key)) => Ok(Some(TlsConfig { ca, own: Some((certificate, key)) })),
        _ => bail!(
            "TLS needs --tls-ca, and a certificate and its key only together: give all that are missing"
        ),
    }
}
