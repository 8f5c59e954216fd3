//! The line format of ceph.conf and of keyrings: sections, settings, comments, continued lines, quotes.

use std::borrow::Cow;

/// A line with content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// `[name]`.
    Section(String),
    /// `name = value`. The name is normalized.
    Setting {
        /// The name in the form of [`normalize`].
        name: String,
        /// The value, without quotes and escapes.
        value: String,
    },
}

/// Why a line is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// A section's name is not terminated.
    #[error("a section's name must end with ]")]
    Section,
    /// The line is neither a section nor a setting.
    #[error("expected NAME = VALUE")]
    Setting,
    /// There is no name before the equals sign.
    #[error("a name is missing before =")]
    Name,
    /// A quote is not closed.
    #[error("a quote is not closed")]
    Quote,
    /// An unescaped comment character within quotes, which stock programs refuse.
    #[error("# or ; within quotes needs a backslash before it")]
    QuotedComment,
    /// There is text after the closing quote.
    #[error("unexpected text after the closing quote")]
    AfterQuote,
}

/// The lines with content, each with the number (from 1) of its first physical line.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, Result<Line, SyntaxError>)> {
    logical_lines(text.strip_prefix('\u{feff}').unwrap_or(text))
        .filter_map(|(number, line)| parse_line(&line).transpose().map(|parsed| (number, parsed)))
}

/// Normalizes a setting's name: spaces, dashes and underscores are equivalent, and several count as one.
pub fn normalize(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for word in name.split(|c: char| c.is_whitespace() || c == '_' || c == '-').filter(|w| !w.is_empty()) {
        if !out.is_empty() {
            out.push('_');
        }
        out.push_str(word);
    }
    out
}

/// Joins lines that end with a backslash to their successors.
fn logical_lines(text: &str) -> impl Iterator<Item = (usize, Cow<'_, str>)> {
    let mut physical = text.lines().enumerate();
    std::iter::from_fn(move || {
        let (index, first) = physical.next()?;
        let mut line = Cow::Borrowed(first);
        while ends_in_continuation(&line) {
            let joined = line.to_mut();
            joined.pop();
            match physical.next() {
                Some((_, more)) => joined.push_str(more),
                None => break,
            }
        }
        Some((index + 1, line))
    })
}

/// Whether the next line continues this one. A line with a comment is not continued.
pub fn ends_in_continuation(line: &str) -> bool {
    if has_comment(line) {
        return false;
    }
    let backslashes = line.bytes().rev().take_while(|b| *b == b'\\').count();
    backslashes % 2 == 1
}

fn has_comment(line: &str) -> bool {
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '#' | ';' => return true,
            '\\' => drop(chars.next()),
            _ => {}
        }
    }
    false
}

fn parse_line(line: &str) -> Result<Option<Line>, SyntaxError> {
    let line = line.trim();
    if line.is_empty() || line.starts_with(['#', ';']) {
        return Ok(None);
    }
    if let Some(rest) = line.strip_prefix('[') {
        let (name, after) = rest.split_once(']').ok_or(SyntaxError::Section)?;
        let after = after.trim_start();
        if !after.is_empty() && !after.starts_with(['#', ';']) {
            return Err(SyntaxError::Section);
        }
        return Ok(Some(Line::Section(name.trim().to_owned())));
    }
    let (name, value) = line.split_once('=').ok_or(SyntaxError::Setting)?;
    let name = normalize(name);
    if name.is_empty() {
        return Err(SyntaxError::Name);
    }
    Ok(Some(Line::Setting { name, value: parse_value(value.trim_start())? }))
}

fn parse_value(raw: &str) -> Result<String, SyntaxError> {
    match raw.chars().next() {
        Some(quote @ ('"' | '\'')) => quoted(&raw[1..], quote),
        _ => Ok(unquoted(raw)),
    }
}

/// Parses up to the closing quote; a backslash escapes the next character. Leading and trailing spaces
/// are removed, as stock programs do.
fn quoted(raw: &str, quote: char) -> Result<String, SyntaxError> {
    let mut value = String::with_capacity(raw.len());
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => value.extend(chars.next()),
            c if c == quote => {
                let after = chars.as_str().trim_start();
                let clean = after.is_empty() || after.starts_with(['#', ';']);
                return if clean { Ok(value.trim().to_owned()) } else { Err(SyntaxError::AfterQuote) };
            }
            '#' | ';' => return Err(SyntaxError::QuotedComment),
            c => value.push(c),
        }
    }
    Err(SyntaxError::Quote)
}

