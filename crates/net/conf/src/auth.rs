//! The configuration of authentication: keys, methods, modes.

use std::path::PathBuf;

use loligo_wire::{EntityName, EntityType, UTime};
use zeroize::Zeroizing;

use crate::files::{KeyfileError, KeyringFileError, read_first_keyring, read_keyfile, read_text};
use crate::lenient::{Leniency, leniencies};
use crate::{Conf, ConfError, value};
use loligo_cephx::client::ClientConfig;
use loligo_cephx::handshake::{AuthMethod, ConMode};
use loligo_cephx::key::{CryptoKey, KeyError};

/// The default places of clients' keyrings.
const KEYRINGS: &str =
    "/etc/ceph/$cluster.$name.keyring,/etc/ceph/$cluster.keyring,/etc/ceph/keyring,/etc/ceph/keyring.bin";

/// Why a client's credentials are not available.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// An option is invalid.
    #[error(transparent)]
    Conf(#[from] ConfError),
    /// The keyring is not usable.
    #[error(transparent)]
    Keyring(#[from] KeyringFileError),
    /// The key file is not usable.
    #[error(transparent)]
    Keyfile(#[from] KeyfileError),
    /// The option `key` does not contain a key.
    #[error("option key: {0}")]
    Key(#[from] KeyError),
    /// The keyring does not contain the name.
    #[error("no key for {0} in the keyring")]
    NoKey(EntityName),
}

impl Conf {
    /// The keyring files to try, in order.
    pub fn keyring_paths(&self) -> Vec<PathBuf> {
        let text = self.text("keyring").unwrap_or_else(|| self.expand(KEYRINGS));
        value::list(&text).map(PathBuf::from).collect()
    }

    /// Returns the program's key: the option `key`, else the file `keyfile`, else the program's entry in
    /// the first keyring that can be opened.
    pub fn key(&self) -> Result<CryptoKey, CredentialsError> {
        if let Some(text) = self.text("key").filter(|t| !t.is_empty()) {
            return Ok(text.parse()?);
        }
        if let Some(path) = self.text("keyfile").filter(|t| !t.is_empty()) {
            return Ok(read_keyfile(path.as_ref())?);
        }
        let ring = read_first_keyring(&self.keyring_paths())?;
        ring.key(self.name()).cloned().ok_or_else(|| CredentialsError::NoKey(self.name().clone()))
    }

    /// Warnings for the user about a usable keyring, one per line.
    pub fn keyring_warnings(&self) -> Vec<String> {
        let elsewhere = |option: &str| self.text(option).is_some_and(|text| !text.is_empty());
        if elsewhere("key") || elsewhere("keyfile") {
            return Vec::new();
        }
        let paths = self.keyring_paths();
        let text = |path: &PathBuf| Some((path.clone(), Zeroizing::new(read_text(path).ok()?)));
        let Some((path, text)) = paths.iter().find_map(text) else { return Vec::new() };
        let said =
            |found: Leniency| format!("keyring {} {} (line {})", path.display(), found.what, found.line);
        leniencies(&text).into_iter().map(said).collect()
    }

    /// Returns the list of authentication methods of an option such as `auth_client_required`, or of
    /// `auth_supported` if that is set; `default` if neither is.
    pub fn auth_methods(&self, option: &str, default: &[AuthMethod]) -> Result<Vec<AuthMethod>, ConfError> {
        let option = if self.text("auth_supported").is_some() { "auth_supported" } else { option };
        self.named_list(option, default, "a list of cephx and none", |word| match word {
            "cephx" => Some(AuthMethod::CEPHX),
            "none" => Some(AuthMethod::NONE),
            _ => None,
        })
    }

    /// Returns a list of connection modes, such as `ms_client_mode`, best first.
    pub fn con_modes(&self, option: &str, default: &[ConMode]) -> Result<Vec<ConMode>, ConfError> {
        self.named_list(option, default, "a list of crc and secure", |word| match word {
            "crc" => Some(ConMode::Crc),
            "secure" => Some(ConMode::Secure),
            _ => None,
        })
    }

    fn named_list<T: Clone>(
        &self,
        option: &str,
        default: &[T],
        expected: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, ConfError> {
        let Some(text) = self.text(option) else {
            return Ok(default.to_vec());
        };
        let parsed: Option<Vec<T>> = value::list(&text).map(parse).collect();
        parsed.filter(|list| !list.is_empty()).ok_or(ConfError::Value {
            option: option.to_owned(),
            value: text,
            expected,
        })
    }

    /// Returns the authentication settings of a client. If methods other than cephx are accepted and
    /// there is no keyring, cephx is not used, as in Ceph's clients. Unlike those, a client with a key
    /// uses `none` only if the configuration names it: otherwise any program at a monitor's address
    /// could pass for the cluster.
    pub fn client_config(&self) -> Result<ClientConfig, CredentialsError> {
        let option = "auth_client_required";
        let mut methods = self.auth_methods(option, &[AuthMethod::CEPHX, AuthMethod::NONE])?;
        let is_default = [option, "auth_supported"].iter().all(|option| self.text(option).is_none());
        let mut key = None;
        if methods.contains(&AuthMethod::CEPHX) {
            match self.key() {
                Ok(found) => {
                    key = Some(found);
                    methods.retain(|method| !is_default || *method == AuthMethod::CEPHX);
                }
                Err(CredentialsError::Keyring(KeyringFileError::NotFound(_)))
                    if methods.contains(&AuthMethod::NONE) =>
                {
                    methods.retain(|m| *m != AuthMethod::CEPHX);
                }
                Err(e) => return Err(e),
            }
        }
        let defaults = ClientConfig::new(self.name().clone(), key, UTime::now);
        Ok(ClientConfig {
            methods,
            mon_modes: self.con_modes("ms_mon_client_mode", &defaults.mon_modes)?,
            service_modes: self.con_modes("ms_client_mode", &defaults.service_modes)?,
            services: vec![EntityType::MON, EntityType::OSD, EntityType::MGR],
            ..defaults
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Environment;

    const KEY: &str = "AQC8FR9n0wHrMBAAhtHtExCaPKqHBKZfkDXbWw==";

    fn conf(text: &str) -> Conf {
        Conf::parse(text, EntityName::client("a"), Environment::default()).unwrap()
    }

    #[test]
    fn keyrings_are_looked_for_in_ceph_s_places() {
        assert_eq!(conf("").keyring_paths()[0].to_str(), Some("/etc/ceph/ceph.client.a.keyring"));
        assert_eq!(conf("").keyring_paths().len(), 4);
        assert_eq!(conf("keyring = x, $id.ring").keyring_paths(), ["x", "a.ring"].map(PathBuf::from));
    }

    #[test]
    fn methods_and_modes() {
        let text = format!("key = {KEY}\nms client mode = secure\nauth client required = cephx");
        let client = conf(&text).client_config().unwrap();
        assert_eq!(client.methods, [AuthMethod::CEPHX]);
        assert_eq!(client.service_modes, [ConMode::Secure]);
        assert_eq!(client.mon_modes, [ConMode::Secure, ConMode::Crc]);
        assert!(client.key.is_some());
        let error = conf("ms_client_mode = plain\nauth supported = none").client_config().unwrap_err();
        assert_eq!(error.to_string(), "option ms_client_mode = 'plain': a list of crc and secure expected");
    }

    #[test]
    fn with_a_key_a_monitor_cannot_have_the_client_go_without() {
        let methods = |text: &str| conf(&format!("key = {KEY}\n{text}")).client_config().unwrap().methods;
        assert_eq!(methods(""), [AuthMethod::CEPHX]);
        let both = [AuthMethod::CEPHX, AuthMethod::NONE];
        assert_eq!(methods("auth client required = cephx, none"), both);
        assert_eq!(methods("auth supported = cephx, none"), both);
        assert_eq!(methods("auth client required = none"), [AuthMethod::NONE]);
    }

    #[test]
    fn without_a_keyring_cephx_is_not_tried_if_it_need_not_be() {
        let client = conf("keyring = /no/such/keyring").client_config().unwrap();
        assert_eq!(client.methods, [AuthMethod::NONE]);
        let strict = conf("keyring = /no/such/keyring\nauth client required = cephx").client_config();
        assert!(strict.unwrap_err().to_string().contains("/no/such/keyring"));
    }
}
