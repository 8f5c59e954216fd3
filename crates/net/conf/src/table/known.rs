//! All options that this project or stock programs of 16.2.15, 18.2.7 or 20.2.4 accept.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::{OptionFacts, Rejected, find, value};
use crate::{acts, value as forms};

/// The names of the options that stock programs of 18.2.7 and 20.2.4 accept (`ceph-conf --show-config`)
/// and that are not in the table, which has those of 16.2.15. One per line, with ` bool` behind
/// booleans.
const LATER: &str = include_str!("later.txt");

static LATER_BY_NAME: LazyLock<BTreeMap<&str, bool>> = LazyLock::new(|| {
    LATER.lines().map(|line| line.split_once(' ').map_or((line, false), |(name, _)| (name, true))).collect()
});

/// An option that can be set.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its name, with underscores.
    pub name: &'static str,
    /// Whether it is a boolean.
    pub is_bool: bool,
    source: Source,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    Table(&'static OptionFacts),
    /// An option of a release later than the table's.
    Later,
    /// The log level of a subsystem that Ceph does not have.
    Ours,
}

/// An accepted value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The value in the form that this project reads.
    pub value: String,
    /// A warning for the user, if any.
    pub warning: Option<String>,
}

/// Returns the option with this name, written with underscores.
pub fn known(name: &str) -> Option<Known> {
    if let Some(facts) = find(name).filter(|facts| facts.name == name) {
        return Some(Known { name: facts.name, is_bool: facts.is_bool(), source: Source::Table(facts) });
    }
    if let Some((name, is_bool)) = LATER_BY_NAME.get_key_value(name) {
        return Some(Known { name, is_bool: *is_bool, source: Source::Later });
    }
    let ours = acts::names().find(|ours| *ours == name)?;
    Some(Known { name: ours, is_bool: false, source: Source::Ours })
}

/// The names of all options.
pub fn names() -> impl Iterator<Item = &'static str> {
    let ours = acts::names().filter(|name| matches!(known(name), Some(Known { source: Source::Ours, .. })));
    super::all().map(|option| option.name).chain(LATER_BY_NAME.keys().copied()).chain(ours)
}

impl Known {
    /// The table's entry; only options of 16.2 have one.
    pub fn facts(&self) -> Option<&'static OptionFacts> {
        match self.source {
            Source::Table(facts) => Some(facts),
            Source::Later | Source::Ours => None,
        }
    }

    /// The option's effect in this project; `None` if it has none.
    pub fn acts(&self) -> Option<&'static str> {
        acts::of(self.name)
    }

    /// Whether the option exists only in releases later than 16.2.
    pub fn is_later(&self) -> bool {
        matches!(self.source, Source::Later)
    }

    /// The type of the values, if known.
    pub fn kind(&self) -> Option<&'static str> {
        match self.source {
            Source::Table(facts) => Some(facts.kind()),
            Source::Later => self.is_bool.then_some("bool"),
            Source::Ours => Some("level"),
        }
    }

    /// Checks a value, and returns it in the form in which it is read.
    ///
    /// # Errors
    /// The value has another type, or is out of bounds.
    pub fn accept(&self, text: &str) -> Result<Accepted, Rejected> {
        let plain = |value: String| Accepted { value, warning: None };
        match self.source {
            Source::Table(facts) => match facts.parse_value(text) {
                // The original text is kept: six decimals are only the form that a monitor stores.
                Ok(_) if facts.kind == "float" => Ok(plain(text.to_owned())),
                Ok(value) if facts.kind == "level" => Ok(plain(value::levels(&value))),
                Ok(value) => Ok(plain(value)),
                Err(_) if facts.kind == "secs" && forms::duration(text).is_some() => Ok(Accepted {
                    value: text.to_owned(),
                    warning: Some(format!(
                        "option {} = '{text}' is taken here, but not by stock programs: they take whole seconds",
                        self.name
                    )),
                }),
                Err(why) => Err(why),
            },
            Source::Later if self.is_bool => value::boolean(text).map(|set| plain(set.to_string())),
            Source::Later => Ok(plain(text.to_owned())),
            Source::Ours => value::level(text).map(|text| plain(value::levels(&text))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_the_table_and_of_later_releases_is_known() {
        let all: Vec<_> = names().collect();
        assert!(all.len() > 1808 + 300, "{}", all.len());
        assert!(all.iter().all(|name| known(name).is_some_and(|known| known.name == *name)));
        for (name, kind) in [
            ("rbd_cache", Some("bool")),
            ("debug_msgr", Some("level")),
            ("auth_exit_on_failure", None),
            ("rbd_default_order", Some("uint")),
        ] {
            assert_eq!(known(name).expect(name).kind(), kind, "{name}");
        }
        assert!(known("nosuch").is_none() && known("rbd cache").is_none() && known("rbd-cache").is_none());
    }

    #[test]
    fn options_that_act_are_known() {
        assert!(acts::names().all(|name| known(name).is_some_and(|known| known.acts().is_some())));
        assert!(known("rbd_cache").expect("it is known").acts().is_none());
    }

    #[test]
    fn levels_are_two_numbers() {
        for (said, read) in [("1", "1/1"), ("1/5", "1/5"), ("1/x", "1/1"), ("1/2/3", "1/2"), (" 1", "1/1")] {
            assert_eq!(known("debug_ms").expect("it is known").accept(said).expect("taken").value, read);
        }
    }

    #[test]
    fn fractions_of_seconds_are_taken_with_a_word() {
        let accepted = known("rados_osd_op_timeout").expect("it is known").accept("0.3").expect("taken");
        assert_eq!(accepted.value, "0.3");
        assert!(accepted.warning.expect("a warning").contains("stock programs"));
        assert!(known("rados_osd_op_timeout").expect("it is known").accept("-1").is_err());
    }
}
