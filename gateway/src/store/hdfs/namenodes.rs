//! A cluster's NameNodes, asked one after the other until one answers.
//!
//! In: a call. Out: its answer. The promise: every call ends, by an answer or by an error that says of every
//! NameNode what it did; a NameNode that is silent, standby or gone costs one deadline, after which the other
//! is asked first. There is one client for each, for the crate's own failover never leaves a NameNode that
//! takes connections and says nothing.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hdfs_native::{Client, ClientBuilder, HdfsError as Native};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::HdfsError;
use super::configuration::{Cluster, Configuration, Patience};
use super::error::{in_words, remote};
use super::rpc::Rpc;
use crate::config::HdfsConfig;

/// NameNodes are asked again until this has passed; the first time each has all the time of an answer.
const PATIENCE: Duration = Duration::from_secs(12);
/// The pause after all NameNodes have failed, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// With less time left than this nobody is asked again.
const SHORTEST_ANSWER: Duration = Duration::from_secs(2);
/// Beyond its deadline a call that blocks its thread (a key server that is silent) is waited for this long.
const GRACE: Duration = Duration::from_millis(250);

pub(super) struct NameNodes {
    url: String,
    nodes: Vec<NameNode>,
    /// Who answered last.
    active: AtomicUsize,
    patience: Patience,
    /// Whether connecting may block the thread that does it, as Kerberos does.
    blocks: bool,
    /// Who asks where no proof is asked for; `None` where it is.
    believed: Option<String>,
    identity: Identity,
}

struct NameNode {
    address: String,
    settings: BTreeMap<String, String>,
    slot: Mutex<Slot>,
}

/// How a NameNode is spoken to.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) client: Client,
    /// For what the crate does not offer; `None` where only the crate can prove who asks.
    pub(super) rpc: Option<Arc<Rpc>>,
}

/// A line, made anew after a silence, for its connections may lead nowhere.
#[derive(Default)]
struct Slot {
    line: Option<Line>,
    /// Counts lines, so that those who waited together for one give it up once.
    number: u64,
}

/// Who asks.
struct Identity {
    conf_dir: Option<PathBuf>,
    user: Option<String>,
    principal: Option<String>,
    keytab: Option<PathBuf>,
}

/// What is to be done about a call that failed.
enum Verdict {
    /// Another NameNode, or this one later, may answer.
    Elsewhere(String),
    Final(HdfsError),
}

