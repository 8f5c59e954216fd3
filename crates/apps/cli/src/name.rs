//! Names: any bytes, as RADOS has them; and how JSON shows those that are no text.

use std::io;

pub(crate) use loligo_wire::Name;
use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

/// Begins what stands for a byte that is no text, within a value of JSON that is not printed yet: this
/// character and the one of the byte's number. Twice it stands for itself.
const ESCAPE: char = '\u{10ffff}';

/// Bytes as a value that [`line()`] prints so that they can be read back.
pub(crate) fn text(bytes: &[u8]) -> Value {
    Value::String(shown(bytes))
}

/// The same as a text, which [`as_bytes`] makes the bytes of again.
pub(crate) fn shown(bytes: &[u8]) -> String {
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
    text
}

/// The bytes that [`shown`] has made a text of.
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
