//! The commands, the headings that they are listed under, and the shared options that each of them
//! accepts.
//!
//! One table generates the list of `loligo --help`, hides an option in the help of the commands where it
//! has no effect, and refuses it there.

use std::fmt::Write as _;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, ValueEnum as _};
use console::Term;

use crate::failure::Failure;
use crate::format::FormatName;

/// Maximum columns of the list; also its width if the terminal's is not known.
const WIDTH_MAX: usize = 120;
/// Minimum columns of a list that is wrapped.
const WIDTH_MIN: usize = 60;

/// Commands on one subject.
struct Group {
    heading: &'static str,
    commands: &'static [Entry],
}

/// A command: its words, and the options and formats that it accepts.
struct Entry {
    name: &'static str,
    options: &'static [&'static str],
    formats: &'static [FormatName],
}

const fn entry(
    name: &'static str,
    options: &'static [&'static str],
    formats: &'static [FormatName],
) -> Entry {
    Entry { name, options, formats }
}

const CLUSTER: &[FormatName] = {
    use FormatName::{Json, JsonPretty, Plain, Xml, XmlPretty};
    &[Plain, Json, JsonPretty, Xml, XmlPretty]
};
const TWO: &[FormatName] = &[FormatName::Plain, FormatName::Json];

/// No shared option.
const NONE: &[&str] = &[];
/// Options of commands that talk to a cluster.
const IN_CLUSTER: &[&str] = &["format", "pretty_format", "trace"];
const IN_POOL: &[&str] = &["pool", "create", "format", "pretty_format", "trace"];
const IN_NAMESPACE: &[&str] = &["pool", "create", "namespace", "format", "pretty_format", "trace"];
const AT_SNAPSHOT: &[&str] =
    &["pool", "create", "namespace", "snap", "snapid", "format", "pretty_format", "trace"];
const OF_OBJECT: &[&str] =
    &["pool", "create", "namespace", "object_locator", "snap", "snapid", "format", "pretty_format", "trace"];

const fn of_object(name: &'static str) -> Entry {
    entry(name, OF_OBJECT, CLUSTER)
}

