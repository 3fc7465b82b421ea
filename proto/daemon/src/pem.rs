//! Certificates and keys from PEM files.
//!
//! In: paths. Out: what TLS is made of, on either side of a connection. The promise: a file that cannot be
//! used is named, with what was wanted of it. It knows no connection.

use std::path::{Path, PathBuf};

use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, RootCertStore};

/// A PEM file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PemError {
    #[error("cannot read {}: give a PEM file with {wanted}", path.display())]
    Read { path: PathBuf, wanted: &'static str, source: pem::Error },
    #[error("{} holds no certificate: give a PEM file with one", path.display())]
    Empty { path: PathBuf },
    #[error("{} holds a certificate that vouches for nobody: give one of an authority", path.display())]
    Authority { path: PathBuf, source: rustls::Error },
}

/// The certificates of a file in their order, at least one.
///
/// # Errors
/// The file cannot be read, or holds none.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let unread = |source| PemError::Read { path: path.to_owned(), wanted: "certificates", source };
    let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(unread)?.collect();
    let read = read.map_err(unread)?;
    if read.is_empty() { Err(PemError::Empty { path: path.to_owned() }) } else { Ok(read) }
}

/// The first private key of a file.
///
/// # Errors
/// The file cannot be read, or holds none.
pub fn key(path: &Path) -> Result<PrivateKeyDer<'static>, PemError> {
    let read = PrivateKeyDer::from_pem_file(path);
    read.map_err(|source| PemError::Read { path: path.to_owned(), wanted: "a key", source })
}

/// Everybody whom the certificates of a file let vouch for others.
///
/// # Errors
/// The file cannot be read, or one of its certificates is none of an authority.
pub fn authorities(path: &Path) -> Result<RootCertStore, PemError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        let added = roots.add(certificate);
        added.map_err(|source| PemError::Authority { path: path.to_owned(), source })?;
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_what_was_wanted() {
        let missing = Path::new("no/such.pem");
        let said = key(missing).unwrap_err().to_string();
        assert_eq!(said, "cannot read no/such.pem: give a PEM file with a key");
        // A text that is no PEM holds no certificate.
        let said = certificates(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")))
            .unwrap_err()
            .to_string();
        assert!(said.contains("holds no certificate"), "{said}");
    }
}
