//! Text that holds arbitrary bytes.
//!
//! Names of pools, of their snapshots and of applications are bytes in Ceph's maps and messages, while
//! commands, their arguments and their replies are text here. To convert between them without loss,
//! every byte that is not part of valid UTF-8 becomes one character of the last private-use plane:
//! U+10FF00 plus the byte. Characters of that block in the input are themselves split into their bytes,
//! so that no two byte strings have the same text.

use loligo_maps::Name;

/// The character that stands for byte 0.
const FIRST: u32 = 0x10_FF00;

/// Converts bytes to text.
pub fn from_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match u32::from(c) >= FIRST {
                true => push_bytes(&mut text, c.encode_utf8(&mut [0; 4]).as_bytes()),
                false => text.push(c),
            }
        }
        push_bytes(&mut text, chunk.invalid());
    }
    text
}

/// Converts text to the bytes that it represents.
pub fn to_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match u32::from(c).checked_sub(FIRST).and_then(|byte| u8::try_from(byte).ok()) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

/// Converts a name of a map to text.
pub(crate) fn of(name: &Name) -> String {
    from_bytes(name.as_bytes())
}

/// Converts text to a name of a map.
pub(crate) fn name(text: &str) -> Name {
    Name::from(to_bytes(text).as_slice())
}

fn push_bytes(text: &mut String, bytes: &[u8]) {
    text.extend(bytes.iter().filter_map(|byte| char::from_u32(FIRST + u32::from(*byte))));
}

/// Replaces lone surrogates (`\udcff`) in JSON with the three bytes that a stock monitor makes of them.
/// Python programs, `ceph` among them, encode bytes of their command line that are not UTF-8 as lone
/// surrogates.
pub(crate) fn without_lone_surrogates(json: String) -> String {
    if !json.contains("\\ud") && !json.contains("\\uD") {
        return json;
    }
    let mut out = String::with_capacity(json.len());
    let mut rest = json.as_str();
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let len = match (surrogate(escape), escape.get(6..).and_then(surrogate)) {
            (Some(high), Some(low)) if high < 0xDC00 && low >= 0xDC00 => 12,
            (Some(alone), _) => {
                let low = |shift: u32| 0x80 | (alone >> shift & 0x3F) as u8;
                push_bytes(&mut out, &[0xED, low(6), low(0)]);
                rest = &escape[6..];
                continue;
            }
            (None, _) => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&escape[..len]);
        rest = &escape[len..];
    }
    out + rest
}

/// The surrogate that a text begins with, as a JSON escape.
fn surrogate(text: &str) -> Option<u32> {
    let code = u32::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()?;
    (0xD800..0xE000).contains(&code).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_string_is_a_text_of_its_own() {
        let cases: [&[u8]; 6] =
            [b"", b"plain", b"a\xff", "é\u{10FF80}".as_bytes(), b"\xed\xb3\xbf", b"\xf4\x8f\xbe\x80\x80"];
        for bytes in cases {
            assert_eq!(to_bytes(&from_bytes(bytes)), bytes, "{bytes:?}");
        }
        assert_eq!(from_bytes("é😀".as_bytes()), "é😀");
        assert_ne!(from_bytes(b"\x80"), from_bytes("\u{10FF80}".as_bytes()));
    }

    /// A monitor of 16.2.15 creates a pool `s\xed\xb3\xbf` from the first case.
    #[test]
    fn halves_of_pairs_are_three_bytes() {
        let bytes = |json: &str| to_bytes(&without_lone_surrogates(json.to_owned()));
        assert_eq!(bytes(r#""s\udcff""#), b"\"s\xed\xb3\xbf\"");
        for kept in
            [r#""\ud83d\ude00""#, r#""\\udcff""#, r#""\u00e9\n""#, r#""\"#, r#""\ud8"#, "\"\\\u{e9}\\ud\""]
        {
            assert_eq!(bytes(kept), kept.as_bytes());
        }
        assert_eq!(bytes(r#"\udcff\ud83d"#), b"\xed\xb3\xbf\xed\xa0\xbd");
    }
}
