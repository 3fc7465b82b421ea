//! What an operator tells a gateway.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use penstock_proto::TicketKey;
use serde::Deserialize;

/// Bytes that all streams of a gateway may hold when nothing is said.
pub const DEFAULT_MEMORY_BYTES: u64 = 3 << 29;
/// Bytes of one message when nothing is said: stock clients refuse more than 4 MiB.
pub const DEFAULT_PART_BYTES: u64 = 2 << 20;

/// A gateway's resolved configuration.
#[derive(Clone)]
pub struct Config {
    /// `HOST:PORT` to listen at, where port 0 takes a free one; or `unix:PATH`.
    pub listen: String,
    /// A Unix socket beside the port, for clients on the same machine.
    pub unix_socket: Option<PathBuf>,
    /// The port is secured by this; a Unix socket is guarded by its directory.
    pub tls: Option<TlsConfig>,
    /// `HOST:PORT` under which clients reach it, where that is not what it listens at.
    pub advertise: Option<String>,
    /// Names and the URIs they stand for.
    pub datasets: Vec<(String, String)>,
    /// How datasets on HDFS are reached.
    pub hdfs: HdfsConfig,
    /// How datasets in object stores are reached.
    pub cloud: CloudConfig,
    /// The gateways that serve the same datasets under the same key; itself may be among them: `HOST:PORT`,
    /// `dns:NAME:PORT` for every address of a name, `file:PATH` for a file of one `HOST:PORT` a line.
    pub fleet: Vec<String>,
    /// With TLS: authorities that the certificates of the fleet's gateways come from. Without, nothing is pulled
    /// from them.
    pub fleet_ca: Option<PathBuf>,
    /// Between looks at names and files of the fleet.
    pub fleet_interval: Duration,
    /// How long another gateway may send nothing of its lanes before they are decoded here.
    pub fleet_patience: Duration,
    /// Until lanes of a gateway that failed are asked for again; twice as long each time, up to a minute.
    pub fleet_pause: Duration,
    pub ticket_key: TicketKey,
    /// How long a ticket is good for.
    pub ticket_life: Duration,
    /// Bytes that all streams together may hold, and what was decoded for them.
    pub memory_bytes: u64,
    /// Of these, at most so many keep decoded blocks as long as no stream wants them; half if nothing is said.
    pub cache_bytes: Option<u64>,
    /// Where decoded blocks are kept that memory does not keep; nowhere if nothing is said.
    pub cache_disk: Option<DiskConfig>,
    /// Bytes of one message, unless a single row is larger.
    pub part_bytes: u64,
    /// A directory where what filters pass is kept, as a path or a `file://` URI.
    pub state: Option<String>,
    /// How long a stream waits for its share of the memory before it is refused.
    pub patience: Duration,
    /// How long the machine of a reader may answer nothing before its streams are closed.
    pub reader_timeout: Duration,
    /// Hears how far the first look at a dataset is, `reading NAME: 1200 of 10000 files`, at most once a second.
    pub tell: fn(&str),
}

impl Config {
    /// A gateway with a key of its own and defaults for all that is not said.
    pub fn new(listen: impl Into<String>) -> Self {
        Self {
            listen: listen.into(),
            unix_socket: None,
            tls: None,
            advertise: None,
            datasets: Vec::new(),
            hdfs: HdfsConfig::from_environment(),
            cloud: CloudConfig::from_environment(),
            fleet: Vec::new(),
            fleet_ca: None,
            fleet_interval: Duration::from_secs(5),
            fleet_patience: Duration::from_secs(30),
            fleet_pause: Duration::from_secs(1),
            ticket_key: TicketKey::generate(),
            ticket_life: Duration::from_hours(24),
            memory_bytes: DEFAULT_MEMORY_BYTES,
            cache_bytes: None,
            cache_disk: None,
            part_bytes: DEFAULT_PART_BYTES,
            state: None,
            patience: Duration::from_secs(30),
            reader_timeout: Duration::from_secs(120),
            tell: |_| {},
        }
    }

    /// What the decoded cache may take.
    pub(crate) fn cache_bytes(&self) -> u64 {
        self.cache_bytes.unwrap_or(self.memory_bytes / 2).min(self.memory_bytes)
    }
}

/// A local disk for decoded blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskConfig {
    /// The directory, which is made if there is none. Nothing is seen in it.
    pub directory: PathBuf,
    /// Bytes of it, at most.
    pub bytes: u64,
}

