//! Keyrings: names with their keys and capabilities.
//!
//! ```text
//! [client.admin]
//!         key = AQC8FR9n0wHrMBAAhtHtExCaPKqHBKZfkDXbWw==
//!         caps mon = "allow *"
//! ```

use std::collections::BTreeMap;

use loligo_wire::{EntityName, ParseEntityNameError};
use zeroize::Zeroizing;

use crate::ini::{self, Line};
use crate::key::{CryptoKey, KeyError};

/// The entry of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: CryptoKey,
    /// Capabilities by service (`mon`, `osd`, `mgr`, `mds`), as text.
    pub caps: BTreeMap<String, String>,
}

impl Entry {
    /// A key without capabilities.
    pub fn new(key: CryptoKey) -> Self {
        Self { key, caps: BTreeMap::new() }
    }

    /// The same entry with capabilities for a service.
    pub fn with_caps(mut self, service: &str, caps: &str) -> Self {
        self.caps.insert(service.to_owned(), caps.to_owned());
        self
    }
}

/// The section common to Ceph's files, which is not a name.
const GLOBAL: &str = "global";

/// The treatment of a section without a key.
#[derive(Clone, Copy)]
enum Keyless {
    /// The text is refused: it states what the server must store.
    Refused,
    /// The section is skipped: stock clients accept such a file, and miss the key only if it is theirs.
    Skipped,
}

/// Names with their keys and capabilities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyring {
    entries: BTreeMap<EntityName, Entry>,
}

/// Why a text is not a keyring.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    /// The line is not valid in a keyring.
    #[error("keyring line {line}: {why}")]
    Syntax {
        /// The line's number, from 1.
        line: usize,
        /// The reason.
        why: String,
    },
    /// The section's name is not an entity's name.
    #[error("keyring line {line}: {source}")]
    Name {
        /// The line's number, from 1.
        line: usize,
        /// The reason.
        source: ParseEntityNameError,
    },
    /// The key is not usable.
    #[error("keyring: {name}: {source}")]
    Key {
        /// The key's owner.
        name: EntityName,
        /// The reason.
        source: KeyError,
    },
    /// The section has no key.
    #[error("keyring: {0} has no key")]
    NoKey(EntityName),
}

impl Keyring {
    /// An empty keyring.
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses a keyring's text; each name must have a key. The contents of `[global]` are ignored.
    pub fn parse(text: &str) -> Result<Self, KeyringError> {
        Self::parse_with(text, Keyless::Refused)
    }

    /// Parses a keyring's text, and skips names without a key: stock clients accept such a file, and
    /// miss a key only if it is theirs.
    pub fn parse_leniently(text: &str) -> Result<Self, KeyringError> {
        Self::parse_with(text, Keyless::Skipped)
    }

    fn parse_with(text: &str, keyless: Keyless) -> Result<Self, KeyringError> {
        let mut sections: Vec<(EntityName, Option<CryptoKey>, BTreeMap<String, String>)> = Vec::new();
        let mut in_global = false;
        for (line, content) in ini::lines(text) {
            let content = content.map_err(|why| KeyringError::Syntax { line, why: why.to_string() })?;
            match content {
                Line::Section(name) if name == GLOBAL => in_global = true,
                Line::Setting { .. } if in_global => {}
                Line::Section(name) => {
                    in_global = false;
                    let name = name.parse().map_err(|source| KeyringError::Name { line, source })?;
                    sections.push((name, None, BTreeMap::new()));
                }
                Line::Setting { name, value } => {
                    let Some((entity, key, caps)) = sections.last_mut() else {
                        return Err(KeyringError::Syntax {
                            line,
                            why: "a setting before the first [name]".into(),
                        });
                    };
                    if name == "key" {
                        let parsed = value.parse();
                        *key = Some(
                            parsed.map_err(|source| KeyringError::Key { name: entity.clone(), source })?,
                        );
                    } else if let Some(service) = name.strip_prefix("caps_") {
                        caps.insert(service.to_owned(), value);
                    } // Ceph ignores anything else, such as `auid`
                }
            }
        }
        let mut ring = Self::new();
        for (name, key, caps) in sections {
            match (key, keyless) {
                (Some(key), _) => {
                    ring.entries.insert(name, Entry { key, caps });
                }
                (None, Keyless::Skipped) => {}
                (None, Keyless::Refused) => return Err(KeyringError::NoKey(name)),
            }
        }
        Ok(ring)
    }

    /// The entry of a name.
    pub fn entry(&self, name: &EntityName) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// The key of a name.
    pub fn key(&self, name: &EntityName) -> Option<&CryptoKey> {
        self.entry(name).map(|e| &e.key)
    }

    /// Adds or replaces an entry.
    pub fn insert(&mut self, name: EntityName, entry: Entry) -> Option<Entry> {
        self.entries.insert(name, entry)
    }

    /// Removes an entry.
    pub fn remove(&mut self, name: &EntityName) -> Option<Entry> {
        self.entries.remove(name)
    }

    /// All entries, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&EntityName, &Entry)> {
        self.entries.iter()
    }

    /// The text, as `ceph auth export` prints it.
    pub fn format(&self) -> Zeroizing<String> {
        let mut out = Zeroizing::new(String::new());
        for (name, entry) in &self.entries {
            out.push_str(&format!("[{name}]\n\tkey = "));
            out.push_str(&entry.key.to_base64());
            out.push('\n');
            for (service, caps) in &entry.caps {
                out.push_str(&format!(
                    "\tcaps {service} = \"{}\"\n",
                    caps.replace('\\', "\\\\").replace('"', "\\\"")
                ));
            }
        }
        out
    }
}
