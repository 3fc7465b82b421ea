//! TLS from files.
//!
//! In: the paths of a certificate chain, its key and, where clients must show one too, the authorities that
//! theirs may come from. Out: what secures a connection for HTTP/2. The promise: what is wrong with a file
//! is said before the port opens.

use std::path::PathBuf;
use std::sync::Arc;

use penstock_daemon::pem::{self, PemError};
use penstock_daemon::tls::{self, HTTP2};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, ServerConfig};

use crate::config::TlsConfig;

/// TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error(transparent)]
    Pem(#[from] PemError),
    /// Towards other gateways of the fleet.
    #[error(transparent)]
    Client(tls::TlsError),
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