/// Parses up to a comment; a backslash escapes the next character, so `\#` and `\;` do not start one.
fn unquoted(raw: &str) -> String {
    let mut value = String::with_capacity(raw.len());
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        match c {
            '#' | ';' => break,
            '\\' => value.extend(chars.next()),
            c => value.push(c),
        }
    }
    value.truncate(value.trim_end().len());
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(text: &str) -> Result<String, SyntaxError> {
        match lines(text).next() {
            Some((_, Ok(Line::Setting { value, .. }))) => Ok(value),
            Some((_, Err(e))) => Err(e),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn names_have_one_form() {
        for name in ["mon host", "mon_host", "mon-host", "mon  host", " mon\thost "] {
            assert_eq!(normalize(name), "mon_host");
        }
    }

    #[test]
    fn values_lose_quotes_comments_and_continuations() {
        assert_eq!(setting("a = b # c").unwrap(), "b");
        assert_eq!(setting("a = b \\# c ; d").unwrap(), "b # c");
        assert_eq!(setting("a = \"b \\# c\" ; d").unwrap(), "b # c");
        assert_eq!(setting("a = 'say \"x\"'").unwrap(), "say \"x\"");
        assert_eq!(setting("a = \"x \\\" y\"").unwrap(), "x \" y");
        assert_eq!(setting("a = one,\\\n two").unwrap(), "one, two");
        assert_eq!(setting("a =").unwrap(), "");
        assert_eq!(setting("a = \"b"), Err(SyntaxError::Quote));
        assert_eq!(setting("a = \"b\" c"), Err(SyntaxError::AfterQuote));
        assert_eq!(setting("= b"), Err(SyntaxError::Name));
        assert_eq!(setting("no equals sign"), Err(SyntaxError::Setting));
    }

    /// Written values, each with the output of `ceph-conf --lookup` of 16.2.15; `None`: the file is
    /// refused.
    const AS_STOCK: &[(&str, Option<&str>)] = &[
        (r"a\b", Some("ab")),
        (r"a\\b", Some(r"a\b")),
        (r"C:\dir\file", Some("C:dirfile")),
        (r"a\ b", Some("a b")),
        (r"a\#b", Some("a#b")),
        (r"\#a", Some("#a")),
        (r"a\\", Some(r"a\")),
        ("a#b", Some("a")),
        ("a;b", Some("a")),
        ("  a   b  ", Some("a   b")),
        (r#"a"b"#, Some(r#"a"b"#)),
        (r#"a\"b"#, Some(r#"a"b"#)),
        (r#"\"a\""#, Some(r#""a""#)),
        (r#"x"y#z"w"#, Some(r#"x"y"#)),
        (r#""a\"b""#, Some(r#"a"b"#)),
        (r#""a\nb""#, Some("anb")),
        (r#""a\#b" # c"#, Some("a#b")),
        (r#""a#b""#, None),
        (r#""a;b""#, None),
        ("'a#b'", None),
        (r"'a\'b'", Some("a'b")),
        (r#"" a ""#, Some("a")),
        (r#""""#, Some("")),
        (r#""a"#, None),
        (r#""a" b"#, None),
    ];

    #[test]
    fn values_are_read_as_stock_reads_them() {
        for (written, value) in AS_STOCK {
            assert_eq!(setting(&format!("x = {written}")).ok().as_deref(), *value, "{written}");
        }
    }

    #[test]
    #[ignore = "needs stock Ceph; run by cargo xtask test"]
    fn ceph_conf_reads_these_values_so() {
        let file = std::env::temp_dir().join(format!("loligo-values-{}.conf", std::process::id()));
        for (written, value) in AS_STOCK {
            std::fs::write(&file, format!("[global]\nx = {written}\n")).unwrap();
            let mut stock = std::process::Command::new("ceph-conf");
            let shown = stock.arg("-c").arg(&file).args(["--lookup", "x"]).output().unwrap();
            let text = String::from_utf8(shown.stdout.clone()).unwrap();
            let text = text.strip_suffix('\n').unwrap_or(&text);
            // `ceph-conf` reports an empty value as missing.
            let said = shown.status.success() || (shown.stderr.is_empty() && text.is_empty());
            assert_eq!(said.then_some(text), *value, "{written}: {shown:?}");
        }
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn numbers_are_those_of_the_first_physical_line() {
        let text = "\u{feff}# head\n\n[ osd.0 ] ; x\nk = a \\\n b\r\nl = c\n";
        let all: Vec<_> = lines(text).map(|(n, l)| (n, l.unwrap())).collect();
        assert_eq!(all[0], (3, Line::Section("osd.0".into())));
        assert_eq!(all[1], (4, Line::Setting { name: "k".into(), value: "a  b".into() }));
        assert_eq!(all[2], (6, Line::Setting { name: "l".into(), value: "c".into() }));
    }
}
