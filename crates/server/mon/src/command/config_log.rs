//! `config log | reset`: the versions of the configuration database. `config show`: the settings that
//! daemons use.

use loligo_conf::table as options;
use loligo_wire::{EntityName, EntityType, OsdId};

use super::{Call, Failure, Outcome, Reply};
use crate::output::json::{Node, object};
use crate::output::table::{Align, Table};
use crate::output::units::stamp;
use crate::state::MON_ID;
use crate::state::config_log::{Change, ChangeSet};

/// Number of versions that `config log` shows by default.
const SHOWN_DEFAULT: i64 = 10;

pub(super) fn log(call: &mut Call<'_>) -> Outcome {
    let shown = usize::try_from(call.args.int("num").unwrap_or(SHOWN_DEFAULT)).unwrap_or(0);
    let sets: Vec<&ChangeSet> = call.state.config_log().iter().rev().take(shown).collect();
    let node = |_: &Call<'_>| Node::array(sets.iter().map(|set| describe(set)));
    Ok(call.print(node, |_| sets.iter().map(|set| text(set)).collect()))
}

/// The first version has no time.
fn when(set: &ChangeSet) -> String {
    if set.stamp.is_zero() { "0.000000".to_owned() } else { stamp(set.stamp) }
}

fn describe(set: &ChangeSet) -> Node {
    let change = |((section, option), Change { old, new }): (&(String, String), &Change)| {
        let mut node = object! { "name": format!("{section}/{option}") };
        let known = [("previous_value", old), ("new_value", new)];
        known.into_iter().for_each(|(name, value)| {
            if let Some(value) = value {
                node.push(name, value.as_str());
            }
        });
        node
    };
    object! {
        "version": set.version, "timestamp": when(set), "name": set.name.as_str(),
        "changes": Node::array(set.changes.iter().map(change)),
    }
}

fn text(set: &ChangeSet) -> String {
    let mut out = format!("--- {} --- {} ---", set.version, when(set));
    if !set.name.is_empty() {
        out += &format!(" {} ---", set.name);
    }
    out.push('\n');
    for ((section, option), Change { old, new }) in &set.changes {
        let line = |sign: &str, value: &String| format!("{sign} {section}/{option} = {value}\n");
        out.extend(old.iter().map(|value| line("-", value)));
        out.extend(new.iter().map(|value| line("+", value)));
    }
    out
}

pub(super) fn reset(call: &mut Call<'_>) -> Outcome {
    let none_such = u64::MAX;
    let version = call.args.int("num").and_then(|num| u64::try_from(num).ok()).unwrap_or(none_such);
    call.state.reset_config(call.now, version)?;
    Ok(Reply::default())
}

/// `config show`: the settings of a daemon that are set.
pub(super) fn show(call: &mut Call<'_>) -> Outcome {
    let who = daemon(call)?;
    let set = call.state.config().settings_at(&who, &call.state.place_of(&who));
    if let Some(key) = call.args.text("key") {
        let default = || options::find(key).map(|option| option.default_for(&who));
        let value = set.get(key).map(|(_, value)| (*value).to_owned()).or_else(default);
        return value.map(|value| Reply::output(value + "\n")).ok_or_else(|| Failure::missing(""));
    }
    let values = set.into_iter().map(|(name, (_, value))| (name, value.to_owned(), FROM_MONITOR));
    let values: Vec<_> = values.collect();
    Ok(show_values(call, &values))
}

/// `config show-with-defaults`: all settings of a daemon, including defaults.
pub(super) fn show_with_defaults(call: &mut Call<'_>) -> Outcome {
    let who = daemon(call)?;
    let set = call.state.config().settings_at(&who, &call.state.place_of(&who));
    let values: Vec<_> = options::all()
        .map(|option| match set.get(option.name) {
            Some((_, value)) => (option.name, (*value).to_owned(), FROM_MONITOR),
            None => (option.name, option.default_for(&who), "default"),
        })
        .collect();
    Ok(show_values(call, &values))
}

/// The source of values that were set with `config set`.
const FROM_MONITOR: &str = "mon";

/// The daemon that a command names. It must be a daemon of this server.
fn daemon(call: &Call<'_>) -> Result<EntityName, Failure> {
    let who = call.args.required("who");
    let invalid = || Failure::invalid("invalid daemon name: use <type>.<id>");
    let name: EntityName = who.parse().map_err(|_| invalid())?;
    let runs = match name.kind {
        EntityType::MON => name.id == MON_ID,
        EntityType::OSD => name.id.parse().is_ok_and(|id| call.state.is_served(OsdId(id))),
        _ => false,
    };
    if runs { Ok(name) } else { Err(Failure::missing(format!("no config state for daemon {who}"))) }
}

fn show_values(call: &Call<'_>, values: &[(&str, String, &str)]) -> Reply {
    let node = |(name, value, source): &(&str, String, &str)| {
        object! { "name": *name, "value": value.as_str(), "source": *source }
    };
    let plain = |_: &Call<'_>| {
        let titles = ["NAME", "VALUE", "SOURCE", "OVERRIDES", "IGNORES"];
        let mut table = Table::new(titles.map(|title| (title, Align::Left)));
        for (name, value, source) in values {
            table.row([*name, value, source, "", ""].map(str::to_owned));
        }
        table.to_string()
    };
    call.print(|_| Node::array(values.iter().map(node)), plain)
}
