//! What an operator says of HDFS, read as Hadoop reads it.
//!
//! In: a directory of `core-site.xml` and `hdfs-site.xml`, settings that win over it, and a URI's authority.
//! Out: which NameNodes there are, how a client of each is set up, and how patient to be. The promise:
//! what an operator says counts; what is left unsaid is set so that nothing waits for minutes. It opens no
//! connection.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::HdfsError;
use crate::config::HdfsConfig;

const DEFAULT_FS: &str = "fs.defaultFS";
const AUTHENTICATION: &str = "hadoop.security.authentication";
const SOCKET_TIMEOUT: &str = "dfs.client.socket-timeout";
const RPC_TIMEOUT: &str = "ipc.client.rpc-timeout.ms";
const MAX_FAILOVERS: &str = "dfs.client.failover.max.attempts";
const HEDGE_THRESHOLD: &str = "dfs.client.hedged.read.threshold.millis";
const USE_HOSTNAMES: &str = "dfs.client.use.datanode.hostname";
const TRANSFER_PROTECTION: &str = "dfs.data.transfer.protection";
const SHORT_CIRCUIT: &str = "dfs.client.read.shortcircuit";
const DOMAIN_SOCKET: &str = "dfs.domain.socket.path";
const ACQUIRE_FAILURES: &str = "dfs.client.max.block.acquire.failures";
/// Where NameNodes listen when a URI names no port.
const DEFAULT_PORT: u16 = 8020;
/// A value may name others, which name others: a circle ends here.
const MAX_SUBSTITUTIONS: usize = 20;

/// Settings by name, with the variables in their values resolved.
pub(super) struct Configuration(BTreeMap<String, String>);

/// The NameNodes behind an authority.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cluster {
    /// `hdfs://NAMESERVICE` or `hdfs://HOST:PORT`.
    pub(super) url: String,
    pub(super) nodes: Vec<Node>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// `HOST:PORT`.
    pub(super) address: String,
    /// What makes a client of the nameservice talk to this NameNode alone.
    pub(super) settings: Vec<(String, String)>,
}

/// How long to wait for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Patience {
    /// For one NameNode's answer.
    pub(super) answer: Duration,
    /// For any step of a DataNode's.
    pub(super) step: Duration,
    /// How many NameNodes are asked again after one has failed, as long as there is time.
    pub(super) failovers: u32,
    /// Until another replica is tried beside a slow one; `None` tries none.
    pub(super) hedge: Option<Duration>,
    /// How often a range is read again, from DataNodes as the NameNode then knows them.
    pub(super) rereads: u32,
}

impl Configuration {
    /// Reads the directory's files, those that are there, and lays the options over them.
    pub(super) fn read(config: &HdfsConfig) -> Result<Self, HdfsError> {
        let mut settings = BTreeMap::new();
        for file in ["core-site.xml", "hdfs-site.xml"] {
            let Some(path) = config.conf_dir.as_ref().map(|directory| directory.join(file)) else { continue };
            match std::fs::read_to_string(&path) {
                Ok(text) => settings.extend(properties(&path, &text)?),
                // A directory without one of them is common, no directory is a mistake.
                Err(e)
                    if e.kind() == std::io::ErrorKind::NotFound
                        && path.parent().is_some_and(Path::is_dir) => {}
                Err(source) => return Err(HdfsError::Configuration { path, source }),
            }
        }
        settings.extend(config.options.iter().cloned());
        Ok(Self::resolved(&settings))
    }

    fn resolved(settings: &BTreeMap<String, String>) -> Self {
        let resolve = |value: &String| substitute(value, |name| settings.get(name).cloned());
        Self(settings.iter().map(|(name, value)| (name.clone(), resolve(value))).collect())
    }

    /// The cluster of an authority, `HOST:PORT`, `HOST` or a nameservice; empty means the default one.
    pub(super) fn cluster(&self, authority: &str) -> Result<Cluster, HdfsError> {
        let authority = if authority.is_empty() { self.default_authority()? } else { authority };
        if authority.contains(':') {
            return Ok(Cluster::single(authority.to_owned()));
        }
        let Some(ids) = self.get(&format!("dfs.ha.namenodes.{authority}")) else {
            let address = self.get(&format!("dfs.namenode.rpc-address.{authority}"));
            let address = address.map_or_else(|| format!("{authority}:{DEFAULT_PORT}"), str::to_owned);
            return Ok(Cluster::single(address));
        };
        let nodes: Vec<Node> = ids.split(',').filter_map(|id| self.node(authority, id.trim())).collect();
        if nodes.is_empty() {
            return Err(HdfsError::NoCluster {
                uri: format!("hdfs://{authority}"),
                reason: format!(
                    "the configuration has no dfs.namenode.rpc-address.{authority}.ID for any of {ids}"
                ),
            });
        }
        Ok(Cluster { url: format!("hdfs://{authority}"), nodes })
    }

