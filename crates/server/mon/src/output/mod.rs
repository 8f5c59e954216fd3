//! Output of commands: JSON in the shapes that Ceph's tools expect ([`json`]), the same as XML
//! ([`xml`]), tables for people ([`table`]), and numbers with units ([`units`]).

pub mod json;
pub mod table;
pub mod units;
pub mod xml;

pub use crate::view::one_addr;

/// The format of a command's output (the command's field `format`).
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
    /// Parses a command's `format`; `None` for formats that are not supported (YAML, HTML).
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
