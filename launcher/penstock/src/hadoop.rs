//! How HDFS is reached, for every command that reads datasets.
//!
//! In: options. Out: their configuration over what the environment says. It knows no cluster.

use std::path::PathBuf;

use anyhow::Context as _;
use penstock_gateway::config::{ConfigFile, HdfsConfig};

/// Options of whoever reads `hdfs://` URIs.
#[derive(clap::Args, Default)]
#[command(next_help_heading = "HDFS")]
pub(crate) struct HdfsOptions {
    /// The directory of core-site.xml and hdfs-site.xml [default: $HADOOP_CONF_DIR, or
    /// $HADOOP_HOME/etc/hadoop].
    #[arg(long, value_name = "DIR")]
    hadoop_conf: Option<PathBuf>,

    /// A setting by Hadoop's own name; wins over the directory's. May be given again.
    #[arg(long, value_name = "NAME=VALUE")]
    hdfs_option: Vec<String>,

    /// Read on behalf of this user, as a proxy [default: $HADOOP_PROXY_USER, or whom the credentials
    /// name].
    #[arg(long, value_name = "USER")]
    hdfs_user: Option<String>,

    /// Log in as this principal with --kerberos-keytab [default: the ticket cache, as kinit fills it].
    #[arg(long, value_name = "NAME@REALM", requires = "kerberos_keytab")]
    kerberos_principal: Option<String>,

    /// The principal's keytab.
    #[arg(long, value_name = "FILE", requires = "kerberos_principal")]
    kerberos_keytab: Option<PathBuf>,
}

impl HdfsOptions {
    /// Flags over file over environment.
    pub(crate) fn resolve(self, file: &ConfigFile) -> anyhow::Result<HdfsConfig> {
        let mut config = HdfsConfig::from_environment();
        config.conf_dir = self.hadoop_conf.or_else(|| file.hadoop_conf.clone()).or(config.conf_dir);
        config.user = self.hdfs_user.or_else(|| file.hdfs_user.clone()).or(config.user);
        config.principal = self.kerberos_principal.or_else(|| file.kerberos_principal.clone());
        config.keytab = self.kerberos_keytab.or_else(|| file.kerberos_keytab.clone());
        // Of two settings of one name the later counts.
        config.options = file.hdfs_options.clone().into_iter().collect();
        for text in &self.hdfs_option {
            let (name, value) =
                text.split_once('=').filter(|(name, _)| !name.is_empty()).with_context(|| {
                    format!("{text:?} is no setting: write NAME=VALUE, e.g. dfs.client.socket-timeout=30000")
                })?;
            config.options.push((name.to_owned(), value.to_owned()));
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_keep_their_order_and_their_equals_signs() {
        let options =
            HdfsOptions { hdfs_option: vec!["a=1".to_owned(), "b=x=y".to_owned()], ..HdfsOptions::default() };
        let expected = [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "x=y".to_owned())];
        assert_eq!(options.resolve(&ConfigFile::default()).unwrap().options, expected);
        let nameless = HdfsOptions { hdfs_option: vec!["=1".to_owned()], ..HdfsOptions::default() };
        assert!(
            nameless.resolve(&ConfigFile::default()).unwrap_err().to_string().contains("write NAME=VALUE")
        );
    }
}
