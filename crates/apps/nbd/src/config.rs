//! The configuration file: sockets, TLS and exports.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::access::{Allowed, Identity};
use crate::tls::{CertificateFiles, TlsFiles};

/// The configuration that `loligo nbd serve --config` reads, in TOML.
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
    /// TCP addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// Unix sockets to listen on.
    pub unix: Vec<PathBuf>,
    /// Path of the control socket.
    pub control: Option<PathBuf>,
    /// Certificates and shared keys.
    pub tls: Option<Tls>,
    /// The devices.
    pub export: Vec<Export>,
}

/// Certificates and their keys, in PEM, and pre-shared keys.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Tls {
    /// The server's certificate.
    pub certificate: Option<PathBuf>,
    /// The certificate's private key.
    pub key: Option<PathBuf>,
    /// The authority that signs clients' certificates.
    pub client_authority: Option<PathBuf>,
    /// Pre-shared keys of clients, in the format of `psktool`.
    pub psk: Option<PathBuf>,
}

impl Tls {
    /// The files that TLS needs.
    ///
    /// # Errors
    /// The certificate or its key is missing.
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
    /// The back end, as a `Spec` is written.
    pub spec: String,
    /// A description for people.
    #[serde(default)]
    pub description: String,
    /// Clients may only read.
    #[serde(default)]
    pub read_only: bool,
    /// The clients that may use it, in the syntax of [`Identity`]; `None` allows every client.
    pub allow: Option<Vec<String>>,
}

impl Export {
    /// The clients that may use it.
    ///
    /// # Errors
    /// The entry of `allow` that is no identity.
    pub fn allowed(&self) -> Result<Allowed, String> {
        let Some(these) = &self.allow else { return Ok(Allowed::default()) };
        let these: Result<Vec<Identity>, String> = these.iter().map(|text| text.parse()).collect();
        these.map(Allowed::only)
    }
}

impl Config {
    /// Parses a configuration.
    ///
    /// # Errors
    /// The syntax error and its position.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|e| e.to_string())
    }

    /// Reads and parses a file.
    ///
    /// # Errors
    /// The file cannot be read, or the syntax error and its position.
    pub fn load(path: &Path) -> Result<Self, String> {
        Self::parse(&std::fs::read_to_string(path).map_err(|e| e.to_string())?)
    }
}
