//! Flags of TLS: a certificate and its key, both or neither.

use std::path::PathBuf;

use anyhow::bail;
use penstock_gateway::config::{ConfigFile, TlsConfig};

/// How the port is secured.
#[derive(clap::Args, Default)]
pub(crate) struct TlsOptions {
    /// Secure the port with this certificate and those between it and its authority (PEM).
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,

    /// The certificate's key (PEM).
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,

    /// Serve only clients whose certificates come from these authorities (PEM).
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
}

impl TlsOptions {
    /// Flags over file.
    pub(crate) fn resolve(self, file: &ConfigFile) -> anyhow::Result<Option<TlsConfig>> {
        let certificate = self.tls_cert.or_else(|| file.tls_cert.clone());
        let key = self.tls_key.or_else(|| file.tls_key.clone());
        let client_ca = self.tls_client_ca.or_else(|| file.tls_client_ca.clone());
        match (certificate, key) {
            (Some(certificate), Some(key)) => Ok(Some(TlsConfig { certificate, key, client_ca })),
            (None, None) if client_ca.is_none() => Ok(None),
            _ => bail!("TLS needs both a certificate and its key: give --tls-cert and --tls-key"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_without_its_key_is_refused() {
        let flags = || TlsOptions { tls_cert: Some("gateway.pem".into()), ..TlsOptions::default() };
        let refused = flags().resolve(&ConfigFile::default()).unwrap_err().to_string();
        assert!(refused.contains("--tls-key"), "{refused}");
        let file = ConfigFile { tls_key: Some("gateway.key".into()), ..ConfigFile::default() };
        assert_eq!(flags().resolve(&file).unwrap().unwrap().key, PathBuf::from("gateway.key"));
        assert!(TlsOptions::default().resolve(&ConfigFile::default()).unwrap().is_none());
    }
}
