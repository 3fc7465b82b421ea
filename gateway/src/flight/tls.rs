//! TLS from files.
//!
//! In: the paths of a certificate chain, its key and, where clients must show one too, the authorities that
//! theirs may come from; and the authorities that the certificates of a fleet's gateways come from. Out: what secures
//! connections for HTTP/2, those of clients and those to other gateways. The promise: what is wrong with a file
//! is said before the port opens.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use penstock_daemon::pem::{self, PemError};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, ClientConfig, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::config::TlsConfig;

/// HTTP/2, as clients ask for it in the handshake.
const HTTP2: &[u8] = b"h2";

/// TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error(transparent)]
    Pem(#[from] PemError),
    #[error("{} cannot be used", path.display())]
    Certificate { path: PathBuf, source: rustls::Error },
    #[error("client certificates cannot be verified by {}", path.display())]
    Verifier { path: PathBuf, source: VerifierBuilderError },
    #[error("TLS cannot be used")]
    Versions(#[source] rustls::Error),
}

pub(super) fn acceptor(config: &TlsConfig) -> Result<TlsAcceptor, TlsError> {
    let TlsConfig { certificate, key, client_ca } = config;
    let (chain, private) = (pem::certificates(certificate)?, pem::key(key)?);
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(TlsError::Versions)?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(pem::authorities(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            builder.with_client_cert_verifier(
                verifier.map_err(|source| TlsError::Verifier { path: path.clone(), source })?,
            )
        }
    };
    let server = builder.with_single_cert(chain, private);
    let mut server = server.map_err(|source| TlsError::Certificate { path: certificate.clone(), source })?;
    server.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(server)))
}

/// Secures connections to other gateways, whose certificates come from the authorities of `ca`. Those that want to
/// see a certificate are shown this gateway's own.
pub(super) fn connector(ca: &Path, own: &TlsConfig) -> Result<TlsConnector, TlsError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(TlsError::Versions)?;
    let builder = builder.with_root_certificates(pem::authorities(ca)?);
    let client = builder.with_client_auth_cert(pem::certificates(&own.certificate)?, pem::key(&own.key)?);
    let mut client =
        client.map_err(|source| TlsError::Certificate { path: own.certificate.clone(), source })?;
    client.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(TlsConnector::from(Arc::new(client)))
}
