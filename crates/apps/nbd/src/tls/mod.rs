//! TLS, with certificates, with keys that are shared in advance, or with both.
//!
//! s2n-tls speaks it, over AWS-LC. Certificates: TLS 1.2 and 1.3, of RSA and ECDSA keys; s2n-tls does not
//! know Ed25519. Shared keys: TLS 1.3 alone, since s2n-tls knows them from there on; GnuTLS, with which
//! libnbd and qemu are built, speaks it.

mod keys;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use s2n_tls::callbacks::VerifyHostNameCallback;
use s2n_tls::config::{self, Config};
use s2n_tls::connection::{Builder, Connection};
use s2n_tls::enums::{ClientAuthType, Mode};
use s2n_tls::error::Error;
use s2n_tls::security::Policy;
use s2n_tls_tokio::{TlsAcceptor, TlsStream};
use tokio::io::{AsyncRead, AsyncWrite};
use zeroize::Zeroizing;

use keys::Keys;
use sha2::{Digest as _, Sha256};

use crate::access::Identity;

/// TLS 1.2 and 1.3, ciphers that encrypt and authenticate in one and are forward secret, no SHA-1.
const POLICY: &str = "CloudFront-TLS-1-2-2021-no-sha1";

/// Bytes that s2n-tls gathers before it writes to the socket: some records at once instead of one.
const SEND_BYTES: u32 = 128 << 10;

/// What TLS stands on: certificates, shared keys or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// For clients that know who signs certificates.
    pub certificates: Option<CertificateFiles>,
    /// Keys of clients, as GnuTLS's `psktool` writes them: lines of `USER:KEY`, KEY in hexadecimal. Nobody
    /// but its owner may read the file. Such clients need no certificate.
    pub shared_keys: Option<PathBuf>,
}

/// Files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The server's certificate, and those up to one that clients know.
    pub certificate: PathBuf,
    /// The certificate's key.
    pub key: PathBuf,
    /// Who signs clients' certificates; without, clients need none.
    pub client_authority: Option<PathBuf>,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds something else.
    #[error("{}: {why}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Shared keys beside certificates that ask clients for nothing: who has no key would come in without
    /// one.
    #[error("clients without a shared key would need nothing at all: say who signs their certificates")]
    Anybody,
    /// Neither certificates nor shared keys are named.
    #[error("neither a certificate nor shared keys are named")]
    Nothing,
    /// The library refused.
    #[error("{0}")]
    Library(&'static str),
}

impl TlsError {
    fn at(path: &Path, why: impl ToString) -> Self {
        Self::File { path: path.to_owned(), why: why.to_string() }
    }
}

impl From<Error> for TlsError {
    fn from(e: Error) -> Self {
        Self::Library(e.message())
    }
}

/// Begins TLS with clients.
pub struct Acceptor(TlsAcceptor<Opening>);

impl Acceptor {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read, or holds something else; what is named does not go together.
    pub fn new(files: &TlsFiles) -> Result<Self, TlsError> {
        match (&files.certificates, &files.shared_keys) {
            (None, None) => return Err(TlsError::Nothing),
            (Some(CertificateFiles { client_authority: None, .. }), Some(_)) => {
                return Err(TlsError::Anybody);
            }
            _ => {}
        }
        let mut config = config::Builder::new();
        // Whoever this machine trusts for the web's servers says nothing about who may use our devices.
        config.with_system_certs(false)?.set_security_policy(&Policy::from_version(POLICY)?)?;
        // A pause before a failure is told hides how long the look at a record took, which says nothing with
        // the ciphers of this policy.
        config.set_max_blinding_delay(0)?.set_send_buffer_size(SEND_BYTES)?;
        if let Some(files) = &files.certificates {
            add_certificates(&mut config, files)?;
        }
        let keys = match &files.shared_keys {
            Some(path) => Keys::load(path).map_err(|e| TlsError::at(path, e))?,
            None => Keys::default(),
        };
        Ok(Self(TlsAcceptor::new(Opening { config: config.build()?, keys })))
    }

    /// Begins TLS; who the client has proved to be, if it needed to.
    pub(crate) async fn accept<S>(&self, stream: S) -> io::Result<(TlsStream<S>, Option<Identity>)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let stream = self.0.accept(stream).await?;
        let identity = identity_of(stream.as_ref())?;
        Ok((stream, identity))
    }
}

/// What the client has proved: that it has a shared key, or else a certificate's.
fn identity_of(connection: &Connection) -> Result<Option<Identity>, Error> {
    let mut user = vec![0; connection.negotiated_psk_identity_length()?];
    if !user.is_empty() {
        connection.negotiated_psk_identity(&mut user)?;
        return Ok(Some(Identity::SharedKey(user)));
    }
    if !connection.client_cert_used() {
        return Ok(None);
    }
    let chain = connection.peer_cert_chain()?;
    let Some(certificate) = chain.iter().next().transpose()? else { return Ok(None) };
    Ok(Some(Identity::Certificate(Sha256::digest(certificate.der()?).into())))
}

fn add_certificates(config: &mut config::Builder, files: &CertificateFiles) -> Result<(), TlsError> {
    let read = |path: &Path| fs::read(path).map_err(|e| TlsError::at(path, e));
    let certificate = read(&files.certificate)?;
    let key = Zeroizing::new(read(&files.key)?);
    // Which of the two it does not like s2n-tls does not say.
    config.load_pem(&certificate, &key).map_err(|e| {
        let path = format!("{} with {}", files.certificate.display(), files.key.display());
        TlsError::at(path.as_ref(), format_args!("{} (keys are of RSA or ECDSA)", e.message()))
    })?;
    if let Some(path) = &files.client_authority {
        config.trust_pem(&read(path)?).map_err(|e| TlsError::at(path, e.message()))?;
        config.set_client_auth_type(ClientAuthType::Required)?.set_verify_host_callback(AnyName)?;
    }
    Ok(())
}

/// Clients have no names that a certificate could be compared with: who has one that is signed may come.
struct AnyName;

impl VerifyHostNameCallback for AnyName {
    fn verify_host_name(&self, _name: &str) -> bool {
        true
    }
}

/// Makes the library's connections.
#[derive(Clone)]
struct Opening {
    config: Config,
    keys: Keys,
}

impl Builder for Opening {
    type Output = Connection;

    fn build_connection(&self, mode: Mode) -> Result<Connection, Error> {
        let mut connection = self.config.build_connection(mode)?;
        connection.prefer_throughput()?;
        self.keys.lend(&mut connection)?;
        Ok(connection)
    }
}
