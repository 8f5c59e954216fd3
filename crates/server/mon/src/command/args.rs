//! Arguments of commands: JSON objects, checked against a signature.

use std::fmt;

use serde_json::{Map, Value};

use super::Failure;
use super::signature::{Arg, ArgKind, Command};
use crate::text::without_lone_surrogates;

/// A command's arguments, as JSON.
#[derive(Clone, Debug)]
pub struct Args(Map<String, Value>);

impl Args {
    /// Parses a command: one JSON object.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        match serde_json::from_str(&without_lone_surrogates(text.to_owned())) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            Ok(_) => Err(Failure::invalid(format!("not JSON object {text}"))),
            Err(_) => Err(Failure::invalid(format!("unparseable JSON {text}"))),
        }
    }

    /// No arguments.
    pub fn none() -> Self {
        Self(Map::new())
    }

    /// The command's name.
    pub fn prefix(&self) -> Result<&str, Failure> {
        self.text("prefix").ok_or_else(|| Failure::invalid("command prefix not found"))
    }

    /// Checks that all arguments have the right type, that none is missing, and that there are no
    /// unknown ones. After this check the accessors below return `None` only for arguments that were
    /// omitted.
    pub fn check(&self, command: &Command) -> Result<(), Failure> {
        if let Some(name) = self.0.keys().find(|name| !command.takes(name)) {
            return Err(Failure::invalid(format!("{} takes no '{name}'", command.prefix)));
        }
        let bad = command.args.iter().find(|arg| !self.fits(arg));
        bad.map_or(Ok(()), |arg| Err(Failure::invalid(format!("bad or missing field '{}'", arg.name))))
    }

    fn fits(&self, arg: &Arg) -> bool {
        match (self.0.get(arg.name), arg.many) {
            (None | Some(Value::Null), _) => !arg.required,
            (Some(Value::Array(items)), true) => items.iter().all(|item| arg.kind.takes(item)),
            (Some(value), _) => arg.kind.takes(value),
        }
    }

    /// Whether an argument is given, of any type.
    pub fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| *value != Value::Null)
    }

    /// A string argument.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// A string argument that the signature requires; empty if it is missing.
    pub fn required(&self, name: &str) -> &str {
        self.text(name).unwrap_or_default()
    }

    /// All values of a repeatable string argument.
    pub fn texts(&self, name: &str) -> Vec<&str> {
        match self.0.get(name) {
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(one)) => vec![one],
            _ => Vec::new(),
        }
    }

    /// An integer argument.
    pub fn int(&self, name: &str) -> Option<i64> {
        self.0.get(name)?.as_i64()
    }

    /// A number argument.
    pub fn float(&self, name: &str) -> Option<f64> {
        self.0.get(name)?.as_f64()
    }

    /// All values of a repeatable number argument.
    pub fn floats(&self, name: &str) -> Vec<f64> {
        match self.0.get(name) {
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_f64).collect(),
            Some(one) => one.as_f64().into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// All values of an argument that may be a number or a string, as strings.
    pub fn values(&self, name: &str) -> Vec<String> {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match self.0.get(name) {
            Some(Value::Array(items)) => items.iter().map(text).collect(),
            Some(one) => vec![text(one)],
            None => Vec::new(),
        }
    }

    /// Whether a flag is set. Older clients send the flag's own name instead of `true`.
    pub fn flag(&self, name: &str) -> bool {
        match self.0.get(name) {
            Some(Value::Bool(set)) => *set,
            Some(Value::String(text)) => text == "true" || text.starts_with("--"),
            _ => false,
        }
    }

    /// The arguments of a command as text, for capabilities that depend on them: strings unchanged,
    /// numbers and booleans printed. `caps`, which are pairs of a service and its capability, become
    /// `caps_SERVICE`. Fields that the command does not take are left out, so that exactly the executed
    /// arguments are checked.
    pub fn as_text(&self, command: &Command) -> impl Iterator<Item = (String, String)> {
        let caps = self.texts("caps");
        let (pairs, _) = caps.as_chunks::<2>();
        let pairs: Vec<_> =
            pairs.iter().map(|[service, cap]| (format!("caps_{service}"), (*cap).to_owned())).collect();
        let others = self.0.iter().filter(|(name, _)| *name != "caps" && command.takes(name));
        let others = others.map(|(name, value)| {
            let text = match value {
                Value::String(s) => s.clone(),
                Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
                other => other.to_string(),
            };
            (name.clone(), text)
        });
        others.chain(pairs)
    }
}

impl fmt::Display for Args {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&self.0).unwrap_or_default())
    }
}

impl ArgKind {
    fn takes(&self, value: &Value) -> bool {
        match self {
            Self::Int { min } => value.as_i64().is_some_and(|n| min.is_none_or(|min| n >= min)),
            Self::Float { min } => value.as_f64().is_some_and(|x| min.is_none_or(|min| x >= min)),
            Self::Fraction => value.as_f64().is_some_and(|x| (0.0..=1.0).contains(&x)),
            Self::Bool => value.is_boolean() || value.is_string(),
            // `osd find 0` sends a number, `osd find osd.0` a string.
            Self::OsdName => value.is_string() || value.is_i64(),
            _ => value.is_string(),
        }
    }
}
