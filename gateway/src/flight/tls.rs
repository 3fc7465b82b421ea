//! TLS from files.
//!
//! In: the paths of a certificate chain, its key and, where clients must show one too, the authorities that
//! theirs may come from. Out: what secures a connection for HTTP/2. The promise: what is wrong with a file
//! is said before the port opens.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};

use crate::config::TlsConfig;

/// HTTP/2, as clients ask for it in the handshake.
const HTTP2: &[u8] = b"h2";

/// TLS cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {}: give a PEM file with {wanted}", path.display())]
    File { path: PathBuf, wanted: &'static str, source: pem::Error },
    #[error("{} holds no certificate: give a PEM file with one", path.display())]
    Empty { path: PathBuf },
    #[error("{} cannot be used", path.display())]
    Certificate { path: PathBuf, source: rustls::Error },
    #[error("client certificates cannot be verified by {}", path.display())]
    Verifier { path: PathBuf, source: VerifierBuilderError },
    #[error("TLS cannot be offered")]
    Versions(#[source] rustls::Error),
}

pub(super) fn acceptor(config: &TlsConfig) -> Result<TlsAcceptor, TlsError> {
    let TlsConfig { certificate, key, client_ca } = config;
    let chain = certificates(certificate)?;
    let private = PrivateKeyDer::from_pem_file(key);
    let private = private.map_err(|source| TlsError::File { path: key.clone(), wanted: "a key", source })?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(TlsError::Versions)?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                let added = roots.add(certificate);
                added.map_err(|source| TlsError::Certificate { path: path.clone(), source })?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
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

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unread = |source| TlsError::File { path: path.to_owned(), wanted: "certificates", source };
    let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(unread)?.collect();
    let read = read.map_err(unread)?;
    if read.is_empty() { Err(TlsError::Empty { path: path.to_owned() }) } else { Ok(read) }
}
