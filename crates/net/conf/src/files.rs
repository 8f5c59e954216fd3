//! Text files, keyrings and key files on disk.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::{fmt, process};

use loligo_cephx::key::{CryptoKey, KeyError};
use loligo_cephx::keyring::{Keyring, KeyringError};
use zeroize::Zeroizing;

/// Reads a text file; the error for invalid UTF-8 contains the line.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let bytes = fs::read(path)?;
    String::from_utf8(bytes).map_err(|wrong| {
        let good = &wrong.as_bytes()[..wrong.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
        io::Error::new(io::ErrorKind::InvalidData, format!("line {line} is not UTF-8 text"))
    })
}

/// Why a keyring file is not usable.
#[derive(Debug, thiserror::Error)]
pub enum KeyringFileError {
    /// The file could not be read or written.
    #[error("keyring {path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// None of the files exists.
    #[error("no keyring found at {}", Paths(.0))]
    NotFound(Vec<PathBuf>),
    /// The file's text is not a keyring.
    #[error("{path}: {source}", path = path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// What is wrong with its text.
        source: KeyringError,
    },
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

/// Reads a keyring. Names without a key are skipped, as in stock clients.
///
/// # Errors
/// The file cannot be read, or its text is not a keyring.
pub fn read_keyring(path: &Path) -> Result<Keyring, KeyringFileError> {
    let text = read_text(path)
        .map(Zeroizing::new)
        .map_err(|source| KeyringFileError::Io { path: path.to_owned(), source })?;
    Keyring::parse_leniently(&text).map_err(|source| KeyringFileError::Text { path: path.to_owned(), source })
}

/// Reads the first keyring of a list that can be opened, as Ceph does. If some exist and none can be
/// opened, returns the error of the first existing one.
///
/// # Errors
/// Those of [`read_keyring`]; [`KeyringFileError::NotFound`] if none exists.
pub fn read_first_keyring(paths: &[PathBuf]) -> Result<Keyring, KeyringFileError> {
    let readable = paths.iter().find(|path| fs::File::open(path).is_ok());
    match readable.or_else(|| paths.iter().find(|path| path.exists())) {
        Some(path) => read_keyring(path),
        None => Err(KeyringFileError::NotFound(paths.to_vec())),
    }
}

/// Writes a keyring file atomically, readable by its owner only.
///
/// # Errors
/// The file cannot be written.
pub fn write_keyring(ring: &Keyring, path: &Path) -> Result<(), KeyringFileError> {
    write_private(path, ring.format().as_bytes())
        .map_err(|source| KeyringFileError::Io { path: path.to_owned(), source })
}

/// Writes a file of mode 0600 beside `path` and renames it, so that readers never see a part of it and
/// no other user can read it.
fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", process::id()));
    let temporary = PathBuf::from(temporary);
    let write = || {
        // An existing file, left by a crash or created by another user, is not written to.
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

/// Reads a file that contains only a key in base64 (`keyfile`).
pub fn read_keyfile(path: &Path) -> Result<CryptoKey, KeyfileError> {
    let text = read_text(path)
        .map(Zeroizing::new)
        .map_err(|source| KeyfileError::Io { path: path.to_owned(), source })?;
    text.parse().map_err(|source| KeyfileError::Key { path: path.to_owned(), source })
}

/// Why a key file is not usable.
#[derive(Debug, thiserror::Error)]
pub enum KeyfileError {
    /// The file cannot be read.
    #[error("key file {path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file does not contain a usable key.
    #[error("key file {path}: {source}", path = path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: KeyError,
    },
}

#[cfg(test)]
mod tests {
    use loligo_wire::EntityName;

    use super::*;

    const KEY: &str = "AQC8FR9n0wHrMBAAhtHtExCaPKqHBKZfkDXbWw==";

    /// Writes a keyring into a temporary folder and returns its path.
    fn file(name: &str, text: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("loligo-keyring-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// `rados -k FILE` of 16.2.15 accepts each of these files, and refuses one with a section `[what]`.
    #[test]
    fn files_that_stock_accepts_are_accepted() {
        let admin = EntityName::client("admin");
        for (name, before, keyed) in [
            ("keyless", "[client.other]\n\tcaps mon = \"allow *\"\n", true),
            ("global", "[global]\n\tkey = nonsense\n", true),
            ("only-caps", "[client.admin]\n\tcaps mon = \"allow *\"\n", false),
        ] {
            let mine = if keyed { format!("[client.admin]\n\tkey = {KEY}\n") } else { String::new() };
            let ring = read_keyring(&file(name, &format!("{before}{mine}"))).unwrap();
            assert_eq!(ring.key(&admin).is_some(), keyed, "{name}");
            assert_eq!(ring.iter().len(), usize::from(keyed), "{name}");
        }
        assert!(matches!(
            read_keyring(&file("what", "[what]\n")),
            Err(KeyringFileError::Text { source: KeyringError::Name { line: 1, .. }, .. })
        ));
        assert!(matches!(Keyring::parse("[client.a]\n"), Err(KeyringError::NoKey(_))));
    }

    #[test]
    fn the_first_file_that_opens_is_read() {
        let good = file("good", &format!("[client.admin]\n\tkey = {KEY}\n"));
        // A socket exists but cannot be opened, not even by root, who is exempt from file modes.
        let closed = good.with_file_name("closed");
        let _ = fs::remove_file(&closed);
        let _listener = std::os::unix::net::UnixListener::bind(&closed).unwrap();
        let ring = read_first_keyring(&[closed.clone(), good]).unwrap();
        assert!(ring.key(&EntityName::client("admin")).is_some());
        assert!(matches!(read_first_keyring(&[closed]), Err(KeyringFileError::Io { .. })));
    }
}
