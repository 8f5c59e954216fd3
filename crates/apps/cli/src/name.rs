//! Names, which are any bytes in RADOS, and their representation in JSON where they are not UTF-8.

use std::io;

pub(crate) use loligo_wire::Name;
use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

/// Escapes a byte that is not UTF-8 in a JSON value before it is printed: this character, then the
/// character with the byte's number. The character itself is escaped by doubling it.
const ESCAPE: char = '\u{10ffff}';

/// Returns bytes as a value that [`line()`] prints in a reversible form.
pub(crate) fn text(bytes: &[u8]) -> Value {
    Value::String(shown(bytes))
}

/// Returns the same as a text, which [`as_bytes`] converts back.
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

/// Returns the bytes that [`shown`] converted to a text.
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

/// Formats a value as JSON. A byte `NN` that is not UTF-8 becomes `\udcNN`, which no valid text
/// contains: Python's `surrogateescape` converts it back.
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
                // A doubled escape character: write it once, with the text that follows it.
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
            // Outside of a name the escape character has no special meaning.
            ("\u{10ffff}".as_bytes(), "\"\u{10ffff}\""),
            ("\u{10ffff}a\u{10ffff}\u{10ffff}b".as_bytes(), "\"\u{10ffff}a\u{10ffff}\u{10ffff}b\""),
            (b"\xf4\x8f\xbf\xbf\xff\"", "\"\u{10ffff}\\udcff\\\"\""),
        ] {
            assert_eq!(line(&text(name)), shown, "{name:?}");
        }
        assert_eq!(line(&json!({"name": text(b"\xff"), "n": 1})), r#"{"n":1,"name":"\udcff"}"#);
    }
}
