//! `config assimilate-conf`: imports a ceph.conf into the configuration database, and returns the
//! settings that it cannot store.

use std::collections::{BTreeMap, BTreeSet};

use loligo_conf::table as options;

use super::config::{checked, section_of};
use super::{Call, Failure, Outcome, Reply};
use crate::state::config::split_mask;

/// Options by section.
type Sections = BTreeMap<String, BTreeMap<String, String>>;

pub(super) fn assimilate(call: &mut Call<'_>) -> Outcome {
    let (taken, left) = sort(call, parse(&String::from_utf8_lossy(call.input))?);
    if !taken.is_empty() {
        let settings = taken
            .iter()
            .map(|(section, name, value)| ((section.as_str(), name.as_str()), Some(value.as_str())));
        call.state.change_config(call.now, "", settings);
    }
    Ok(Reply::output(print(&left)))
}

/// Splits the settings into those to store and those to return. The latter are unknown options, options
/// that must not be stored, invalid values, and settings for which the section already has another
/// value.
fn sort(call: &Call<'_>, given: Sections) -> (Vec<(String, String, String)>, Sections) {
    let config = call.state.config();
    let there: BTreeMap<(&str, &str), BTreeSet<&str>> =
        config.iter().fold(BTreeMap::new(), |mut there, (section, name, value)| {
            there.entry((split_mask(section).0, name)).or_insert_with(BTreeSet::new).insert(value);
            there
        });
    let (mut taken, mut left) = (Vec::new(), Sections::new());
    for (section, settings) in given {
        let target = section_of(&section);
        for (name, value) in settings {
            let option = options::find(&name).and_then(|option| checked(option, &value).ok());
            let accepted = target.clone().zip(option).and_then(|(target, checked)| {
                let known = there.get(&(split_mask(&target).0, name.as_str()));
                let same = known.is_none_or(|values| values.contains(checked.as_str()));
                same.then_some((target, name.clone(), checked))
            });
            match accepted {
                Some(setting) => taken.push(setting),
                None => drop(left.entry(section.clone()).or_default().insert(name, value)),
            }
        }
    }
    (taken, left)
}

fn print(sections: &Sections) -> String {
    let mut out = String::new();
    for (section, settings) in sections {
        out += &format!("\n[{section}]\n");
        settings.iter().for_each(|(name, value)| out += &format!("\t{name} = {value}\n"));
    }
    out
}

/// Parses a ceph.conf. Lines before the first section belong to `global`.
fn parse(text: &str) -> Result<Sections, Failure> {
    let mut sections = Sections::new();
    let mut section = "global".to_owned();
    for (at, line) in text.lines().enumerate() {
        let line = line.split(['#', ';']).next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let wrong = |expected: &str, position: usize| {
            let at = at + 1;
            Failure::invalid(format!(
                "parse error: expected '{expected}' in line {at} at position {position}\n"
            ))
        };
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.strip_suffix(']').ok_or_else(|| wrong("\"]\"", line.len() + 1))?;
            section = name.trim().to_owned();
            continue;
        }
        let (name, value) = line.split_once('=').ok_or_else(|| wrong("<eoi>", 1))?;
        let value = value.trim();
        let quoted = value.len() > 1 && value.starts_with(['"', '\'']) && value.ends_with(&value[..1]);
        let value = if quoted { &value[1..value.len() - 1] } else { value };
        let name = name.trim().replace([' ', '-'], "_");
        sections.entry(section.clone()).or_default().insert(name, value.to_owned());
    }
    Ok(sections)
}
