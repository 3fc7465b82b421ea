//! What a sidecar is started with.

use std::path::PathBuf;
use std::time::Duration;

/// Bytes of all feeds together when nothing is said.
pub const DEFAULT_MEMORY: u64 = 1 << 30;

/// Everything a sidecar needs to know before a trainer asks for anything.
#[derive(Debug, Clone)]
pub struct Config {
    /// Path of the Unix socket, at most 107 bytes. A directory that is not there is made, for this user
    /// alone.
    pub listen: PathBuf,
    /// `grpc://HOST:PORT`, `grpc+tls://HOST:PORT` or `grpc+unix:///PATH` of the gateways for feeds that name
    /// none.
    pub gateways: Vec<String>,
    /// Without it, no gateway is reached by TLS.
    pub tls: Option<TlsConfig>,
    /// Bytes of all feeds together: rings, and what was received and not packed yet. A feed that does not say how much
    /// it may have begins with a quarter.
    pub memory: u64,
    /// Bytes that all feeds together may hold where their steps are too large for `memory`; no less than that.
    pub most_memory: u64,
    /// Without it, nothing is asked of the GPUs' driver.
    pub gpus: Option<GpuConfig>,
    pub deadlines: Deadlines,
}

impl Config {
    pub fn new(listen: impl Into<PathBuf>) -> Self {
        Self {
            listen: listen.into(),
            gateways: Vec::new(),
            tls: None,
            memory: DEFAULT_MEMORY,
            most_memory: 0,
            gpus: None,
            deadlines: Deadlines::default(),
        }
    }
}

/// Where the GPUs of the trainer are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuConfig {
    /// As `CUDA_VISIBLE_DEVICES` has them; `None` are all of the machine's.
    pub chosen: Option<String>,
    /// The driver's library, NVML: a name that the loader finds, or a path.
    pub library: PathBuf,
    /// Where sysfs is mounted.
    pub sysfs: PathBuf,
}

/// TLS towards gateways; all files are PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// The authorities that gateways' certificates come from.
    pub ca: PathBuf,
    /// A certificate and its key, for gateways that want to see one.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// How long a feed is patient, and with what.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// For a connection to a gateway to be made.
    pub connect: Duration,
    /// For the next message of a stream, or an answer: a gateway that is silent for longer is left.
    pub stall: Duration,
    /// From the first gateway being asked for a feed to giving up, when none answers: an address may be
    /// wrong.
    pub answer: Duration,
    /// From a stream's break to giving up, when no gateway brings the next step: one may be starting again.
    pub give_up: Duration,
    /// For memory that other feeds hold.
    pub memory: Duration,
    /// Until a trainer that waits is told who does not answer.
    pub tell: Duration,
    /// Until it is told again.
    pub tell_again: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            stall: Duration::from_secs(60),
            answer: Duration::from_secs(15),
            give_up: Duration::from_secs(60),
            memory: Duration::from_secs(30),
            tell: Duration::from_secs(4),
            tell_again: Duration::from_secs(20),
        }
    }
}
