//! What commands print: JSON in the shapes that Ceph's tools expect ([`json`]), the same as XML ([`xml`]),
//! tables for people ([`table`]), and numbers with units ([`units`]).

pub mod json;
pub mod table;
pub mod units;
pub mod xml;

pub use crate::view::one_addr;

/// How a command's output is wanted (`format` in the command).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Plain,
    /// JSON on one line.
    Json,
    /// JSON, indented.
    JsonPretty,
    /// XML on one line.
    Xml,
    /// XML, indented.
    XmlPretty,
}

impl Format {
    /// The format that a command asks for; `None` for one that we do not write (YAML, HTML).
    pub fn parse(name: Option<&str>) -> Option<Self> {
        match name {
            None | Some("plain") => Some(Self::Plain),
            Some("json") => Some(Self::Json),
            Some("" | "json-pretty") => Some(Self::JsonPretty),
            Some("xml") => Some(Self::Xml),
            Some("xml-pretty") => Some(Self::XmlPretty),
            Some(_) => None,
        }
    }
}