const GROUPS: &[Group] = &[
    Group {
        heading: "Objects",
        commands: &[
            of_object("put"),
            of_object("get"),
            of_object("append"),
            of_object("create"),
            of_object("truncate"),
            of_object("cp"),
            of_object("rm"),
            of_object("stat"),
            of_object("touch"),
            of_object("mapext"),
            of_object("set-alloc-hint"),
        ],
    },
    Group {
        heading: "Attributes and maps of objects",
        commands: &[
            of_object("listxattr"),
            of_object("getxattr"),
            of_object("setxattr"),
            of_object("rmxattr"),
            of_object("listomapkeys"),
            of_object("listomapvals"),
            of_object("getomapval"),
            of_object("setomapval"),
            of_object("rmomapkey"),
            of_object("getomapheader"),
            of_object("setomapheader"),
            of_object("clearomap"),
        ],
    },
    Group {
        heading: "Locks, watches and notifications",
        commands: &[of_object("lock"), of_object("watch"), of_object("notify"), of_object("listwatchers")],
    },
    Group {
        heading: "Pools",
        commands: &[
            entry("lspools", IN_CLUSTER, CLUSTER),
            entry("df", &["pool", "format", "pretty_format", "trace"], CLUSTER),
            entry("ls", AT_SNAPSHOT, CLUSTER),
            entry("purge", IN_CLUSTER, CLUSTER),
            entry("cppool", IN_CLUSTER, CLUSTER),
            entry(
                "export",
                &["pool", "create", "snap", "snapid", "format", "pretty_format", "trace"],
                CLUSTER,
            ),
            entry("import", IN_POOL, CLUSTER),
            entry("list-inconsistent-pg", IN_CLUSTER, CLUSTER),
            entry("list-inconsistent-obj", IN_CLUSTER, CLUSTER),
            entry("list-inconsistent-snapset", IN_CLUSTER, CLUSTER),
        ],
    },
    Group {
        heading: "Snapshots of pools",
        commands: &[
            entry("lssnap", IN_POOL, CLUSTER),
            entry("mksnap", IN_POOL, CLUSTER),
            entry("rmsnap", IN_POOL, CLUSTER),
            of_object("listsnaps"),
            of_object("rollback"),
        ],
    },
    Group {
        heading: "Files",
        commands: &[
            entry("file", AT_SNAPSHOT, CLUSTER),
            entry("fs", IN_CLUSTER, CLUSTER),
            entry("mount", &["trace"], NO_FORMAT),
        ],
    },
    Group {
        heading: "Images",
        commands: &[entry(
            "rbd",
            &["pool", "namespace", "snap", "format", "pretty_format", "trace"],
            CLUSTER,
        )],
    },
    Group {
        heading: "Block devices",
        commands: &[
            entry("nbd", &["pool", "format"], TWO),
            entry("nbd serve", &["pool"], NO_FORMAT),
            entry("nbd add", NONE, NO_FORMAT),
            entry("nbd rm", NONE, NO_FORMAT),
            entry("nbd ls", &["format"], TWO),
            entry("nbd resize", NONE, NO_FORMAT),
            entry("nbd suspend", NONE, NO_FORMAT),
            entry("nbd resume", NONE, NO_FORMAT),
            entry("nbd attach", &["format"], TWO),
            entry("nbd detach", NONE, NO_FORMAT),
        ],
    },
    Group {
        heading: "A server",
        commands: &[
            entry("serve", &["pool"], NO_FORMAT),
            entry("server", NONE, NO_FORMAT),
            entry("ping", IN_CLUSTER, CLUSTER),
            entry("fsck", &["format"], TWO),
            entry("demo", NONE, NO_FORMAT),
        ],
    },
    Group { heading: "Programs that exist", commands: &[entry("run", NONE, NO_FORMAT)] },
    Group {
        heading: "Measuring",
        commands: &[
            entry("bench", AT_SNAPSHOT, CLUSTER),
            entry("load-gen", IN_NAMESPACE, CLUSTER),
            entry("cleanup", IN_NAMESPACE, CLUSTER),
        ],
    },
    Group {
        heading: "What waits",
        commands: &[
            entry("lockstat", &["format"], &[FormatName::Plain, FormatName::Json, FormatName::Prometheus]),
            entry("ops", &["format"], TWO),
            entry("trace", &["format"], TWO),
            entry("contend", &["format"], &[FormatName::Plain, FormatName::Json, FormatName::Html]),
        ],
    },
    Group {
        heading: "This program",
        commands: &[
            entry("config", &["format"], TWO),
            entry("completions", NONE, NO_FORMAT),
            entry("manual", NONE, NO_FORMAT),
        ],
    },
];

/// Formats of commands whose output has one form.
const NO_FORMAT: &[FormatName] = &[FormatName::Plain];

/// Finds a command's entry. A subcommand without an entry of its own has the entry of its parent.
fn entry_of(path: &[&str]) -> Option<&'static Entry> {
    let named = |name: &str| GROUPS.iter().flat_map(|group| group.commands).find(|entry| entry.name == name);
    (1..=path.len()).rev().find_map(|len| named(&path[..len].join(" ")))
}

/// Groups the commands, and hides from each command's help the options that have no effect there.
pub(crate) fn offering(root: Command) -> Command {
    let shared = shared(&root);
    let list = list(&root);
    let hide = |arg: &Arg, entry: &Entry| Some(fitted(arg, entry).hide(!entry.options.contains(&name(arg))));
    with_options(root, &shared, &hide).help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}\nOptions, before a command's name or behind \
         it; 'loligo COMMAND --help' tells which it takes:\n{{options}}{{after-help}}"
    ))
}

/// Removes the hidden options instead of hiding them: a shell completes only the rest.
pub(crate) fn offered_only(root: Command) -> Command {
    let shared = shared(&root);
    let keep = |arg: &Arg, entry: &Entry| {
        entry.options.contains(&name(arg)).then(|| fitted(arg, entry).global(!has_own_entries(entry)))
    };
    with_options(root.mut_args(|arg| arg.global(false)), &shared, &keep)
}

