//! Names: any bytes, as RADOS has them; and how JSON shows those that are no text.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

/// What a word of the command line names, or holds: an object, an attribute, a key, a value.
#[derive(Default, Clone, PartialEq, Eq)]
pub(crate) struct Name(Vec<u8>);

impl Name {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As text, where what it names is text everywhere.
    pub(crate) fn as_text(&self) -> Option<&str> {
        str::from_utf8(&self.0).ok()
    }

    /// As that of a file.
    pub(crate) fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// As a value of JSON.
    pub(crate) fn json(&self) -> Value {
        text(&self.0)
    }
}

impl From<OsString> for Name {
    fn from(word: OsString) -> Self {
        Self(word.into_vec())
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<Vec<u8>> for Name {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl AsRef<[u8]> for Name {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// For messages: a byte that belongs to no character is `\xNN`.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            f.write_str(chunk.valid())?;
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        Ok(())
    }
}

/// Begins what stands for a byte that is no text, within a value of JSON that is not printed yet: this
/// character and the one of the byte's number. Twice it stands for itself.
const ESCAPE: char = '\u{10ffff}';

/// Bytes as a value that [`line()`] prints so that they can be read back.
pub(crate) fn text(bytes: &[u8]) -> Value {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            text.push(c);
            if c == ESCAPE {
                text.push(c);
            }
        }
        chunk.invalid().iter().for_each(|byte| text.extend([ESCAPE, char::from(*byte)]));
    }
    Value::String(text)
}

/// The bytes that [`text()`] has made a value of.
pub(crate) fn as_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let (c, escaped) = if c == ESCAPE { (chars.next().unwrap_or(c), true) } else { (c, false) };
        match u8::try_from(u32::from(c)) {
            Ok(byte) if byte >= 0x80 && escaped => bytes.push(byte),
            _ => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

/// A value as JSON. A byte `NN` that belongs to no character is `\udcNN`, which no text has: Python's
/// `surrogateescape` makes the bytes of it.
pub(crate) fn line(value: &Value) -> String {
    let mut shown = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut shown, Escaping);
    value.serialize(&mut serializer).expect("a value has only what JSON has, and memory takes all");
    String::from_utf8(shown).expect("JSON is text")
}

struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: io::Write + ?Sized>(&mut self, to: &mut W, text: &str) -> io::Result<()> {
        let mut parts = text.split(ESCAPE);
        to.write_all(parts.next().unwrap_or_default().as_bytes())?;
        while let Some(part) = parts.next() {
            let mut chars = part.chars();
            match chars.next() {
                Some(byte) if u32::from(byte) < 0x100 => {
                    write!(to, "\\udc{:02x}{}", u32::from(byte), chars.as_str())?;
                }
                // Twice: the character itself, and what stands behind it.
                _ => {
                    let mut of_text = String::from(ESCAPE);
                    of_text.push_str(if part.is_empty() { parts.next().unwrap_or_default() } else { part });
                    to.write_all(of_text.as_bytes())?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_show_each_byte() {
        for (name, shown) in [
            (&b"o"[..], "o"),
            (b"\xff", "\\xff"),
            (b"a\xc3b\xff\xfe", "a\\xc3b\\xff\\xfe"),
            ("ä\n".as_bytes(), "ä\n"),
        ] {
            assert_eq!(Name::from(name.to_vec()).to_string(), shown);
        }
    }

    #[test]
    fn json_shows_bytes_that_python_reads_back() {
        for (name, shown) in [
            (&b"o\"\\\n"[..], r#""o\"\\\n""#),
            (b"\xff", r#""\udcff""#),
            (b"a\x80b\xc3", r#""a\udc80b\udcc3""#),
            ("ä日".as_bytes(), "\"ä日\""),
            // The character that escapes is nothing special outside.
            ("\u{10ffff}".as_bytes(), "\"\u{10ffff}\""),
            ("\u{10ffff}a\u{10ffff}\u{10ffff}b".as_bytes(), "\"\u{10ffff}a\u{10ffff}\u{10ffff}b\""),
            (b"\xf4\x8f\xbf\xbf\xff\"", "\"\u{10ffff}\\udcff\\\"\""),
        ] {
            assert_eq!(line(&text(name)), shown, "{name:?}");
        }
        assert_eq!(line(&json!({"name": text(b"\xff"), "n": 1})), r#"{"n":1,"name":"\udcff"}"#);
    }
}