    fn default_authority(&self) -> Result<&str, HdfsError> {
        let missing =
            |reason: &str| HdfsError::NoCluster { uri: "hdfs:///".to_owned(), reason: reason.to_owned() };
        let url = self.get(DEFAULT_FS).ok_or_else(|| {
            missing("write hdfs://HOST:PORT/path, or name a Hadoop configuration that has fs.defaultFS")
        })?;
        let authority = url.strip_prefix("hdfs://").map(|rest| rest.split('/').next().unwrap_or(rest));
        let authority = authority.filter(|authority| !authority.is_empty());
        authority.ok_or_else(|| missing(&format!("fs.defaultFS is {url}, which is no HDFS")))
    }

    fn node(&self, nameservice: &str, id: &str) -> Option<Node> {
        let address = self.get(&format!("dfs.namenode.rpc-address.{nameservice}.{id}"))?.to_owned();
        let settings = vec![
            (format!("dfs.ha.namenodes.{nameservice}"), id.to_owned()),
            // Who chooses among NameNodes here is we.
            (
                format!("dfs.client.failover.proxy.provider.{nameservice}"),
                "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider".to_owned(),
            ),
        ];
        Some(Node { address, settings })
    }

    /// Everything a client is set up with.
    pub(super) fn of_client(&self, node: &Node) -> BTreeMap<String, String> {
        let mut settings = self.0.clone();
        settings.entry(SOCKET_TIMEOUT.to_owned()).or_insert_with(|| "10000".to_owned());
        settings.extend(node.settings.iter().cloned());
        settings.insert(MAX_FAILOVERS.to_owned(), "0".to_owned());
        settings
    }

    pub(super) fn patience(&self) -> Patience {
        let milliseconds = |name, default| Duration::from_millis(self.number(name).unwrap_or(default));
        let answer = self.number(RPC_TIMEOUT).filter(|&ms| ms > 0).unwrap_or(10_000);
        let step = self.number(SOCKET_TIMEOUT).filter(|&ms| ms > 0).unwrap_or(10_000);
        let hedge = milliseconds(HEDGE_THRESHOLD, 2_000);
        Patience {
            answer: Duration::from_millis(answer),
            step: Duration::from_millis(step),
            failovers: self.number(MAX_FAILOVERS).map_or(u32::MAX, |count| count as u32),
            hedge: (!hedge.is_zero()).then_some(hedge),
            rereads: self.number(ACQUIRE_FAILURES).map_or(3, |count| count as u32),
        }
    }

    /// Whether who asks must prove it.
    pub(super) fn is_secure(&self) -> bool {
        self.get(AUTHENTICATION).is_some_and(|kind| kind != "simple")
    }

    /// Whether everybody believes who asks, and DataNodes send their bytes as they are unless they say otherwise.
    pub(super) fn is_plain(&self) -> bool {
        !self.is_secure() && self.get(TRANSFER_PROTECTION).is_none_or(str::is_empty)
    }

    /// Whether DataNodes are reached by their names rather than by the IP addresses that they gave.
    pub(super) fn uses_hostnames(&self) -> bool {
        self.is_true(USE_HOSTNAMES)
    }

    /// Where DataNodes on this machine lend the files of their blocks, if that is wanted.
    pub(super) fn short_circuit(&self) -> Option<&str> {
        self.get(DOMAIN_SOCKET).filter(|path| !path.is_empty() && self.is_true(SHORT_CIRCUIT))
    }

    fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|said| said.eq_ignore_ascii_case("true"))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.trim().parse().ok()
    }
}

impl Cluster {
    /// Gives a single NameNode another address; a nameservice is known by its name.
    pub(super) fn readdress(&mut self, change: impl FnOnce(&str) -> String) {
        if let [only] = self.nodes.as_slice()
            && only.settings.is_empty()
        {
            *self = Self::single(change(&only.address));
        }
    }

    fn single(address: String) -> Self {
        Self { url: format!("hdfs://{address}"), nodes: vec![Node { address, settings: Vec::new() }] }
    }
}

fn properties(path: &Path, text: &str) -> Result<Vec<(String, String)>, HdfsError> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(text, options)
        .map_err(|source| HdfsError::Xml { path: path.to_owned(), source })?;
    let is_property = |node: &roxmltree::Node<'_, '_>| node.has_tag_name("property");
    let pairs = document.root_element().children().filter(is_property).filter_map(|property| {
        let child = |name| property.children().find(|node| node.has_tag_name(name));
        let name = child("name")?.text()?.trim();
        Some((name.to_owned(), child("value")?.text().unwrap_or_default().trim().to_owned()))
    });
    Ok(pairs.collect())
}

