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
use std::os::unix::fs::OpenOptionsExt as _;
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

/// The section that Ceph's files share and that names nobody.
const GLOBAL: &str = "global";

/// What a section without a key means.
#[derive(Clone, Copy)]
enum Keyless {
    /// The text is refused: it says what the server shall keep.
    Refused,
    /// Nothing: stock clients accept such a file, and miss the key only if it is theirs.
    Skipped,
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
    #[error("keyring {path}: {source}", path = path.display())]
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
        let text = ini::read_text(path)
            .map(Zeroizing::new)
            .map_err(|source| KeyringError::Io { path: path.to_owned(), source })?;
        Self::parse_with(&text, Keyless::Skipped)
    }

    /// Reads the first of the files that can be opened, as Ceph does with a list of keyrings. If some exist
    /// and none can be opened, the error is that of the first.
    pub fn read_first(paths: &[PathBuf]) -> Result<Self, KeyringError> {
        let readable = paths.iter().find(|path| fs::File::open(path).is_ok());
        match readable.or_else(|| paths.iter().find(|path| path.exists())) {
            Some(path) => Self::read(path),
            None => Err(KeyringError::NotFound(paths.to_vec())),
        }
    }

    /// Reads a keyring's text; each name must have a key. What stands in `[global]` is no entry.
    pub fn parse(text: &str) -> Result<Self, KeyringError> {
        Self::parse_with(text, Keyless::Refused)
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

/// Writes a file of mode 0600 beside `path` and moves it there, so that no reader sees half of it and no
/// other user any.
fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", process::id()));
    let temporary = PathBuf::from(temporary);
    let write = || {
        // What a crash has left, or somebody has put there, is not written to.
        match fs::remove_file(&temporary) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
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
    let text = ini::read_text(path)
        .map(Zeroizing::new)
        .map_err(|source| KeyfileError::Io { path: path.to_owned(), source })?;
    text.parse().map_err(|source| KeyfileError::Key { path: path.to_owned(), source })
}

/// Why a key file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyfileError {
    /// It could not be read.
    #[error("key file {path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// It holds no usable key.
    #[error("key file {path}: {source}", path = path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: KeyError,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AQC8FR9n0wHrMBAAhtHtExCaPKqHBKZfkDXbWw==";

    /// Writes a keyring into a scratch folder of its own and returns its path.
    fn file(name: &str, text: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("loligo-keyring-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// `rados -k FILE` of 16.2.15 takes each of these files, and refuses one with a section `[what]`.
    #[test]
    fn files_that_stock_accepts_are_accepted() {
        let admin = EntityName::client("admin");
        for (name, before, keyed) in [
            ("keyless", "[client.other]\n\tcaps mon = \"allow *\"\n", true),
            ("global", "[global]\n\tkey = nonsense\n", true),
            ("only-caps", "[client.admin]\n\tcaps mon = \"allow *\"\n", false),
        ] {
            let mine = if keyed { format!("[client.admin]\n\tkey = {KEY}\n") } else { String::new() };
            let ring = Keyring::read(&file(name, &format!("{before}{mine}"))).unwrap();
            assert_eq!(ring.key(&admin).is_some(), keyed, "{name}");
            assert_eq!(ring.iter().len(), usize::from(keyed), "{name}");
        }
        assert!(matches!(Keyring::read(&file("what", "[what]\n")), Err(KeyringError::Name { line: 1, .. })));
        assert!(matches!(Keyring::parse("[client.a]\n"), Err(KeyringError::NoKey(_))));
    }

    #[test]
    fn the_first_file_that_opens_is_read() {
        let good = file("good", &format!("[client.admin]\n\tkey = {KEY}\n"));
        // A socket exists and cannot be opened, not even by root, whom no mode keeps out.
        let closed = good.with_file_name("closed");
        let _ = fs::remove_file(&closed);
        let _listener = std::os::unix::net::UnixListener::bind(&closed).unwrap();
        let ring = Keyring::read_first(&[closed.clone(), good]).unwrap();
        assert!(ring.key(&EntityName::client("admin")).is_some());
        assert!(matches!(Keyring::read_first(&[closed]), Err(KeyringError::Io { .. })));
    }
}
