//! The configuration database: settings that the monitor hands to clients, and a few that it obeys itself.

use std::collections::BTreeMap;

use loligo_wire::EntityName;

/// Who a setting is for: `global`, a type such as `client`, or a name such as `client.admin`.
pub type Section = String;

/// Settings by section and option.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigDb {
    settings: BTreeMap<(Section, String), String>,
}

impl ConfigDb {
    /// All settings: general ones before those of types and names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let all = |general: bool| {
            let chosen =
                self.settings.iter().filter(move |((section, _), _)| (section == "global") == general);
            chosen.map(|((section, option), value)| (section.as_str(), option.as_str(), value.as_str()))
        };
        all(true).chain(all(false))
    }

    /// Adds or changes a setting; true if that makes a difference.
    pub fn set(&mut self, section: &str, option: &str, value: &str) -> bool {
        let before = self.settings.insert((section.to_owned(), normal(option)), value.to_owned());
        before.as_deref() != Some(value)
    }

    /// Removes a setting; false if there was none.
    pub fn remove(&mut self, section: &str, option: &str) -> bool {
        self.settings.remove(&(section.to_owned(), normal(option))).is_some()
    }

    /// What is set in a section itself.
    pub fn stored(&self, section: &str, option: &str) -> Option<&str> {
        self.settings.get(&(section.to_owned(), normal(option))).map(String::as_str)
    }

    /// The value of an option for a program: of its name, else of its type, else the general one.
    pub fn value(&self, who: &EntityName, option: &str) -> Option<&str> {
        let option = normal(option);
        let sections = [who.to_string(), who.kind.to_string(), "global".to_owned()];
        sections.into_iter().find_map(|s| self.settings.get(&(s, option.clone()))).map(String::as_str)
    }

    /// All that is set for a program, with the section that says so.
    pub fn settings_of(&self, who: &EntityName) -> BTreeMap<&str, (&str, &str)> {
        let name = who.to_string();
        let rank = |section: &str| match section {
            "global" => Some(0),
            s if s == who.kind.as_str() => Some(1),
            s if s == name => Some(2),
            _ => None,
        };
        let mut chosen: Vec<_> = self.iter().filter_map(|s| Some((rank(s.0)?, s))).collect();
        chosen.sort_by_key(|(rank, _)| *rank);
        chosen.into_iter().map(|(_, (section, option, value))| (option, (section, value))).collect()
    }
}

/// Options may be written with blanks or hyphens: `mon allow pool delete`.
pub(super) fn normal(option: &str) -> String {
    option.trim().replace([' ', '-'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_section_wins() {
        let mut db = ConfigDb::default();
        let admin = EntityName::client("admin");
        for (section, value) in [("client.admin", "3"), ("global", "1"), ("client", "2"), ("osd", "9")] {
            assert!(db.set(section, "debug ms", value));
            assert!(!db.set(section, "debug-ms", value));
        }
        assert_eq!(db.value(&admin, "debug_ms"), Some("3"));
        assert_eq!(db.settings_of(&admin).get("debug_ms"), Some(&("client.admin", "3")));
        assert!(db.remove("client.admin", "debug_ms"));
        assert!(!db.remove("client.admin", "debug_ms"));
        assert_eq!(db.value(&admin, "debug ms"), Some("2"));
        assert_eq!(db.settings_of(&EntityName::client("x")).get("debug_ms"), Some(&("client", "2")));
        assert_eq!(db.iter().next(), Some(("global", "debug_ms", "1")));
    }
}
