//! Pre-shared keys: the file that GnuTLS's `psktool` writes.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use s2n_tls::connection::Connection;
use s2n_tls::enums::PskHmac;
use s2n_tls::error::Error;
use s2n_tls::psk::Psk;
use zeroize::Zeroizing;

/// Maximum number of keys in a file: each connection is given all of them, and s2n-tls compares each key
/// with those before it.
const KEYS_MAX: usize = 512;
/// Maximum size of the file in bytes; a line needs less than 2 KiB even with the longest name and key
/// that `psktool` accepts.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Minimum length of a key in bytes: TLS requires 128 bits for external keys (RFC 9257).
const KEY_BYTES_MIN: usize = 16;
/// Mode bits that give access to others than the file's owner.
const OTHERS: u32 = 0o077;

/// The clients' keys. Their memory is cleared when it is freed: s2n-tls clears its own copies, and the
/// bytes read here are held in [`Zeroizing`].
#[derive(Clone, Default)]
pub(super) struct Keys(Arc<[Psk]>);

/// Why the keys of a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyError {
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    #[error("its mode is {0:04o}: nobody but its owner may read keys (chmod 600)")]
    Open(u32),
    #[error("more than {FILE_BYTES_MAX} bytes")]
    Long,
    #[error("line {0} is not USER:KEY with a key in hexadecimal")]
    Line(usize),
    #[error("line {line}: a key has {KEY_BYTES_MIN} bytes at least, not {len}")]
    Short { line: usize, len: usize },
    #[error("line {0}: this user has a key already")]
    Twice(usize),
    #[error("more than {KEYS_MAX} keys")]
    Many,
    #[error("no keys")]
    None,
    #[error("{0}")]
    Library(&'static str),
}

impl From<Error> for KeyError {
    fn from(e: Error) -> Self {
        Self::Library(e.message())
    }
}

impl Keys {
    pub(super) fn load(path: &Path) -> Result<Self, KeyError> {
        let file = File::open(path)?;
        // The mode of the open file, not of a file that may have replaced it at the path.
        let found = file.metadata()?;
        if found.mode() & OTHERS != 0 {
            return Err(KeyError::Open(found.mode() & 0o7777));
        }
        // Allocated once for the whole file: a reallocation would leave a copy of the bytes behind.
        let mut text = Zeroizing::new(Vec::with_capacity(found.len().min(FILE_BYTES_MAX) as usize + 1));
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(KeyError::Long);
        }
        Self::parse(&text)
    }

    fn parse(text: &[u8]) -> Result<Self, KeyError> {
        let mut keys = Vec::new();
        let mut users = HashSet::new();
        for (n, line) in text.split(|byte| *byte == b'\n').enumerate().map(|(n, line)| (n + 1, line)) {
            let line = line.trim_ascii_end();
            if line.is_empty() {
                continue;
            }
            let (user, key) = taken_apart(line).ok_or(KeyError::Line(n))?;
            if key.len() < KEY_BYTES_MIN {
                return Err(KeyError::Short { line: n, len: key.len() });
            }
            if !users.insert(user.clone()) {
                return Err(KeyError::Twice(n));
            }
            if keys.len() == KEYS_MAX {
                return Err(KeyError::Many);
            }
            keys.push(key_of(&user, &key)?);
        }
        if keys.is_empty() { Err(KeyError::None) } else { Ok(Self(keys.into())) }
    }

    /// Adds all keys to a connection; its client names the one that it has.
    pub(super) fn lend(&self, connection: &mut Connection) -> Result<(), Error> {
        self.0.iter().try_for_each(|key| connection.append_psk(key))
    }
}

/// Splits a line into user and key. A user name that begins with `#` is hexadecimal, too: `psktool`
/// writes names that are not text this way.
fn taken_apart(line: &[u8]) -> Option<(Vec<u8>, Zeroizing<Vec<u8>>)> {
    let colon = line.iter().rposition(|byte| *byte == b':')?;
    let (user, key) = (&line[..colon], bytes_of(&line[colon + 1..])?);
    let user = match user.strip_prefix(b"#") {
        Some(hex) => bytes_of(hex)?.to_vec(),
        None => user.to_vec(),
    };
    (!user.is_empty() && user.len() <= usize::from(u16::MAX)).then_some((user, key))
}

fn bytes_of(hex: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = hex.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(pairs.len()));
    for [high, low] in pairs {
        bytes.push(digit(*high)? << 4 | digit(*low)?);
    }
    Some(bytes)
}

/// GnuTLS uses external keys with SHA-256, which is also TLS 1.3's default.
fn key_of(user: &[u8], key: &[u8]) -> Result<Psk, Error> {
    let mut psk = Psk::builder()?;
    psk.set_identity(user)?.set_secret(key)?.set_hmac(PskHmac::SHA256)?;
    psk.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "00112233445566778899aabbccddeeFF";

    fn said(text: &str) -> String {
        match Keys::parse(text.as_bytes()) {
            Ok(keys) => format!("{} keys", keys.0.len()),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn lines_are_taken_apart() {
        let (user, key) = taken_apart(format!("a:b:{KEY}").as_bytes()).expect("both");
        assert_eq!((&*user, &key[..3], key[15]), (&b"a:b"[..], &[0x00, 0x11, 0x22][..], 0xff));
        assert_eq!(taken_apart(b"#6162:00").expect("both").0, b"ab");
        assert_eq!(said(&format!("a:{KEY}\n\nb:{KEY}\r\n")), "2 keys");
    }

    #[test]
    fn what_is_no_key_is_refused_with_its_line_and_not_shown() {
        for line in ["a", "a:0", "a:0g", ":00", "#:00", "#0:00"] {
            assert_eq!(said(&format!("x:{KEY}\n{line}")), "line 2 is not USER:KEY with a key in hexadecimal");
        }
        assert_eq!(said("a:00"), "line 1: a key has 16 bytes at least, not 1");
        assert_eq!(said(&format!("a:{KEY}\na:{KEY}")), "line 2: this user has a key already");
        assert_eq!(said("\n"), "no keys");
        let many: String = (0..=KEYS_MAX).map(|n| format!("{n}:{KEY}\n")).collect();
        assert_eq!(said(&many), "more than 512 keys");
    }
}
