//! `penstock gateway`: flags and a configuration file in, a serving gateway out.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use penstock_gateway::config::{ConfigFile, DiskConfig};
use penstock_gateway::{Config, Gateway};
use penstock_launcher::job::parse_duration;
use penstock_proto::TicketKey;

use crate::tls::TlsOptions;
use crate::{cloud, daemon, hadoop, size};

/// Serve datasets of Parquet over Arrow Flight.
///
/// Any Flight client reads a dataset by its name; penstock's sidecars and `penstock.feed` read exact,
/// sharded and shuffled batches. Gateways of a fleet are given the same datasets and the same ticket key:
/// each then serves what any of them promised, and a stream that breaks goes on at another.
///
/// Prints `reading NAME: 1200 of 10000 files` each second while it looks at a dataset for the first time, and
/// `listening on grpc://HOST:PORT` once it serves (`grpc+tls://…` with TLS, `grpc+unix://PATH` on a
/// Unix socket).
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where to listen: HOST:PORT, where port 0 takes a free one, or unix:PATH [default: 127.0.0.1:8815].
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,

    /// A Unix socket beside the port; clients on this machine are told of it.
    #[arg(long, value_name = "PATH")]
    unix_socket: Option<PathBuf>,

    /// How clients and other gateways reach this one, where it is not what it listens at; in a fleet, as its list
    /// says it.
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Option<String>,

    /// A dataset: a file, a directory or a glob of Parquet, here or behind hdfs://, s3://, gs://, az:// or
    /// https://, or several such URIs of one store with spaces between. May be given again.
    #[arg(long, value_name = "NAME=URI")]
    dataset: Vec<String>,

    /// All gateways that serve the same datasets; this one may be among them. dns:NAME:PORT stands for every
    /// address of a name, file:PATH for a file of one HOST:PORT a line; both are looked at again every 5 s.
    /// Gateways of a fleet decode lanes for each other.
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',')]
    fleet: Vec<String>,

    /// With TLS: authorities that the fleet's certificates come from (PEM). Without it gateways decode nothing for
    /// each other.
    #[arg(long, value_name = "FILE")]
    fleet_ca: Option<PathBuf>,

    /// A secret of at least 32 bytes that seals tickets, the same for a fleet [default: a new one, known
    /// to this process alone].
    #[arg(long, value_name = "FILE")]
    ticket_key_file: Option<PathBuf>,

    /// What all streams together may hold, and what was decoded for them [default: 1536MiB].
    #[arg(long, env = "PENSTOCK_GATEWAY_MEMORY", value_name = "SIZE")]
    memory: Option<String>,

    /// How much of --memory keeps decoded blocks for other trainers and later epochs while no stream wants it; 0
    /// keeps none [default: half of it].
    #[arg(long, value_name = "SIZE")]
    cache: Option<String>,

    /// A directory on a local disk for decoded blocks that memory does not keep, with --cache-disk. Nothing is seen in
    /// it, and nothing is left there when the gateway ends.
    #[arg(long, value_name = "DIRECTORY")]
    cache_dir: Option<PathBuf>,

    /// How much of the disk under --cache-dir keeps decoded blocks; about an eighth of --memory at most is taken for it.
    #[arg(long, value_name = "SIZE")]
    cache_disk: Option<String>,

    /// A directory that keeps how many rows filters pass, so that they are counted once: for gateways that start
    /// anew, and for a fleet where all reach it.
    #[arg(long, value_name = "DIRECTORY")]
    state: Option<String>,

    /// How long the machine of a reader may answer nothing before its streams are closed. One that takes nothing, but
    /// answers, is waited for [default: 2m].
    #[arg(long, value_name = "TIME")]
    reader_timeout: Option<String>,

    /// All of these from a YAML file; flags win over it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    daemon: daemon::Options,

    #[command(flatten)]
    tls: TlsOptions,

    #[command(flatten)]
    hadoop: hadoop::HdfsOptions,

    #[command(flatten)]
    cloud: cloud::CloudOptions,
}

const EXAMPLES: &str = "\
Examples:
  penstock gateway --listen 127.0.0.1:8815 --dataset digits=data/train
  penstock gateway --listen 0.0.0.0:8815 --advertise node1:8815 --dataset logs='/data/logs/*.parquet' \\
      --fleet node1:8815,node2:8815 --ticket-key-file ticket.key --admin 0.0.0.0:9100
  penstock gateway --listen 0.0.0.0:8815 --dataset logs=s3://bucket/logs --fleet dns:gateways.jobs:8815 \\
      --ticket-key-file ticket.key
  penstock gateway --listen 0.0.0.0:8815 --tls-cert gateway.pem --tls-key gateway.key --dataset digits=data/train
  penstock gateway --dataset logs=hdfs://cluster/logs/2026 --hadoop-conf /etc/hadoop/conf
  penstock gateway --dataset logs=s3://bucket/logs/2026

