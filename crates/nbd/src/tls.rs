//! TLS, with certificates.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, and those up to one that clients know.
    pub certificate: PathBuf,
    /// The certificate's key.
    pub key: PathBuf,
    /// Who signs clients' certificates; without, clients need none.
    pub client_authority: Option<PathBuf>,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct TlsError {
    path: PathBuf,
    why: String,
}

/// Reads the files. TLS 1.2 and 1.3 are spoken; keys that are shared in advance (PSK) are not, as rustls has them for resumed sessions only.
///
/// # Errors
/// A file cannot be read, or holds something else.
pub fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let at = |path: &Path, why: String| TlsError { path: path.to_owned(), why };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| at(&files.certificate, e.to_string()))?;
    let builder = match &files.client_authority {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|e| at(path, e.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|e| at(path, e.to_string()))?)
        }
    };
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| at(&files.key, e.to_string()))?;
    let config = builder.with_single_cert(certificates(&files.certificate)?, key);
    let config = config.map_err(|e| at(&files.certificate, e.to_string()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let at = |why: String| TlsError { path: path.to_owned(), why };
    let all = CertificateDer::pem_file_iter(path).map_err(|e| at(e.to_string()))?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|e| at(e.to_string()))?;
    if all.is_empty() { Err(at("no certificate".to_owned())) } else { Ok(all) }
}