/// Replaces `${name}` by what it stands for; what stands for nothing stays as it is.
fn substitute(value: &str, get: impl Fn(&str) -> Option<String>) -> String {
    let mut value = value.to_owned();
    let mut from = 0;
    for _ in 0..MAX_SUBSTITUTIONS {
        let Some(start) = value[from..].find("${").map(|at| from + at) else { break };
        let Some(end) = value[start..].find('}').map(|at| start + at) else { break };
        match get(&value[start + 2..end]) {
            Some(found) => value.replace_range(start..=end, &found),
            None => from = end,
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(settings: &[(&str, &str)]) -> Configuration {
        let options = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Configuration::read(&HdfsConfig { options, ..HdfsConfig::default() }).unwrap()
    }

    fn addresses(configuration: &Configuration, authority: &str) -> Vec<String> {
        let cluster = configuration.cluster(authority).unwrap();
        cluster.nodes.into_iter().map(|node| node.address).collect()
    }

    const PAIR: &[(&str, &str)] = &[
        ("fs.defaultFS", "hdfs://ns/"),
        ("dfs.ha.namenodes.ns", "a, b"),
        ("domain", "example.com"),
        ("dfs.namenode.rpc-address.ns.a", "one.${domain}:8020"),
        ("dfs.namenode.rpc-address.ns.b", "two.${domain}:8020"),
        ("dfs.namenode.rpc-address.alone", "three:9000"),
    ];

    #[test]
    fn an_authority_is_a_nameservice_or_a_host() {
        let pair = configuration(PAIR);
        let both = ["one.example.com:8020", "two.example.com:8020"];
        assert_eq!(addresses(&pair, "ns"), both);
        assert_eq!(addresses(&pair, ""), both);
        assert_eq!(pair.cluster("").unwrap().url, "hdfs://ns");
        assert_eq!(addresses(&pair, "alone"), ["three:9000"]);
        assert_eq!(addresses(&pair, "host"), ["host:8020"]);
        assert_eq!(addresses(&pair, "host:9000"), ["host:9000"]);
    }

    #[test]
    fn a_client_knows_one_namenode_and_what_the_operator_said() {
        let pair = configuration(PAIR);
        let cluster = pair.cluster("ns").unwrap();
        let second = pair.of_client(&cluster.nodes[1]);
        assert_eq!(second["dfs.ha.namenodes.ns"], "b");
        assert_eq!(second[SOCKET_TIMEOUT], "10000");
        let said = configuration(&[(SOCKET_TIMEOUT, "1234"), (RPC_TIMEOUT, "0"), (HEDGE_THRESHOLD, "0")]);
        assert_eq!(said.of_client(&cluster.nodes[0])[SOCKET_TIMEOUT], "1234");
        let patience = said.patience();
        assert_eq!((patience.answer, patience.hedge), (Duration::from_secs(10), None));
    }

    #[test]
    fn what_names_no_cluster_says_what_to_write() {
        let refusal =
            |settings, authority| configuration(settings).cluster(authority).unwrap_err().to_string();
        assert!(refusal(&[], "").contains("hdfs://HOST:PORT/path"));
        assert!(refusal(&[("fs.defaultFS", "s3a://bucket")], "").contains("s3a://bucket"));
        assert!(refusal(&[("dfs.ha.namenodes.ns", "a")], "ns").contains("dfs.namenode.rpc-address.ns.ID"));
    }

    #[test]
    fn a_directory_is_read_and_options_win() {
        let directory = tempfile::tempdir().unwrap();
        let property = |name: &str, value: &str| {
            format!(
                "<configuration><property><name>{name}</name><value> {value}\n</value></property></configuration>"
            )
        };
        std::fs::write(directory.path().join("core-site.xml"), property("fs.defaultFS", "hdfs://x:1"))
            .unwrap();
        let mut config = HdfsConfig { conf_dir: Some(directory.path().to_owned()), ..HdfsConfig::default() };
        assert_eq!(Configuration::read(&config).unwrap().cluster("").unwrap().url, "hdfs://x:1");
        config.options = vec![("fs.defaultFS".to_owned(), "hdfs://y:2".to_owned())];
        assert_eq!(Configuration::read(&config).unwrap().cluster("").unwrap().url, "hdfs://y:2");

        std::fs::write(directory.path().join("hdfs-site.xml"), "<configuration>").unwrap();
        assert!(matches!(Configuration::read(&config), Err(HdfsError::Xml { .. })));
        config.conf_dir = Some(directory.path().join("absent"));
        assert!(matches!(Configuration::read(&config), Err(HdfsError::Configuration { .. })));
    }

    #[test]
    fn a_circle_of_values_ends() {
        let circle = configuration(&[("a", "${b}x"), ("b", "${a}"), ("c", "${unknown} ${d}"), ("d", "e")]);
        assert!(circle.0["a"].ends_with('x'));
        assert_eq!(circle.0["c"], "${unknown} e");
    }
}
