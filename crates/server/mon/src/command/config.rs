//! `config …`: settings that the monitor sends to clients when they connect, and that apply to the
//! monitor itself.

use loligo_conf::table::{self as options, OptionFacts};
use loligo_wire::{EntityName, EntityType};

use super::{Call, Errno, Failure, Outcome, Reply};
use crate::output::json::{Node, object};
use crate::output::table::{Align, Table};
use crate::state::config::split_mask;

pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let name = call.args.required("name").trim();
    let value = call.args.required("value");
    let value = match options::find(name) {
        Some(option) => checked(option, value)?,
        // `force` stores options that only other releases know.
        None if call.args.flag("force") => value.to_owned(),
        None => return Err(Failure::invalid(format!("unrecognized config option '{name}'"))),
    };
    let (who, name) = (section(call)?, option(call, "name")?);
    call.state.set_config(call.now, &who, &name, &value);
    Ok(Reply::default())
}

/// Checks a value, and returns it in its stored form.
pub(super) fn checked(option: &OptionFacts, value: &str) -> Result<String, Failure> {
    let value = option.parse_value(value).map_err(|rejected| {
        let errno = if rejected.out_of_range { Errno::ERANGE } else { Errno::EINVAL };
        Failure::new(errno, format!("error parsing value: {}", rejected.why))
    })?;
    match option.storable {
        true => Ok(value),
        false => Err(Failure::invalid(format!("{} is special and cannot be stored by the mon", option.name))),
    }
}

/// Lists the options that may be set. Most of them concern daemons that do not exist here.
pub(super) fn ls(call: &mut Call<'_>) -> Outcome {
    let names = || options::all().filter(|option| option.listed()).map(|option| option.name);
    Ok(call.print(|_| Node::array(names()), |_| names().map(|name| format!("{name}\n")).collect()))
}

pub(super) fn rm(call: &mut Call<'_>) -> Outcome {
    let (who, name) = (section(call)?, option(call, "name")?);
    call.state.remove_config(call.now, &who, &name);
    Ok(Reply::default())
}

pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let who = whoever(call)?;
    let (config, place) = (call.state.config(), call.state.place_of(&who));
    if let Some(key) = call.args.text("key") {
        let missing = || Failure::missing(format!("unrecognized key '{key}'"));
        let option = options::find(key).ok_or_else(missing)?;
        let value = match config.value_at(&who, &place, key) {
            Some(value) => value.to_owned(),
            // All daemons and clients of a cluster have the same `fsid`.
            None if option.name == "fsid" => call.state.fsid().to_string(),
            None => option.default_for(&who),
        };
        return Ok(Reply::output(value + "\n"));
    }
    let settings = config.settings_at(&who, &place);
    let node = |_: &Call<'_>| {
        Node::map(settings.iter().map(|(option, (section, value))| {
            let at_runtime = options::find(option).is_some_and(|option| option.at_runtime);
            let (section, mask) = split_mask(section);
            let facts = object! {
                "value": *value, "section": section, "mask": mask_fields(mask), "can_update_at_runtime": at_runtime,
            };
            (option, facts)
        }))
    };
    Ok(call.print(node, |_| {
        table(settings.iter().map(|(option, (section, value))| (*section, *option, *value)))
    }))
}

pub(super) fn dump(call: &mut Call<'_>) -> Outcome {
    let config = call.state.config();
    let node = |_: &Call<'_>| Node::array(config.iter().map(describe));
    Ok(call.print(node, |_| table(config.iter())))
}

fn describe((section, name, value): (&str, &str, &str)) -> Node {
    let facts = options::find(name);
    let (section, mask) = split_mask(section);
    let mut node = object! {
        "section": section, "name": name, "value": value, "level": level(name),
        "can_update_at_runtime": facts.is_some_and(|option| option.at_runtime), "mask": mask,
    };
    if let Node::Object(fields) = mask_fields(mask) {
        fields.into_iter().for_each(|(name, value)| node.push(&name, value));
    }
    node
}

/// A mask as JSON fields.
fn mask_fields(mask: &str) -> Node {
    let mut node = Node::Object(Vec::new());
    for (kind, value) in mask.split('/').filter_map(|part| part.split_once(':')) {
        if kind == "class" {
            node.push("device_class", value);
        } else {
            node.push("location_type", kind);
            node.push("location_value", value);
        }
    }
    node
}

/// The table of settings. Types are indented by two blanks relative to `global`, names by four.
fn table<'a>(settings: impl Iterator<Item = (&'a str, &'a str, &'a str)>) -> String {
    let titles = ["WHO", "MASK", "LEVEL", "OPTION", "VALUE", "RO"];
    let mut table = Table::new(titles.map(|title| (title, Align::Left)));
    for (section, name, value) in settings {
        let fixed = options::find(name).is_none_or(|option| !option.at_runtime);
        let (section, mask) = split_mask(section);
        let indent = match section {
            "global" => "",
            name if name.contains('.') => "    ",
            _ => "  ",
        };
        let who = format!("{indent}{section}");
        let cells = [who.as_str(), mask, level(name), name, value, if fixed { "*" } else { "" }];
        table.row(cells.map(str::to_owned));
    }
    table.to_string()
}

/// The level of users that an option is meant for.
fn level(name: &str) -> &'static str {
    options::find(name).map_or("unknown", |option| option.level)
}

/// The section argument of `config set` and `config rm`.
fn section(call: &Call<'_>) -> Result<String, Failure> {
    let who = call.args.required("who");
    section_of(who).ok_or_else(|| Failure::invalid(format!("unrecognized config target '{who}'")))
}

/// Parses a section: `global`, a type or a name, with or without a mask. A mask alone applies to
/// `global`. If a part is repeated, the last one counts, as in a stock monitor.
pub(super) fn section_of(who: &str) -> Option<String> {
    let (mut base, mut location, mut class) = (None, None, None);
    for part in who.split('/') {
        match part.split_once(':') {
            Some(("class", value)) => class = Some(value),
            Some((kind, value)) => location = Some((kind, value)),
            None if !is_section(part) => return None,
            None => base = Some(part),
        }
    }
    let mut section = base.unwrap_or("global").to_owned();
    section.extend(location.map(|(kind, value)| format!("/{kind}:{value}")));
    section.extend(class.map(|class| format!("/class:{class}")));
    Some(section)
}

fn is_section(part: &str) -> bool {
    part == "global" || EntityType::from_word(part).is_some() || part.parse::<EntityName>().is_ok()
}

/// The subject of `config get`: a name, or a type, which is treated as a name with an empty id.
fn whoever(call: &Call<'_>) -> Result<EntityName, Failure> {
    let who = call.args.required("who");
    let kind = EntityType::from_word(who).map(|kind| EntityName { kind, id: String::new() });
    let name = kind.map_or_else(|| who.parse().ok(), Some);
    name.ok_or_else(|| Failure::invalid(format!("unrecognized entity '{who}'")))
}

fn option(call: &Call<'_>, arg: &str) -> Result<String, Failure> {
    let name = call.args.required(arg).trim();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' ');
    match !name.is_empty() && name.chars().all(fits) {
        true => Ok(name.to_owned()),
        false => Err(Failure::invalid(format!("unrecognized config option '{name}'"))),
    }
}