impl NameNodes {
    pub(super) fn new(cluster: Cluster, configuration: &Configuration, config: &HdfsConfig) -> Self {
        let nodes = cluster.nodes.into_iter().map(|node| NameNode {
            settings: configuration.of_client(&node),
            address: node.address,
            slot: Mutex::default(),
        });
        Self {
            url: cluster.url,
            nodes: nodes.collect(),
            active: AtomicUsize::new(0),
            patience: configuration.patience(),
            blocks: configuration.is_secure(),
            believed: configuration.is_plain().then(|| config.believed_user()),
            identity: Identity {
                conf_dir: config.conf_dir.clone(),
                user: config.user.clone(),
                principal: config.principal.clone(),
                keytab: config.keytab.clone(),
            },
        }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Makes a call about `path`, each time with the deadline `limit`.
    pub(super) async fn ask<T, F>(
        &self,
        path: &str,
        limit: Duration,
        call: impl Fn(Line) -> F,
    ) -> Result<T, HdfsError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Native>> + Send + 'static,
    {
        let began = Instant::now();
        let deadline = began + PATIENCE;
        let count = self.nodes.len() as u32;
        let mut tried: BTreeMap<usize, String> = BTreeMap::new();
        let mut index = self.active.load(Ordering::Relaxed);
        for failures in 1.. {
            // What takes longer than an answer may looks after its own deadlines.
            let is_repeated = failures > count && limit <= self.patience.answer;
            let left = deadline.saturating_duration_since(Instant::now());
            let limit = if is_repeated { limit.min(left) } else { limit };
            let (line, number) = self.line(index)?;
            let verdict = match self.call(limit, call(line)).await {
                Ok(Ok(answer)) => {
                    self.active.store(index, Ordering::Relaxed);
                    return Ok(answer);
                }
                Ok(Err(error)) => self.verdict(path, error),
                Err(Silent) => {
                    self.give_up(index, number);
                    Verdict::Elsewhere(format!("silent for {:.1} s", limit.as_secs_f64()))
                }
            };
            match verdict {
                Verdict::Final(error) => return Err(error),
                Verdict::Elsewhere(reason) => {
                    tracing::debug!(namenode = %self.nodes[index].address, %reason, "asking elsewhere");
                    tried.insert(index, reason);
                }
            }
            index = (index + 1) % self.nodes.len();
            let is_round = failures % count == 0;
            let pause = if is_round { pause(failures / count) } else { Duration::ZERO };
            let is_late = is_round && Instant::now() + pause + SHORTEST_ANSWER > deadline;
            if failures > self.patience.failovers || is_late {
                break;
            }
            tokio::time::sleep(pause).await;
        }
        let tried: Vec<String> =
            tried.iter().map(|(&index, reason)| format!("{}: {reason}", self.nodes[index].address)).collect();
        Err(HdfsError::NoNameNode {
            cluster: self.url.clone(),
            after: began.elapsed(),
            tried: tried.join("; "),
        })
    }

    async fn call<T, F>(&self, limit: Duration, call: F) -> Result<Result<T, Native>, Silent>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Native>> + Send + 'static,
    {
        let call = timeout(limit, call);
        if !self.blocks {
            return call.await.map_err(|_| Silent);
        }
        let (runtime, (done, answered)) = (Handle::current(), oneshot::channel());
        // Not of the runtime's own: that would wait for it at its end.
        let thread = std::thread::Builder::new().name("hdfs".to_owned()).spawn(move || {
            // Who stopped waiting wants no answer.
            let _unwanted = done.send(runtime.block_on(call));
        });
        if let Err(error) = thread {
            return Ok(Err(Native::IOError(error)));
        }
        match timeout(limit + GRACE, answered).await {
            Ok(Ok(answered)) => answered.map_err(|_| Silent),
            Ok(Err(_)) => Ok(Err(Native::InternalError("the client failed unexpectedly".to_owned()))),
            Err(_) => Err(Silent),
        }
    }

    /// The line to a NameNode, and its number.
    fn line(&self, index: usize) -> Result<(Line, u64), HdfsError> {
        let node = &self.nodes[index];
        let mut slot = node.slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = &slot.line {
            return Ok((line.clone(), slot.number));
        }
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        let mut builder = ClientBuilder::new().with_url(self.url.clone()).with_config(node.settings.clone());
        if let Some(directory) = &self.identity.conf_dir {
            builder = builder.with_config_dir(text(directory));
        }
        if let Some(user) = &self.identity.user {
            builder = builder.with_user(user.clone());
        }
        if let Some(principal) = &self.identity.principal {
            builder = builder.with_kerberos_principal(principal.clone());
        }
        if let Some(keytab) = &self.identity.keytab {
            builder = builder.with_kerberos_keytab(text(keytab));
        }
        let made = builder.build();
        let client = made.map_err(|source| HdfsError::Settings { cluster: self.url.clone(), source })?;
        let rpc = self.believed.clone().map(|user| Arc::new(Rpc::new(node.address.clone(), user)));
        slot.number += 1;
        Ok((slot.line.insert(Line { client, rpc }).clone(), slot.number))
    }

    fn give_up(&self, index: usize, number: u64) {
        let mut slot = self.nodes[index].slot.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.number == number {
            slot.line = None;
        }
    }

    fn verdict(&self, path: &str, error: Native) -> Verdict {
        let path = || format!("{}{path}", self.url);
        let reason = in_words(&error);
        let unauthenticated = |reason| HdfsError::Unauthenticated { cluster: self.url.clone(), reason };
        Verdict::Final(match error {
            Native::IOError(e) if e.kind() == io::ErrorKind::ConnectionAborted => {
                return Verdict::Elsewhere(
                    "it closed the connection, as it does when it wants Kerberos and the configuration here does not"
                        .to_owned(),
                );
            }
            Native::IOError(_)
            | Native::InvalidRPCResponse(_)
            | Native::InternalError(_)
            | Native::DataTransferError(_) => return Verdict::Elsewhere(reason),
            Native::SASLError(_) | Native::GSSAPIError(..) | Native::NoSASLMechanism => {
                unauthenticated(reason)
            }
            Native::FileNotFound(_) => HdfsError::NotFound { path: path() },
            Native::UnsupportedErasureCodingPolicy(_) | Native::UnsupportedFeature(_) => {
                HdfsError::Unsupported { path: path(), reason }
            }
            Native::RPCError(exception, text) => {
                let reason = remote(&exception, &text);
                match exception.rsplit('.').next().unwrap_or_default() {
                    "StandbyException" | "ObserverRetryOnActiveException" | "RetriableException" => {
                        return Verdict::Elsewhere(reason);
                    }
                    "FileNotFoundException" => HdfsError::NotFound { path: path() },
                    "AccessControlException" => HdfsError::Denied { path: path(), reason },
                    "AuthorizationException"
                    | "SecretManager$InvalidToken"
                    | "SaslException"
                    | "GSSException" => unauthenticated(reason),
                    _ => HdfsError::Refused { path: path(), reason },
                }
            }
            Native::FatalRPCError(exception, _) if is_about_who_asks(&exception) => unauthenticated(reason),
            Native::FatalRPCError(..) => return Verdict::Elsewhere(reason),
            _ => HdfsError::Refused { path: path(), reason },
        })
    }
}

/// A deadline passed without a word.
struct Silent;

/// A step of a longer call, under a deadline of its own.
pub(super) async fn within<T>(limit: Duration, step: impl Future<Output = T>) -> Result<T, Native> {
    let silent = |_| {
        let text = format!("silent for {:.1} s", limit.as_secs_f64());
        Native::IOError(io::Error::new(io::ErrorKind::TimedOut, text))
    };
    timeout(limit, step).await.map_err(silent)
}

fn is_about_who_asks(exception: &str) -> bool {
    ["AccessControlException", "AuthorizationException", "SaslException", "GSSException", "InvalidToken"]
        .iter()
        .any(|name| exception.ends_with(name))
}

fn pause(round: u32) -> Duration {
    LONGEST_PAUSE.min(FIRST_PAUSE * 2u32.saturating_pow(round - 1))
}
