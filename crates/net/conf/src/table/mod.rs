//! The options of a cluster of release 16.2: their types, permitted values and defaults.
//!
//! Each line of the table `options.txt` describes one option: name, type, level, flags (`r`: may change
//! while a program runs; `n`: cannot be stored by the monitor), default, default of daemons, least and
//! greatest value, and the permitted words.

mod known;
mod value;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use loligo_wire::{EntityName, EntityType};

pub use known::{Accepted, Known, known, names};
pub use value::{Rejected, parse_size};

const TABLE: &str = include_str!("options.txt");

/// An option.
#[derive(Clone, Copy, Debug)]
pub struct OptionFacts {
    /// Its name, with underscores.
    pub name: &'static str,
    /// The intended users: `basic`, `advanced` or `dev`.
    pub level: &'static str,
    /// Whether a running program accepts a new value.
    pub at_runtime: bool,
    /// Whether the monitor may distribute the option.
    pub storable: bool,
    kind: &'static str,
    default: &'static str,
    daemon_default: &'static str,
    min: &'static str,
    max: &'static str,
    words: &'static str,
}

impl OptionFacts {
    fn parse(line: &'static str) -> Self {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap_or_default();
        let (name, kind, level, flags) = (next(), next(), next(), next());
        let (default, daemon_default, min, max, words) = (next(), next(), next(), next(), next());
        let (at_runtime, storable) = (flags.contains('r'), !flags.contains('n'));
        Self { name, level, at_runtime, storable, kind, default, daemon_default, min, max, words }
    }

    /// The default value for a program.
    pub fn default_for(&self, who: &EntityName) -> String {
        let default = match self.daemon_default {
            "" => self.default,
            _ if who.kind == EntityType::CLIENT => self.default,
            daemons => daemons,
        };
        // Words are returned as in the table, numbers in their stored form.
        let number = Some(default).filter(|_| self.kind == "float");
        number.and_then(|text| self.parse_value(text).ok()).unwrap_or_else(|| default.to_owned())
    }

    /// The default for daemons; empty if it is the same as for clients.
    pub fn daemon_default(&self) -> &'static str {
        self.daemon_default
    }

    /// The type of the values: `bool`, `int`, `uint`, `size` (bytes), `float`, `secs`, `millisecs`,
    /// `str`, `addr`, `addrvec`, `uuid`, or `level` (of a log).
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The least and the greatest value; `None` without a bound.
    pub fn bounds(&self) -> (Option<&'static str>, Option<&'static str>) {
        let bound = |text: &'static str| (!text.is_empty()).then_some(text);
        (bound(self.min), bound(self.max))
    }

    /// The permitted words; if there are none, all values are permitted.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        self.words.split('|').filter(|word| !word.is_empty())
    }

    /// Whether the option is a boolean.
    pub fn is_bool(&self) -> bool {
        self.kind == "bool"
    }

    /// Whether monitors list the option; they do not list log levels.
    pub fn listed(&self) -> bool {
        self.kind != "level"
    }

    /// Converts `text` to the form in which the value is stored and shown.
    ///
    /// # Errors
    /// The value has another type, or is out of bounds.
    pub fn parse_value(&self, text: &str) -> Result<String, Rejected> {
        value::parse(self, text)
    }
}

static OPTIONS: LazyLock<Vec<OptionFacts>> =
    LazyLock::new(|| TABLE.lines().map(OptionFacts::parse).collect());
static BY_NAME: LazyLock<BTreeMap<&str, &OptionFacts>> =
    LazyLock::new(|| OPTIONS.iter().map(|option| (option.name, option)).collect());

/// All options, in Ceph's order.
pub fn all() -> impl Iterator<Item = &'static OptionFacts> {
    OPTIONS.iter()
}

/// Returns the option with this name, in which spaces may replace underscores.
pub fn find(name: &str) -> Option<&'static OptionFacts> {
    BY_NAME.get(name.replace(' ', "_").as_str()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_whole() {
        let kinds = [
            "level",
            "bool",
            "int",
            "uint",
            "str",
            "float",
            "size",
            "secs",
            "addr",
            "millisecs",
            "uuid",
            "addrvec",
        ];
        assert_eq!(all().count(), 1808);
        for option in all() {
            assert!(kinds.contains(&option.kind), "{option:?}");
            assert!(["basic", "advanced", "dev"].contains(&option.level), "{option:?}");
            let mut bounds = [option.min, option.max].into_iter().filter(|bound| !bound.is_empty());
            assert!(bounds.all(|bound| bound.parse::<f64>().is_ok()), "{option:?}");
        }
    }

    #[test]
    fn defaults_depend_on_the_program() {
        let debug = find("debug ms").expect("it is known");
        assert_eq!(debug.default_for(&EntityName::client("x")), "0/0");
        let differs = all().find(|option| option.kind == "str" && !option.daemon_default.is_empty());
        let differs = differs.expect("there are some");
        let osd: EntityName = "osd.0".parse().expect("a name");
        assert_eq!(differs.default_for(&osd), differs.daemon_default);
        assert!(find("rbd-cache").is_none() && find("nosuch").is_none());
    }
}
