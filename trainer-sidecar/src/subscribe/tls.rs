//! Whom a sidecar trusts at the other end of TLS.
//!
//! In: what the configuration says. Out: what dials by TLS, or why nobody can be. The promise: what is wrong with a
//! file is said before the sidecar listens.

use penstock_daemon::tls;
use penstock_proto::{Code, Error};
use tokio_rustls::TlsConnector;

use crate::config::TlsConfig;

/// Whom to trust. Without anybody, gateways are reached without TLS only.
#[derive(Clone, Default)]
pub(crate) struct Trust(Option<TlsConnector>);

impl Trust {
    /// # Errors
    /// A file that cannot be read or used.
    pub(crate) fn read(config: &TlsConfig) -> Result<Self, tls::TlsError> {
        let own = config.own.as_ref().map(|(certificate, key)| (certificate.as_path(), key.as_path()));
        tls::connector(&config.ca, own).map(|connector| Self(Some(connector)))
    }

    /// Whether gateways can be reached by TLS.
    ///
    /// # Errors
    /// Nobody is trusted; the message says how to change that.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.connector().map(|_| ())
    }

    /// What dials by TLS.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(super) fn connector(&self) -> Result<&TlsConnector, Error> {
        self.0.as_ref().ok_or_else(|| {
            Error::new(
                Code::InvalidFeed,
                "a grpc+tls:// gateway needs somebody to vouch for it: start the sidecar with --tls-ca FILE",
            )
        })
    }
}
