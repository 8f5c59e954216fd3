//! Keyring files: who has which key, and with which capabilities.
//!
//! ```text
//! [client.admin]
//!         key = AQC8FR9n0wHrMBAAhtHtExCaPKqHBKZfkDXbWw==
//!         caps mon = "allow *"
//! ```

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::{fmt, process};

use loligo_wire::{EntityName, ParseEntityNameError};
use zeroize::Zeroizing;

use crate::conf::ini::{self, Line};
use crate::key::{CryptoKey, KeyError};

/// What a keyring holds for one name.
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

/// Names with their keys and capabilities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyring {
    entries: BTreeMap<EntityName, Entry>,
}

/// Why a keyring could not be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    /// The file could not be read or written.
    #[error("keyring {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// None of the files exists.
    #[error("no keyring found at {}", Paths(.0))]
    NotFound(Vec<PathBuf>),
    /// A line is not of a keyring's form.
    #[error("keyring line {line}: {why}")]
    Syntax {
        /// The line's number, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// A section's name is not an entity's.
    #[error("keyring line {line}: {source}")]
    Name {
        /// The line's number, from 1.
        line: usize,
        /// What is wrong.
        source: ParseEntityNameError,
    },
    /// A key cannot be used.
    #[error("keyring: {name}: {source}")]
    Key {
        /// Whose key.
        name: EntityName,
        /// What is wrong.
        source: KeyError,
    },
    /// A section has no key.
    #[error("keyring: {0} has no key")]
    NoKey(EntityName),
}

struct Paths<'a>(&'a [PathBuf]);

impl fmt::Display for Paths<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, path) in self.0.iter().enumerate() {
            write!(f, "{}{}", if i > 0 { ", " } else { "" }, path.display())?;
        }
        Ok(())
    }
}

impl Keyring {
    /// An empty keyring.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads one file.
    pub fn read(path: &Path) -> Result<Self, KeyringError> {
        let text = fs::read_to_string(path)
            .map(Zeroizing::new)
            .map_err(|source| KeyringError::Io { path: path.to_owned(), source })?;
        Self::parse(&text)
    }

    /// Reads the first of the files that exists, as Ceph does with a list of keyrings.
    pub fn read_first(paths: &[PathBuf]) -> Result<Self, KeyringError> {
        match paths.iter().find(|p| p.exists()) {
            Some(path) => Self::read(path),
            None => Err(KeyringError::NotFound(paths.to_vec())),
        }
    }

    /// Reads a keyring's text.
    pub fn parse(text: &str) -> Result<Self, KeyringError> {
        let mut sections: Vec<(EntityName, Option<CryptoKey>, BTreeMap<String, String>)> = Vec::new();
        for (line, content) in ini::lines(text) {
            let content = content.map_err(|why| KeyringError::Syntax { line, why: why.to_string() })?;
            match content {
                Line::Section(name) => {
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
            let key = key.ok_or_else(|| KeyringError::NoKey(name.clone()))?;
            ring.entries.insert(name, Entry { key, caps });
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

    /// The text of the file, as `ceph auth export` prints it.
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

    /// Writes the file whole or not at all, readable by its owner only.
    pub fn write(&self, path: &Path) -> Result<(), KeyringError> {
        write_private(path, self.format().as_bytes())
            .map_err(|source| KeyringError::Io { path: path.to_owned(), source })
    }
}

/// Writes a file of mode 0600 beside `path` and moves it there, so that no reader sees half of it and no other user any.
fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", process::id()));
    let temporary = PathBuf::from(temporary);
    let write = || {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.set_permissions(fs::Permissions::from_mode(0o600))?; // the file may be a leftover with another mode
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

/// A key alone in a file (`keyfile`), in base64.
pub fn read_keyfile(path: &Path) -> Result<CryptoKey, KeyfileError> {
    let text = fs::read_to_string(path)
        .map(Zeroizing::new)
        .map_err(|source| KeyfileError::Io { path: path.to_owned(), source })?;
    text.parse().map_err(|source| KeyfileError::Key { path: path.to_owned(), source })
}

/// Why a key file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyfileError {
    /// It could not be read.
    #[error("key file {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// It holds no usable key.
    #[error("key file {path}: {source}")]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: KeyError,
    },
}
