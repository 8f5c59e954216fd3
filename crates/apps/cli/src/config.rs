//! `loligo config`: lists the options of the configuration and their effect in this program.

use clap::Subcommand;
use loligo_conf::table::{self, Known};
use loligo_rados::Errno;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::format::FormatName;

/// The question about options.
#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show an option's type, default and bounds, and whether it acts in this program.
    Help {
        /// As in ceph.conf or on the command line.
        option: String,
    },
    /// List the options that act in this program, or all that are known.
    Ls {
        /// Those without effect, too.
        #[arg(long)]
        all: bool,
    },
}

/// Maximum number of similar names shown for an unknown one.
const NEAR_MAX: usize = 3;
/// Minimum similarity of a name to be shown, from 0 to 1.
const LIKENESS_MIN: f64 = 0.6;

pub(crate) fn run(command: &ConfigCommand, format: FormatName) -> Result<(), Failure> {
    if !matches!(format, FormatName::Plain | FormatName::Json) {
        return Err(Failure::new("config", "--format is plain or json"));
    }
    match command {
        ConfigCommand::Help { option } => help(option, format),
        ConfigCommand::Ls { all } => ls(*all, format),
    }
}

fn help(said: &str, format: FormatName) -> Result<(), Failure> {
    let name = said.trim_start_matches("--").trim().replace(['-', ' '], "_");
    let Some(option) = table::known(&name) else {
        let near = nearest(&name).join(", ");
        let near = if near.is_empty() { String::new() } else { format!("; did you mean {near}?") };
        let why = format!("no release of Ceph from 16 to 20 has an option of this name{near}");
        return Err(Failure::of(Errno::ENOENT, format!("config help {said}"), why).ending_with_errno());
    };
    match format {
        FormatName::Json => sayln!("{}", in_json(option)),
        _ => in_lines(option).iter().for_each(|(title, value)| sayln!("{title:<10}{value}")),
    }
    Ok(())
}

fn ls(all: bool, format: FormatName) -> Result<(), Failure> {
    let mut names: Vec<_> =
        table::names().filter(|name| all || table::known(name).is_some_and(|o| o.acts().is_some())).collect();
    names.sort_unstable();
    match format {
        FormatName::Json => sayln!("{}", json!(names)),
        _ => names.iter().for_each(|name| sayln!("{name}")),
    }
    Ok(())
}

/// Returns the known names that are most similar.
fn nearest(name: &str) -> Vec<&'static str> {
    let likeness = |known: &'static str| (strsim::normalized_damerau_levenshtein(name, known), known);
    let mut near: Vec<_> =
        table::names().map(likeness).filter(|(likeness, _)| *likeness >= LIKENESS_MIN).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.into_iter().take(NEAR_MAX).map(|(_, name)| name).collect()
}

/// Describes an option's values, for `config help`.
fn kind(option: Known) -> &'static str {
    match option.kind() {
        Some("bool") => "true or false",
        Some("int") => "a number",
        Some("uint") => "a number, not negative",
        Some("size") => "a number of bytes, such as 4096 or 64M",
        Some("float") => "a number, with a fraction if need be",
        Some("secs") => "a time span, such as 30 or 5m",
        Some("millisecs") => "milliseconds",
        Some("addr") => "an address",
        Some("addrvec") => "addresses",
        Some("uuid") => "a UUID",
        Some("level") => "a log level: N or N/M, from 0 to 99",
        Some(_) => "text",
        None => "not known: a release after 16 has added it",
    }
}

fn effect(option: Known) -> String {
    option.acts().map_or_else(|| "without effect in loligo".to_owned(), |acts| format!("acts: {acts}"))
}

fn in_lines(option: Known) -> Vec<(&'static str, String)> {
    let mut lines = vec![("name", option.name.to_owned()), ("type", kind(option).to_owned())];
    if let Some(facts) = option.facts() {
        let (min, max) = facts.bounds();
        let words = facts.words().collect::<Vec<_>>().join(", ");
        let default = facts.default_for(&loligo_wire::EntityName::client("admin"));
        lines.push(("default", if default.is_empty() { "(empty)".to_owned() } else { default }));
        lines.extend(min.map(|min| ("min", min.to_owned())));
        lines.extend(max.map(|max| ("max", max.to_owned())));
        lines.extend((!words.is_empty()).then_some(("one of", words)));
        lines.push(("level", facts.level.to_owned()));
    }
    lines.push(("effect", effect(option)));
    lines
}

fn in_json(option: Known) -> Value {
    let facts = option.facts();
    let bounds = facts.map(|facts| facts.bounds()).unwrap_or_default();
    json!({
        "name": option.name,
        "type": option.kind(),
        "default": facts.map(|facts| facts.default_for(&loligo_wire::EntityName::client("admin"))),
        "min": bounds.0,
        "max": bounds.1,
        "enum": facts.map(|facts| facts.words().collect::<Vec<_>>()).unwrap_or_default(),
        "level": facts.map(|facts| facts.level),
        "acts": option.acts().is_some(),
        "effect": effect(option),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_nearly_right_are_found() {
        assert_eq!(nearest("rbd_cach")[0], "rbd_cache");
        assert_eq!(nearest("rados_osd_op_timout")[0], "rados_osd_op_timeout");
        assert!(nearest("zzzzqqqq").is_empty());
    }

    #[test]
    fn effects_are_told() {
        let option = |name: &str| table::known(name).expect(name);
        assert_eq!(effect(option("rbd_cache")), "without effect in loligo");
        assert!(effect(option("rados_osd_op_timeout")).starts_with("acts: "));
        let lines = in_lines(option("rbd_default_clone_format"));
        assert!(lines.contains(&("one of", "1, 2, auto".to_owned())), "{lines:?}");
        assert!(in_lines(option("rbd_concurrent_management_ops")).contains(&("min", "1".to_owned())));
    }

    /// Each log subsystem has options, and each of these options is listed as acting.
    #[test]
    fn levels_of_logs_act() {
        for name in loligo_logring::Subsys::ALL.iter().flat_map(|subsys| subsys.options()) {
            assert!(table::known(&name).is_some_and(|known| known.acts().is_some()), "{name}");
        }
    }
}
