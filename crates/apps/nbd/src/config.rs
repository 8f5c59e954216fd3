//! The file that says what to serve.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::access::{Allowed, Identity};
use crate::tls::{CertificateFiles, TlsFiles};

/// What `loligo nbd serve --config` reads, in TOML.
///
/// ```
/// let config = loligo_nbd::Config::parse(r#"
///     listen = ["127.0.0.1:10809"]
///     unix = ["/run/nbd.sock"]
///     control = "/run/nbd.asok"
///
///     [tls]
///     certificate = "/etc/nbd/server-cert.pem"
///     key = "/etc/nbd/server-key.pem"
///     client-authority = "/etc/nbd/ca-cert.pem"
///     psk = "/etc/nbd/keys.psk"
///
///     [[export]]
///     name = "disk"
///     spec = "rbd:pool/image"
///     description = "the disk of a machine"
///     read-only = true
///     allow = ["psk:alice"]
/// "#)?;
/// assert_eq!(config.export[0].spec, "rbd:pool/image");
/// assert!(config.export[0].allowed()?.is_bound());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Config {
    /// Addresses.
    pub listen: Vec<SocketAddr>,
    /// Unix sockets.
    pub unix: Vec<PathBuf>,
    /// The socket at which it is controlled.
    pub control: Option<PathBuf>,
    /// Certificates and keys.
    pub tls: Option<Tls>,
    /// Devices.
    pub export: Vec<Export>,
}

/// Certificates and keys, in PEM, and keys that are shared in advance.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Tls {
    /// The server's certificate.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// Who signs clients' certificates.
    pub client_authority: Option<PathBuf>,
    /// Keys of clients, as `psktool` writes them.
    pub psk: Option<PathBuf>,
}

impl Tls {
    /// What TLS is to stand on.
    ///
    /// # Errors
    /// What is missing.
    pub fn files(self) -> Result<TlsFiles, &'static str> {
        let certificates = match (self.certificate, self.key, self.client_authority) {
            (Some(certificate), Some(key), client_authority) => {
                Some(CertificateFiles { certificate, key, client_authority })
            }
            (None, None, None) => None,
            (None, None, Some(_)) => {
                return Err("who signs clients' certificates is named, but no certificate");
            }
            _ => return Err("a certificate and its key are named together"),
        };
        Ok(TlsFiles { certificates, shared_keys: self.psk })
    }
}

/// A device.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Export {
    /// Its name.
    pub name: String,
    /// What it stands on.
    pub spec: String,
    /// For people.
    #[serde(default)]
    pub description: String,
    /// It shall only be read.
    #[serde(default)]
    pub read_only: bool,
    /// The clients that may use it, as [`Identity`] reads them; without, all that come in.
    pub allow: Option<Vec<String>>,
}

impl Export {
    /// Who may use it.
    ///
    /// # Errors
    /// What is no identity.
    pub fn allowed(&self) -> Result<Allowed, String> {
        let Some(these) = &self.allow else { return Ok(Allowed::default()) };
        let these: Result<Vec<Identity>, String> = these.iter().map(|text| text.parse()).collect();
        these.map(Allowed::only)
    }
}

impl Config {
    /// Reads a text.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|e| e.to_string())
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read; what is wrong with it, and where.
    pub fn load(path: &Path) -> Result<Self, String> {
        Self::parse(&std::fs::read_to_string(path).map_err(|e| e.to_string())?)
    }
}
