//! Names that users choose: arbitrary bytes.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::str::Utf8Error;

use bytes::Bytes;

use crate::{Decode, DecodeError, Encode, Reader, Writer};

/// The name of an object, an image, a snapshot, a namespace or a key. As in Ceph, a name may hold any
/// bytes. Nearly all names are text, so a name compares with strings and is displayed as one.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Vec<u8>);

impl Name {
    /// Creates an empty name.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the name's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the name as a string, or `None` if it is not valid UTF-8.
    pub fn as_text(&self) -> Option<&str> {
        str::from_utf8(&self.0).ok()
    }

    /// Returns the name as a file path.
    #[cfg(unix)]
    pub fn as_path(&self) -> &std::path::Path {
        use std::os::unix::ffi::OsStrExt as _;
        std::path::Path::new(std::ffi::OsStr::from_bytes(&self.0))
    }
}

impl Deref for Name {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Name {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Name {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl<T: AsRef<[u8]> + ?Sized> From<&T> for Name {
    fn from(bytes: &T) -> Self {
        Self(bytes.as_ref().to_vec())
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl From<Vec<u8>> for Name {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<Bytes> for Name {
    fn from(bytes: Bytes) -> Self {
        Self(bytes.into())
    }
}

#[cfg(unix)]
impl From<std::ffi::OsString> for Name {
    fn from(word: std::ffi::OsString) -> Self {
        use std::os::unix::ffi::OsStringExt as _;
        Self(word.into_vec())
    }
}

impl From<Name> for Vec<u8> {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl From<&Name> for Vec<u8> {
    fn from(name: &Name) -> Self {
        name.0.clone()
    }
}

impl From<Name> for Bytes {
    fn from(name: Name) -> Self {
        name.0.into()
    }
}

/// Fails unless the name is valid UTF-8.
impl TryFrom<Name> for String {
    type Error = Utf8Error;

    fn try_from(name: Name) -> Result<Self, Utf8Error> {
        Self::from_utf8(name.0).map_err(|e| e.utf8_error())
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, text: &str) -> bool {
        self.0 == text.as_bytes()
    }
}

impl PartialEq<&Name> for Name {
    fn eq(&self, name: &&Name) -> bool {
        self.0 == name.0
    }
}

impl PartialEq<String> for Name {
    fn eq(&self, text: &String) -> bool {
        self.0 == text.as_bytes()
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, text: &&str) -> bool {
        self.0 == text.as_bytes()
    }
}

/// For messages: each byte that is not part of a UTF-8 character is shown as `\xNN`. Width and alignment
/// of the format are respected.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = String::with_capacity(self.0.len());
        for chunk in self.0.utf8_chunks() {
            shown.push_str(chunk.valid());
            chunk.invalid().iter().for_each(|byte| shown.push_str(&format!("\\x{byte:02x}")));
        }
        f.pad(&shown)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl Encode for Name {
    fn encode(&self, w: &mut Writer) {
        w.blob(&self.0);
    }
}

impl Decode for Name {
    const MIN_LEN: usize = 4;

    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.blob().map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_show_each_byte() {
        for (name, shown) in [
            (&b"o"[..], "o"),
            (b"\xff", "\\xff"),
            (b"a\xc3b\xff\xfe", "a\\xc3b\\xff\\xfe"),
            ("ä\n".as_bytes(), "ä\n"),
        ] {
            assert_eq!(Name::from(name).to_string(), shown);
        }
        assert_eq!(format!("{:>3}|{:5}|", Name::from("i"), Name::from(&b"\xff"[..])), "  i|\\xff |");
    }

    #[test]
    fn a_name_is_encoded_as_its_bytes() {
        let name = Name::from(&b"a\xff"[..]);
        assert_eq!(&name.to_bytes()[..], b"\x02\0\0\0a\xff");
        assert_eq!(Name::from_bytes(&name.to_bytes()), Ok(name.clone()));
        assert_eq!((name.as_text(), Name::from("a").as_text()), (None, Some("a")));
        assert_eq!(Name::from("a"), "a");
    }
}
