//! TLS towards gateways, from files.
//!
//! In: the paths of the authorities that gateways' certificates come from and, where gateways want to see one, of a
//! certificate and its key. Out: what secures connections for HTTP/2, and dials them. The promise: what is wrong
//! with a file is said before anybody is dialled.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, ClientConfig};
use tower_service::Service;

use crate::pem::{self, PemError};

/// HTTP/2, as it is asked for in the handshake.
pub const HTTP2: &[u8] = b"h2";

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

/// Secures connections to those whose certificates come from the authorities of `ca`; `own` are a certificate and
/// its key, for those that want to see one.
///
/// # Errors
/// A file that cannot be read or used.
pub fn connector(ca: &Path, own: Option<(&Path, &Path)>) -> Result<TlsConnector, TlsError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(TlsError::Versions)?;
    let builder = builder.with_root_certificates(pem::authorities(ca)?);
    let mut client = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let client = builder.with_client_auth_cert(pem::certificates(certificate)?, pem::key(key)?);
            client.map_err(|source| TlsError::Certificate { path: certificate.to_owned(), source })?
        }
    };
    client.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(TlsConnector::from(Arc::new(client)))
}

/// Dials `HOST:PORT` by TLS.
///
/// # Errors
/// Nobody listens, or who answers is not to be trusted.
pub async fn dial(connector: &TlsConnector, host_and_port: &str) -> io::Result<TlsStream<TcpStream>> {
    let host = host_and_port.rsplit_once(':').map_or(host_and_port, |(host, _)| host);
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(io::Error::other)?;
    let stream = TcpStream::connect(host_and_port).await?;
    stream.set_nodelay(true)?;
    connector.connect(name, stream).await
}

/// Dials by TLS for tonic, which has its own way without.
#[derive(Clone)]
pub struct Dialer {
    pub connector: TlsConnector,
    pub host_and_port: String,
}

impl Service<Uri> for Dialer {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { connector, host_and_port } = self.clone();
        Box::pin(async move { dial(&connector, &host_and_port).await.map(TokioIo::new) })
    }
}