A configuration file:
  listen: 0.0.0.0:8815
  datasets:
    digits: data/train
  memory: 2GiB

A ticket key: openssl rand -hex 32 > ticket.key";

const DEFAULT_LISTEN: &str = "127.0.0.1:8815";

pub(crate) fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    let file = args.config.take().map(|path| read(&path)).transpose()?.unwrap_or_default();
    args.daemon.admin = args.daemon.admin.or_else(|| file.admin.clone());
    let options = args.daemon;
    let (hdfs, tls) = (args.hadoop.resolve(&file)?, args.tls.resolve(&file)?);
    let cloud = args.cloud.resolve(&file)?;
    let mut config = resolve(
        Raw {
            listen: args.listen,
            unix_socket: args.unix_socket,
            advertise: args.advertise,
            datasets: args.dataset,
            fleet: args.fleet,
            fleet_ca: args.fleet_ca,
            ticket_key_file: args.ticket_key_file,
            memory: args.memory,
            cache: args.cache,
            cache_dir: args.cache_dir,
            cache_disk: args.cache_disk,
            state: args.state,
            reader_timeout: args.reader_timeout,
        },
        file,
    )?;
    config.hdfs = hdfs;
    config.cloud = cloud;
    config.tls = tls;
    config.tell = daemon::tell;
    if config.fleet_ca.is_some() && config.tls.is_none() {
        bail!("--fleet-ca is for a fleet with TLS: give --tls-cert and --tls-key");
    }
    daemon::serve(&options, async move |drain| Ok(Gateway::start(config, drain).await?.bound))
}

/// The flags that a file may say too.
struct Raw {
    listen: Option<String>,
    unix_socket: Option<PathBuf>,
    advertise: Option<String>,
    datasets: Vec<String>,
    fleet: Vec<String>,
    fleet_ca: Option<PathBuf>,
    ticket_key_file: Option<PathBuf>,
    memory: Option<String>,
    cache: Option<String>,
    cache_dir: Option<PathBuf>,
    cache_disk: Option<String>,
    state: Option<String>,
    reader_timeout: Option<String>,
}

/// Flags over file over defaults.
fn resolve(flags: Raw, file: ConfigFile) -> anyhow::Result<Config> {
    let mut config = Config::new(flags.listen.or(file.listen).unwrap_or_else(|| DEFAULT_LISTEN.to_owned()));
    config.unix_socket = flags.unix_socket.or(file.unix_socket);
    config.advertise = flags.advertise.or(file.advertise);
    let mut datasets = file.datasets;
    for text in &flags.datasets {
        let (name, uri) = text
            .split_once('=')
            .filter(|(name, uri)| !name.is_empty() && !uri.is_empty())
            .with_context(|| format!("{text:?} is not a dataset: write NAME=URI, e.g. digits=data/train"))?;
        datasets.insert(name.to_owned(), uri.to_owned());
    }
    if datasets.is_empty() {
        bail!("no dataset was named: give at least one with --dataset NAME=URI");
    }
    config.datasets = datasets.into_iter().collect();
    config.fleet = if flags.fleet.is_empty() { file.fleet } else { flags.fleet };
    config.fleet_ca = flags.fleet_ca.or(file.fleet_ca);
    if let Some(path) = flags.ticket_key_file.or(file.ticket_key_file) {
        config.ticket_key = TicketKey::from_file(&path)?;
    }
    config.state = flags.state.or(file.state);
    if let Some(timeout) = flags.reader_timeout.or(file.reader_timeout) {
        config.reader_timeout = parse_duration(&timeout)?;
        if config.reader_timeout < Duration::from_secs(1) {
            bail!("--reader-timeout {timeout} is too short: give at least 1s");
        }
    }
    if let Some(memory) = flags.memory.or(file.memory) {
        config.memory_bytes = size::parse(&memory).map_err(anyhow::Error::msg)?;
    }
    if let Some(cache) = flags.cache.or(file.cache) {
        let bytes = size::parse_or_none(&cache).map_err(anyhow::Error::msg)?;
        if bytes > config.memory_bytes {
            bail!(
                "the decoded cache is a part of the memory: lower --cache, or give more --memory than {cache}"
            );
        }
        config.cache_bytes = Some(bytes);
    }
    config.cache_disk =
        disk(flags.cache_dir.or(file.cache_dir), flags.cache_disk.or(file.cache_disk).as_deref())?;
    Ok(config)
}

