//! JSON values that keep the order of their fields, and print as Ceph's formatter does.

use std::fmt::{self, Write as _};

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Int(i64),
    /// A number that may not fit an `i64`.
    UInt(u64),
    /// A number that may have a fraction. Without a fraction it prints as an integer, as Ceph does.
    Float(f64),
    /// A string.
    Str(String),
    /// An array.
    Array(Vec<Node>),
    /// An object. The fields print in this order.
    Object(Vec<(String, Node)>),
}

/// Makes a [`Node::Object`]: `object! { "epoch": 3, "pools": vec![...] }`.
#[macro_export]
macro_rules! object {
    ($($name:literal: $value:expr),* $(,)?) => {
        $crate::output::json::Node::Object(vec![$(($name.to_owned(), $crate::output::json::Node::from($value))),*])
    };
}
pub use object;

impl Node {
    /// Creates an array from an iterator.
    pub fn array<T: Into<Node>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }

    /// Creates an object from an iterator of fields.
    pub fn map<K: ToString, V: Into<Node>>(fields: impl IntoIterator<Item = (K, V)>) -> Self {
        Self::Object(fields.into_iter().map(|(k, v)| (k.to_string(), v.into())).collect())
    }

    /// Adds a field to an object; has no effect on other nodes.
    pub fn push(&mut self, name: &str, value: impl Into<Node>) {
        if let Self::Object(fields) = self {
            fields.push((name.to_owned(), value.into()));
        }
    }

    /// Formats the value over several lines, indented by four blanks per level.
    pub fn pretty(&self) -> String {
        let mut out = String::new();
        self.write_pretty(&mut out, 0).expect("writing to a string does not fail");
        out
    }

    fn write_pretty(&self, out: &mut String, depth: usize) -> fmt::Result {
        match self {
            Self::Array(items) if !items.is_empty() => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    new_line(out, i, depth + 1);
                    item.write_pretty(out, depth + 1)?;
                }
                new_line(out, 0, depth);
                out.push(']');
                Ok(())
            }
            Self::Object(fields) if !fields.is_empty() => {
                out.push('{');
                for (i, (name, value)) in fields.iter().enumerate() {
                    new_line(out, i, depth + 1);
                    write_string(out, name)?;
                    out.push_str(": ");
                    value.write_pretty(out, depth + 1)?;
                }
                new_line(out, 0, depth);
                out.push('}');
                Ok(())
            }
            flat => write!(out, "{flat}"),
        }
    }
}

/// Separates an item from the previous one with a comma, and begins a new line.
fn new_line(out: &mut String, index: usize, depth: usize) {
    if index > 0 {
        out.push(',');
    }
    out.push('\n');
    (0..depth).for_each(|_| out.push_str("    "));
}

/// Formats the value on one line.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(b) => write!(f, "{b}"),
            Self::Int(n) => write!(f, "{n}"),
            Self::UInt(n) => write!(f, "{n}"),
            Self::Float(x) if x.is_finite() => write!(f, "{x}"),
            Self::Float(_) => f.write_str("null"),
            Self::Str(s) => write_string(f, s),
            Self::Array(items) => {
                f.write_char('[')?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i > 0 { "," } else { "" })?;
                }
                f.write_char(']')
            }
            Self::Object(fields) => {
                f.write_char('{')?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    f.write_str(if i > 0 { "," } else { "" })?;
                    write_string(f, name)?;
                    write!(f, ":{value}")?;
                }
                f.write_char('}')
            }
        }
    }
}

fn write_string(out: &mut impl fmt::Write, s: &str) -> fmt::Result {
    out.write_char('"')?;
    for c in s.chars() {
        match c {
            '"' => out.write_str("\\\"")?,
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            '\t' => out.write_str("\\t")?,
            c if c.is_control() => write!(out, "\\u{:04x}", c as u32)?,
            c => out.write_char(c)?,
        }
    }
    out.write_char('"')
}

macro_rules! from {
    ($($source:ty => $variant:ident as $target:ty),* $(,)?) => {
        $(impl From<$source> for Node {
            fn from(v: $source) -> Self {
                Self::$variant(<$target>::from(v))
            }
        })*
    };
}

from! {
    bool => Bool as bool,
    u8 => UInt as u64,
    u32 => UInt as u64,
    u64 => UInt as u64,
    i32 => Int as i64,
    i64 => Int as i64,
    f32 => Float as f64,
    f64 => Float as f64,
    &str => Str as String,
    String => Str as String,
    Vec<Node> => Array as Vec<Node>,
}

impl From<usize> for Node {
    fn from(n: usize) -> Self {
        Self::UInt(n as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_ceph_does() {
        let node = object! {
            "epoch": 3u32,
            "name": "a\"b\\c\nd\u{1}é",
            "ratio": 0.5,
            "whole": 1.0,
            "none": Vec::new(),
            "empty": object! {},
            "list": Node::array([1, -2]),
        };
        assert_eq!(
            node.to_string(),
            r#"{"epoch":3,"name":"a\"b\\c\nd\u0001é","ratio":0.5,"whole":1,"none":[],"empty":{},"list":[1,-2]}"#
        );
        let pretty = object! { "a": object! {}, "b": Node::array([1, 2]) }.pretty();
        assert_eq!(pretty, "{\n    \"a\": {},\n    \"b\": [\n        1,\n        2\n    ]\n}");
    }

    #[test]
    fn what_it_prints_is_json() {
        let node = object! { "s": "\u{0}\u{1f}\u{7f}\u{2028}\"", "u": u64::MAX, "f": f64::NAN };
        for text in [node.to_string(), node.pretty()] {
            let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(parsed["s"], "\u{0}\u{1f}\u{7f}\u{2028}\"");
            assert_eq!(parsed["u"], u64::MAX);
        }
    }
}