/// Refuses shared options that have no effect on the named command, unless `is_let_pass` exempts them.
pub(crate) fn check(
    root: &Command,
    matches: &ArgMatches,
    is_let_pass: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    let (mut path, mut below) = (Vec::new(), matches);
    while let Some((name, inner)) = below.subcommand() {
        path.push(name);
        below = inner;
    }
    let Some(entry) = entry_of(&path) else { return Ok(()) };
    let command = path.join(" ");
    for arg in shared(root) {
        let id = name(&arg);
        let is_given = matches.value_source(id) == Some(ValueSource::CommandLine);
        let option = arg.get_long().map_or_else(|| id.to_owned(), |long| format!("--{long}"));
        if is_given && !entry.options.contains(&id) && !is_let_pass(id) {
            let why = format!("{option} means nothing to '{command}'; see 'loligo {command} --help'");
            return Err(Failure::new("command line", why));
        }
    }
    let format = matches.get_one("format").copied().unwrap_or(FormatName::Plain);
    if entry.options.contains(&"format") && !entry.formats.contains(&format) {
        let form = format.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        let why = format!("'{command}' has no such form; see 'loligo {command} --help'");
        return Err(Failure::new(format!("--format {form}"), why));
    }
    Ok(())
}

/// Returns the shared options, which are those that the table lists.
fn shared(root: &Command) -> Vec<Arg> {
    root.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect()
}

fn name(arg: &Arg) -> &str {
    arg.get_id().as_str()
}

fn has_own_entries(entry: &Entry) -> bool {
    let below = format!("{} ", entry.name);
    GROUPS.iter().flat_map(|group| group.commands).any(|other| other.name.starts_with(&below))
}

/// Returns the option as the command accepts it: `--format` has only the command's formats.
fn fitted(arg: &Arg, entry: &Entry) -> Arg {
    if name(arg) != "format" {
        return arg.clone();
    }
    let values = entry.formats.iter().filter_map(|format| format.to_possible_value());
    let parser = PossibleValuesParser::new(values)
        .map(|word| FormatName::from_str(&word, true).unwrap_or(FormatName::Plain));
    arg.clone().value_parser(parser)
}

/// Applies the options that `of` returns to each command that has an entry.
fn with_options(root: Command, shared: &[Arg], of: &dyn Fn(&Arg, &Entry) -> Option<Arg>) -> Command {
    fn below(
        command: Command,
        path: &[&str],
        shared: &[Arg],
        of: &dyn Fn(&Arg, &Entry) -> Option<Arg>,
    ) -> Command {
        let names: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
        let with_names = names.iter().fold(command, |command, name| {
            let path: Vec<&str> = path.iter().copied().chain([name.as_str()]).collect();
            command.mut_subcommand(name, |command| below(command, &path, shared, of))
        });
        match entry_of(path).filter(|entry| entry.name == path.join(" ")) {
            Some(entry) => with_names.args(shared.iter().filter_map(|arg| of(arg, entry))),
            None => with_names,
        }
    }
    below(root, &[], shared, of)
}