/// What TLS is made of: PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// The gateway's certificate, and those between it and its authority.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Authorities that clients' certificates must come from; without them clients need none.
    pub client_ca: Option<PathBuf>,
}

/// How HDFS is reached. Without Kerberos names here the ticket cache of this process counts, as `kinit` fills
/// it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HdfsConfig {
    /// The directory of `core-site.xml` and `hdfs-site.xml`.
    pub conf_dir: Option<PathBuf>,
    /// Settings by Hadoop's names; they win over the directory's.
    pub options: Vec<(String, String)>,
    /// On whose behalf HDFS is asked, where that is not whom the credentials name.
    pub user: Option<String>,
    /// `NAME@REALM` or `NAME/HOST@REALM`, needed with a keytab.
    pub principal: Option<String>,
    pub keytab: Option<PathBuf>,
    /// The file of delegation tokens, as the environment names it: the client reads no other.
    pub tokens: Option<PathBuf>,
}

impl HdfsConfig {
    /// What `HADOOP_CONF_DIR` (or else `HADOOP_HOME`), `HADOOP_PROXY_USER` and `HADOOP_TOKEN_FILE_LOCATION`
    /// say.
    pub fn from_environment() -> Self {
        let below_home =
            || std::env::var_os("HADOOP_HOME").map(|home| PathBuf::from(home).join("etc/hadoop"));
        Self {
            conf_dir: std::env::var_os("HADOOP_CONF_DIR").map(PathBuf::from).or_else(below_home),
            user: std::env::var("HADOOP_PROXY_USER").ok(),
            tokens: std::env::var_os("HADOOP_TOKEN_FILE_LOCATION").map(PathBuf::from),
            ..Self::default()
        }
    }

    /// Who asks where HDFS believes whoever does, found as Hadoop's own clients do: `HADOOP_USER_NAME`, or who
    /// runs this process.
    #[cfg(feature = "hdfs")]
    pub(crate) fn believed_user(&self) -> String {
        let named = self.user.clone().or_else(|| std::env::var("HADOOP_USER_NAME").ok());
        named.or_else(|| whoami::username().ok()).unwrap_or_else(|| "unknown".to_owned())
    }
}

/// How object stores are reached.
#[derive(Clone, Default)]
pub struct CloudConfig {
    /// Settings by object_store's names, e.g. `aws_region`; of two of one name the later counts.
    pub options: Vec<(String, String)>,
    /// The variables that the stores' own tools read.
    pub environment: BTreeMap<String, String>,
}

impl CloudConfig {
    /// What `AWS_…`, `GOOGLE_…` and `AZURE_…` variables say, and where their files are.
    pub fn from_environment() -> Self {
        let is_of_a_store = |name: &str| {
            ["AWS_", "GOOGLE_", "AZURE_"].iter().any(|prefix| name.starts_with(prefix))
                || ["HOME", "IDENTITY_ENDPOINT", "STORAGE_EMULATOR_HOST"].contains(&name)
        };
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, value)| is_of_a_store(name) && !value.is_empty())
            .collect();
        Self { options: Vec::new(), environment }
    }
}

/// Names alone, for the values are secrets.
impl fmt::Debug for CloudConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = self.options.iter().map(|(name, _)| name);
        f.debug_set().entries(options.chain(self.environment.keys())).finish()
    }
}

/// What a `--config` file may say; what the command line says as well wins. All names are those of the
/// command line's options.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConfigFile {
    pub listen: Option<String>,
    pub unix_socket: Option<PathBuf>,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub tls_client_ca: Option<PathBuf>,
    pub advertise: Option<String>,
    /// Name to URI.
    pub datasets: BTreeMap<String, String>,
    pub fleet: Vec<String>,
    pub fleet_ca: Option<PathBuf>,
    pub ticket_key_file: Option<PathBuf>,
    /// A number of bytes, or a text such as `512MiB`.
    pub memory: Option<String>,
    /// The same.
    pub cache: Option<String>,
    pub cache_dir: Option<PathBuf>,
    /// The same.
    pub cache_disk: Option<String>,
    pub state: Option<String>,
    /// A time such as `2m`.
    pub reader_timeout: Option<String>,
    pub admin: Option<String>,
    pub hadoop_conf: Option<PathBuf>,
    /// Settings by Hadoop's names.
    pub hdfs_options: BTreeMap<String, String>,
    pub hdfs_user: Option<String>,
    pub kerberos_principal: Option<String>,
    pub kerberos_keytab: Option<PathBuf>,
    /// Settings of object stores by object_store's names.
    pub store_options: BTreeMap<String, String>,
}
