//! The configuration database: settings that the monitor sends to clients, and a few that apply to the
//! monitor itself.

use std::collections::BTreeMap;

use loligo_wire::EntityName;

/// The scope of a setting: `global`, a type such as `client`, or a name such as `client.admin`. A mask
/// may follow, such as `/host:h`, `/class:ssd` or `/rack:r/class:ssd`.
pub type Section = String;

/// The place where a daemon or client runs. Masks are matched against it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The class of an OSD's device.
    pub class: Option<String>,
    /// Types and names of the CRUSH buckets that contain it, innermost first.
    pub location: Vec<(String, String)>,
}

impl Place {
    /// How specifically a section's mask matches this place; `None` if it does not match.
    fn fit(&self, mask: &str) -> Option<usize> {
        let mut exact = 0;
        for part in mask.split('/').filter(|part| !part.is_empty()) {
            let (kind, wanted) = part.split_once(':')?;
            if kind == "class" {
                self.class.as_deref().filter(|class| *class == wanted)?;
                exact += 1;
            } else {
                let at = self.location.iter().position(|(known, name)| known == kind && name == wanted)?;
                exact += 2 * (self.location.len() - at);
            }
        }
        Some(exact)
    }
}

/// Splits a section into its base and its mask.
pub fn split_mask(section: &str) -> (&str, &str) {
    section.split_once('/').unwrap_or((section, ""))
}

/// The order in which types are listed.
const TYPES: [&str; 5] = ["mon", "mgr", "osd", "mds", "client"];

/// Sort key of a setting: global settings first, then by type, a type before its names, and by option
/// within a section.
fn shown_at((section, option): &(Section, String)) -> (usize, bool, String, String, String) {
    let (base, mask) = split_mask(section);
    let kind = base.split('.').next().unwrap_or_default();
    let rank = TYPES.iter().position(|known| *known == kind).map_or(TYPES.len() + 1, |at| at + 1);
    let rank = if base == "global" { 0 } else { rank };
    // Like the keys under which a stock monitor stores settings: `SECTION/MASK/OPTION`.
    let key = if mask.is_empty() { option.clone() } else { format!("{mask}/{option}") };
    (rank, base.contains('.'), base.to_owned(), option.clone(), key)
}

/// Settings by section and option.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigDb {
    settings: BTreeMap<(Section, String), String>,
}

impl ConfigDb {
    /// All settings, in the order in which a stock monitor lists them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let mut all: Vec<_> = self.settings.iter().collect();
        all.sort_by_cached_key(|(key, _)| shown_at(key));
        all.into_iter().map(|((section, option), value)| (section.as_str(), option.as_str(), value.as_str()))
    }

    /// Adds or changes a setting. Returns `true` if the value changed.
    pub fn set(&mut self, section: &str, option: &str, value: &str) -> bool {
        let before = self.settings.insert((section.to_owned(), normal(option)), value.to_owned());
        before.as_deref() != Some(value)
    }

    /// Removes a setting. Returns `false` if there was none.
    pub fn remove(&mut self, section: &str, option: &str) -> bool {
        self.settings.remove(&(section.to_owned(), normal(option))).is_some()
    }

    /// The value stored in exactly this section.
    pub fn stored(&self, section: &str, option: &str) -> Option<&str> {
        self.settings.get(&(section.to_owned(), normal(option))).map(String::as_str)
    }

    /// The value of an option for a daemon or client whose place is unknown: from its name's section,
    /// else its type's, else `global`.
    pub fn value(&self, who: &EntityName, option: &str) -> Option<&str> {
        self.value_at(who, &Place::default(), option)
    }

    /// The value of an option for a daemon or client at a place.
    pub fn value_at(&self, who: &EntityName, place: &Place, option: &str) -> Option<&str> {
        let option = normal(option);
        let fitting = self.settings.iter().filter(|((_, known), _)| *known == option);
        let fitting = fitting.filter_map(|((section, _), value)| Some((rank(section, who, place)?, value)));
        fitting.max_by_key(|(rank, _)| *rank).map(|(_, value)| value.as_str())
    }

    /// All settings of a daemon or client whose place is unknown, each with the section that it comes
    /// from.
    pub fn settings_of(&self, who: &EntityName) -> BTreeMap<&str, (&str, &str)> {
        self.settings_at(who, &Place::default())
    }

    /// All settings of a daemon or client at a place, each with its section.
    pub fn settings_at(&self, who: &EntityName, place: &Place) -> BTreeMap<&str, (&str, &str)> {
        let ranked = |setting: (_, _, _)| Some((rank(setting.0, who, place)?, setting));
        let mut chosen: Vec<_> = self.iter().filter_map(ranked).collect();
        chosen.sort_by_key(|(rank, _)| *rank);
        chosen.into_iter().map(|(_, (section, option, value))| (option, (section, value))).collect()
    }
}

/// How specifically a section applies to a daemon or client at a place: by base, then by mask. Returns
/// `None` if it does not apply.
fn rank(section: &str, who: &EntityName, place: &Place) -> Option<(usize, usize)> {
    let (base, mask) = split_mask(section);
    let closeness = match base {
        "global" => 0,
        base if base == who.kind.as_str() => 1,
        base if *base == who.to_string() => 2,
        _ => return None,
    };
    Some((closeness, place.fit(mask)?))
}

/// Normalizes an option's name, which may be written with blanks or hyphens: `mon allow pool delete`.
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

    #[test]
    fn masks_choose_by_class_and_place() {
        let mut db = ConfigDb::default();
        let osd: EntityName = "osd.0".parse().expect("a name");
        for (section, value) in [
            ("osd", "1"),
            ("osd/class:ssd", "2"),
            ("osd/host:h", "3"),
            ("osd/host:h/class:hdd", "4"),
            ("osd/rack:r", "5"),
        ] {
            db.set(section, "osd_max_backfills", value);
        }
        let at = |class: &str, location: &[(&str, &str)]| {
            let location = location.iter().map(|(kind, name)| ((*kind).to_owned(), (*name).to_owned()));
            let place = Place { class: Some(class.to_owned()), location: location.collect() };
            db.value_at(&osd, &place, "osd_max_backfills").map(str::to_owned)
        };
        let (host, rack) = (("host", "h"), ("rack", "r"));
        assert_eq!(at("nvme", &[]).as_deref(), Some("1"));
        assert_eq!(at("ssd", &[("host", "other")]).as_deref(), Some("2"));
        assert_eq!(at("ssd", &[host]).as_deref(), Some("3"));
        assert_eq!(at("hdd", &[host, rack]).as_deref(), Some("4"));
        assert_eq!(at("hdd", &[("host", "other"), rack]).as_deref(), Some("5"));
        assert_eq!(db.value(&osd, "osd_max_backfills"), Some("1"));
        let shown: Vec<_> = db.iter().map(|(section, ..)| section).collect();
        assert_eq!(shown, ["osd/class:ssd", "osd/host:h/class:hdd", "osd/host:h", "osd", "osd/rack:r"]);
    }

    #[test]
    fn settings_are_shown_in_the_order_of_a_stock_monitor() {
        let mut db = ConfigDb::default();
        for section in ["client.foo", "client", "osd.0", "osd", "global", "mon"] {
            db.set(section, "debug_ms", "1");
        }
        let shown: Vec<_> = db.iter().map(|(section, ..)| section).collect();
        assert_eq!(shown, ["global", "mon", "osd", "osd.0", "client", "client.foo"]);
    }
}
