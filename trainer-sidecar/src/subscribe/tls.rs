//! TLS towards gateways, from files.
//!
//! In: the paths of the authorities that gateways' certificates come from and, where gateways want to see
//! one, of a certificate and its key. Out: what secures a connection for HTTP/2. The promise: what is wrong
//! with a file is said before the sidecar listens.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use penstock_daemon::pem::{self, PemError};
use penstock_proto::{Code, Error};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, ClientConfig};

use crate::config::TlsConfig;

/// HTTP/2, as it is asked for in the handshake.
const HTTP2: &[u8] = b"h2";

/// TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error(transparent)]
    Pem(#[from] PemError),
    #[error("{} cannot be used", path.display())]
    Certificate { path: PathBuf, source: rustls::Error },
    #[error("TLS cannot be used")]
    Versions(#[source] rustls::Error),
}

/// Whom to trust. Without anybody, gateways are reached without TLS only.
#[derive(Clone, Default)]
pub(crate) struct Trust(Option<TlsConnector>);

impl Trust {
    /// # Errors
    /// A file that cannot be read or used.
    pub(crate) fn read(config: &TlsConfig) -> Result<Self, TlsError> {
        let roots = pem::authorities(&config.ca)?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(TlsError::Versions)?;
        let builder = builder.with_root_certificates(roots);
        let mut client = match &config.own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let (chain, private) = (pem::certificates(certificate)?, pem::key(key)?);
                let client = builder.with_client_auth_cert(chain, private);
                client.map_err(|source| TlsError::Certificate { path: certificate.clone(), source })?
            }
        };
        client.alpn_protocols = vec![HTTP2.to_vec()];
        Ok(Self(Some(TlsConnector::from(Arc::new(client)))))
    }

    /// Whether gateways can be reached by TLS.
    ///
    /// # Errors
    /// Nobody is trusted; the message says how to change that.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.connector().map(|_| ())
    }

    fn connector(&self) -> Result<&TlsConnector, Error> {
        self.0.as_ref().ok_or_else(|| {
            Error::new(
                Code::InvalidFeed,
                "a grpc+tls:// gateway needs somebody to vouch for it: start the sidecar with --tls-ca FILE",
            )
        })
    }

    /// Secures a connection to a host.
    pub(super) async fn secure(&self, stream: TcpStream, host: &str) -> io::Result<TlsStream<TcpStream>> {
        let connector = self.connector().map_err(io::Error::other)?;
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        connector.connect(name, stream).await
    }
}