/// Lists the commands under their headings, each with the first sentence of its help.
fn list(root: &Command) -> String {
    let (_, columns) = Term::stdout().size_checked().unwrap_or((0, u16::MAX));
    let width = usize::from(columns).clamp(WIDTH_MIN, WIDTH_MAX);
    let top = |group: &'static Group| group.commands.iter().filter(|entry| !entry.name.contains(' '));
    let indent = GROUPS.iter().flat_map(top).map(|entry| entry.name.len()).max().unwrap_or(0) + 4;
    let mut text = String::new();
    for group in GROUPS {
        let _ = writeln!(text, "{}:", group.heading);
        for entry in top(group) {
            let about = root.find_subcommand(entry.name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let lines = wrapped(&about, width.saturating_sub(indent));
            let _ = writeln!(
                text,
                "  {:<1$}{2}",
                entry.name,
                indent - 2,
                lines.join(&format!("\n{:1$}", "", indent))
            );
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a line");
        if !line.is_empty() && line.len() + 1 + word.len() > width {
            lines.push(word.to_owned());
        } else {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    fn judged(line: &str) -> Result<(), String> {
        let command = offering(Cli::command());
        let matches = command.clone().try_get_matches_from(line.split(' '));
        let matches = matches.map_err(|e| e.to_string())?;
        check(&command, &matches, |_| false).map_err(|e| e.to_string())
    }

    #[test]
    fn each_command_is_in_one_group() {
        let root = Cli::command();
        for command in root.get_subcommands() {
            let name = command.get_name();
            let count = GROUPS.iter().flat_map(|g| g.commands).filter(|entry| entry.name == name).count();
            assert_eq!(count, 1, "{name}");
        }
        for entry in GROUPS.iter().flat_map(|group| group.commands) {
            let command = entry.name.split(' ').try_fold(&root, |c, name| c.find_subcommand(name));
            assert!(command.is_some(), "{} is no command", entry.name);
            for option in entry.options {
                assert!(shared(&root).iter().any(|arg| name(arg) == *option), "{}: {option}", entry.name);
            }
        }
        let below = root.find_subcommand("nbd").map(|c| c.get_subcommands().count());
        assert_eq!(below, Some(9), "each command of nbd has an entry");
    }

    #[test]
    fn options_are_refused_where_they_mean_nothing() {
        for line in [
            "loligo serve --data d -s x",
            "loligo -s x serve --data d",
            "loligo serve --data d -N n",
            "loligo serve --data d --format html",
            "loligo -p p lspools",
            "loligo --trace f demo",
            "loligo --create contend",
            "loligo -p p --object-locator l ls",
            "loligo -p p -N n lssnap",
            "loligo nbd serve --format json",
            "loligo nbd ls s -p p",
            "loligo ls -p p --format prometheus",
            "loligo --format html ls -p p",
            "loligo --format xml ops s",
        ] {
            let refused = judged(line).expect_err(line);
            assert!(
                refused.contains("--format") || refused.contains("means nothing to"),
                "{line}: {refused}"
            );
        }
        for line in [
            "loligo serve --data d -p a -p b",
            "loligo -p p -N n -s s get o f",
            "loligo --format xml-pretty -p p ls",
            "loligo ls -p p --format text",
            "loligo lockstat s --format prometheus",
            "loligo contend --format html",
            "loligo --format json nbd ls s",
            "loligo nbd serve -p p",
            "loligo rbd snap ls i --format json -p p",
            "loligo -p p rbd info i",
        ] {
            assert_eq!(judged(line), Ok(()), "{line}");
        }
    }

    #[test]
    fn help_shows_what_a_command_takes() {
        let help = |path: &[&str]| {
            let mut root = offering(Cli::command());
            root.build();
            let command = path.iter().fold(&mut root, |c, name| c.find_subcommand_mut(name).expect(name));
            command.render_long_help().to_string()
        };
        let (serve, get, info) = (help(&["serve"]), help(&["get"]), help(&["rbd", "info"]));
        assert!(
            serve.contains("--pool") && !serve.contains("--snap <") && !serve.contains("--format"),
            "{serve}"
        );
        assert!(get.contains("--snap <") && get.contains("xml-pretty") && !get.contains("html"), "{get}");
        assert!(info.contains("--pool") && !info.contains("--object-locator"), "{info}");
        let root = help(&[]);
        for heading in ["\nObjects:\n  put ", "\nWhat waits:\n  lockstat ", "\nImages:\n  rbd "] {
            assert!(root.contains(heading), "{heading}: {root}");
        }
        assert!(root.lines().all(|line| line.len() <= WIDTH_MAX + 10), "{root}");
    }

    #[test]
    fn shells_complete_what_a_command_takes() {
        let mut root = offered_only(Cli::command());
        root.build();
        let longs = |path: &[&str]| -> Vec<String> {
            let command = path.iter().fold(&root, |c, name| c.find_subcommand(name).expect(name));
            command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect()
        };
        let has = |path: &[&str], option: &str| longs(path).iter().any(|long| long == option);
        assert!(has(&["serve"], "pool") && !has(&["serve"], "snap") && !has(&["serve"], "format"));
        assert!(has(&["rbd", "snap", "ls"], "format") && !has(&["rbd", "snap", "ls"], "object-locator"));
        assert!(has(&["nbd", "ls"], "format") && !has(&["nbd", "serve"], "format"));
    }
}