/// Where decoded blocks are kept beside memory, if anywhere.
fn disk(directory: Option<PathBuf>, size: Option<&str>) -> anyhow::Result<Option<DiskConfig>> {
    let bytes = size.map(size::parse_or_none).transpose().map_err(anyhow::Error::msg)?;
    match (directory, bytes) {
        (_, Some(0)) | (None, None) => Ok(None),
        (Some(directory), Some(bytes)) => Ok(Some(DiskConfig { directory, bytes })),
        (Some(_), None) => {
            bail!("--cache-dir does not say how much may be kept there: give --cache-disk SIZE, e.g. 100GiB")
        }
        (None, Some(_)) => {
            bail!("--cache-disk does not say where: give --cache-dir DIRECTORY, on a local disk")
        }
    }
}

fn read(path: &std::path::Path) -> anyhow::Result<ConfigFile> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the configuration file {}", path.display()))?;
    let parsed = serde_saphyr::from_str(&text)
        .map_err(|error| anyhow::Error::msg(error.without_snippet().to_string()));
    parsed.with_context(|| format!("the configuration file {} cannot be used", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw() -> Raw {
        Raw {
            listen: None,
            unix_socket: None,
            advertise: None,
            datasets: vec![],
            fleet: vec![],
            fleet_ca: None,
            ticket_key_file: None,
            memory: None,
            cache: None,
            cache_dir: None,
            cache_disk: None,
            state: None,
            reader_timeout: None,
        }
    }

    #[test]
    fn flags_win_over_the_file() {
        let file: ConfigFile =
            serde_saphyr::from_str("listen: a:1\ndatasets: {x: here, y: there}\nmemory: 1GiB\ncache: 1MiB")
                .unwrap();
        let flags = Raw { datasets: vec!["x=elsewhere".into()], memory: Some("1MiB".into()), ..raw() };
        let config = resolve(flags, file).unwrap();
        assert_eq!(config.listen, "a:1");
        assert_eq!(config.datasets, [("x".into(), "elsewhere".into()), ("y".into(), "there".into())]);
        assert_eq!((config.memory_bytes, config.cache_bytes), (1 << 20, Some(1 << 20)));
    }

    #[test]
    fn a_cache_of_nothing_is_no_cache() {
        let flags = Raw { datasets: vec!["x=y".into()], cache: Some("0".into()), ..raw() };
        assert_eq!(resolve(flags, ConfigFile::default()).unwrap().cache_bytes, Some(0));
        let file = serde_saphyr::from_str("datasets: {x: y}\ncache: 0").unwrap();
        assert_eq!(resolve(raw(), file).unwrap().cache_bytes, Some(0));
    }

    #[test]
    fn a_disk_has_a_place_and_a_size() {
        let disk = |flags: Raw, file: &str| {
            let file = serde_saphyr::from_str(&format!("datasets: {{x: y}}\n{file}")).unwrap();
            resolve(flags, file).map(|config| config.cache_disk).map_err(|error| error.to_string())
        };
        let here = |bytes| Ok(Some(DiskConfig { directory: "here".into(), bytes }));
        assert_eq!(disk(raw(), ""), Ok(None));
        assert_eq!(disk(raw(), "cache_dir: here\ncache_disk: 1GiB"), here(1 << 30));
        let flags = || Raw { cache_disk: Some("1MiB".into()), ..raw() };
        assert_eq!(disk(flags(), "cache_dir: here\ncache_disk: 1GiB"), here(1 << 20));
        let none = Raw { cache_disk: Some("0".into()), ..raw() };
        assert_eq!(disk(none, "cache_dir: here\ncache_disk: 1GiB"), Ok(None));
        assert!(disk(flags(), "").unwrap_err().contains("--cache-dir DIRECTORY"));
        assert!(disk(raw(), "cache_dir: here").unwrap_err().contains("--cache-disk SIZE"));
    }

    #[test]
    fn what_cannot_work_says_what_to_do() {
        let refuse = |flags| resolve(flags, ConfigFile::default()).err().unwrap().to_string();
        assert!(refuse(raw()).contains("--dataset NAME=URI"));
        assert!(refuse(Raw { datasets: vec!["x".into()], ..raw() }).contains("write NAME=URI"));
        let some = || vec!["x=y".to_owned()];
        assert!(refuse(Raw { datasets: some(), memory: Some("lots".into()), ..raw() }).contains("512MiB"));
        let more = Raw { datasets: some(), cache: Some("2GiB".into()), ..raw() };
        assert!(refuse(more).contains("lower --cache"));
        let absent = Some(PathBuf::from("absent.key"));
        assert!(refuse(Raw { datasets: some(), ticket_key_file: absent, ..raw() }).contains("absent.key"));
    }
}
