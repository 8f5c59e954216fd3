//! What a client asks.

use std::collections::BTreeMap;

use serde::Serialize as _;
use serde_json::{Serializer, Value};

/// What a client wants to know or have done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub(crate) args: BTreeMap<String, String>,
}

impl Request {
    /// An argument, if it was given.
    pub fn arg(&self, name: &str) -> Option<&str> {
        self.args.get(name).map(String::as_str)
    }

    /// An answer in JSON, in the format that the client asked for: `json` on one line, else indented.
    pub fn json(&self, value: &Value) -> String {
        if self.arg("format") == Some("json") {
            return value.to_string();
        }
        let mut out = Vec::new();
        let indent = serde_json::ser::PrettyFormatter::with_indent(b"    ");
        let written = value.serialize(&mut Serializer::with_formatter(&mut out, indent));
        match written.map(|()| String::from_utf8(out)) {
            Ok(Ok(text)) => text + "\n",
            _ => value.to_string(),
        }
    }
}
