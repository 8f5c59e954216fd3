//! TLS with certificates, with pre-shared keys, or with both.
//!
//! Implemented by s2n-tls over AWS-LC. With certificates: TLS 1.2 and 1.3, with RSA and ECDSA keys;
//! s2n-tls does not support Ed25519. With pre-shared keys: TLS 1.3 only, since s2n-tls supports them
//! only there. GnuTLS, with which libnbd and qemu are built, supports TLS 1.3.

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

/// TLS 1.2 and 1.3, ciphers with authenticated encryption and forward secrecy, no SHA-1.
const POLICY: &str = "CloudFront-TLS-1-2-2021-no-sha1";

/// Bytes that s2n-tls gathers before it writes to the socket: several records per write instead of one.
const SEND_BYTES: u32 = 128 << 10;

/// The files that TLS uses: certificates, shared keys or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// For clients that verify the server's certificate.
    pub certificates: Option<CertificateFiles>,
    /// Clients' pre-shared keys, in the format of GnuTLS's `psktool`: lines of `USER:KEY`, KEY in
    /// hexadecimal. The file must be accessible to its owner only. A client with such a key needs no
    /// certificate.
    pub shared_keys: Option<PathBuf>,
}

/// Certificate files, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The server's certificate, followed by its chain up to a certificate that clients trust.
    pub certificate: PathBuf,
    /// The certificate's key.
    pub key: PathBuf,
    /// The authority that signs clients' certificates; without it clients need none.
    pub client_authority: Option<PathBuf>,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or its content is not valid.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// Shared keys together with certificates but without a client authority: a client without a shared
    /// key would be admitted without any proof.
    #[error("clients without a shared key would need nothing at all: say who signs their certificates")]
    Anybody,
    /// Neither certificates nor shared keys are configured.
    #[error("neither a certificate nor shared keys are named")]
    Nothing,
    /// s2n-tls refused the configuration.
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

/// Accepts TLS connections.
pub struct Acceptor(TlsAcceptor<Opening>);

impl Acceptor {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read or is not valid; or the files do not fit together.
    pub fn new(files: &TlsFiles) -> Result<Self, TlsError> {
        match (&files.certificates, &files.shared_keys) {
            (None, None) => return Err(TlsError::Nothing),
            (Some(CertificateFiles { client_authority: None, .. }), Some(_)) => {
                return Err(TlsError::Anybody);
            }
            _ => {}
        }
        let mut config = config::Builder::new();
        // The authorities that this machine trusts for web servers must not decide which clients may use
        // its devices.
        config.with_system_certs(false)?.set_security_policy(&Policy::from_version(POLICY)?)?;
        // A delay before a failure is reported would hide how long a record's check took. With the
        // ciphers of this policy that time reveals nothing.
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

    /// Does the TLS handshake. Returns the stream and the identity that the client has proved, if any.
    pub(crate) async fn accept<S>(&self, stream: S) -> io::Result<(TlsStream<S>, Option<Identity>)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let stream = self.0.accept(stream).await?;
        let identity = identity_of(stream.as_ref())?;
        Ok((stream, identity))
    }
}

/// The identity that the client has proved: its shared key or else its certificate.
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
    // s2n-tls does not report which of the two files is at fault.
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

/// Accepts any name: clients have no names to compare a certificate with, so that any certificate signed
/// by the authority is sufficient.
struct AnyName;

impl VerifyHostNameCallback for AnyName {
    fn verify_host_name(&self, _name: &str) -> bool {
        true
    }
}

/// Builds s2n-tls connections.
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
