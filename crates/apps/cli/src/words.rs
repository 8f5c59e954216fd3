//! Merges the options and words in `CEPH_ARGS` with those of the command line. The latter come later,
//! and so win.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use clap::{Arg, ArgAction, Command};
use loligo_conf as conf;

use crate::rbd;

/// Returns the words that the program parses, program first: the command line's, and those of
/// `CEPH_ARGS` that are not options of the configuration.
///
/// As with stock programs, words of `CEPH_ARGS` come first, and those after its `--` last. Options that
/// only the command has are placed after its name.
pub(crate) fn joined(mut environment: Vec<String>, mut line: Vec<String>, root: &Command) -> Vec<String> {
    if environment.is_empty() {
        return line;
    }
    let line_end = line.iter().position(|word| word == "--");
    if let Some(at) = environment.iter().position(|word| word == "--") {
        let plain = environment.split_off(at);
        // One `--` is enough.
        line.extend(plain.into_iter().skip(usize::from(line_end.is_some())));
    }
    let (commands, behind) = named_command(root, &line);
    let (ours, first) = split(environment, &commands);
    line.splice(behind..behind, ours);
    line.splice(1..1, first);
    line
}

/// The program's behaviour, selected by the name that it is called by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CalledAs {
    Loligo,
    /// The commands have the names of `rados`' commands. Each accepts all options of `rados`.
    Rados,
    /// The commands below `loligo rbd`.
    Rbd,
    /// `loligo mount`: how mount(8) calls it for the types `fuse.loligo` and `loligo`.
    Mount,
}

impl CalledAs {
    /// Returns the program's name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Loligo => "loligo",
            Self::Rados => "rados",
            Self::Rbd => "rbd",
            Self::Mount => "mount.fuse.loligo",
        }
    }

    /// Returns the name that this process was called by.
    pub(crate) fn now() -> Self {
        let program = std::env::args_os().next().unwrap_or_default();
        Self::of(&program.to_string_lossy())
    }

    /// Derives it from the name of the program's file.
    pub(crate) fn of(program: &str) -> Self {
        match program.rsplit('/').next() {
            Some("rados") => Self::Rados,
            Some("rbd") => Self::Rbd,
            Some("mount.fuse.loligo" | "mount.loligo") => Self::Mount,
            _ => Self::Loligo,
        }
    }
}

/// Returns the words in the order in which they are parsed. A command's options that precede its name
/// are moved after it, and names of images that are given as options are placed where the command
/// expects them.
pub(crate) fn arranged(line: Vec<String>, root: &Command, called: CalledAs) -> Result<Vec<String>, String> {
    let line = if called == CalledAs::Rados { striped(line, root) } else { line };
    let mut words = line.into_iter();
    let mut front: Vec<String> = words.next().into_iter().collect();
    let mut commands = vec![root];
    let (mut names, mut behind) = (Vec::new(), Vec::new());
    while commands[commands.len() - 1].has_subcommands() {
        let Some(word) = words.next() else { break };
        let last = commands[commands.len() - 1];
        if word.starts_with('-') && word != "--" {
            let known = option_of(&word, &commands).is_some();
            let of_forms = names.first().is_some_and(|name| name == "rbd") && rbd::words::is_option(&word);
            let takes = match (known, of_forms) {
                (true, _) => takes_next_word(&word, &commands),
                (false, true) => !word.contains('='),
                (false, false) => takes_next_below(&word, last),
            };
            let side = if known || !(of_forms || is_below(&word, last)) { &mut front } else { &mut behind };
            side.push(word);
            side.extend(takes.then(|| words.next()).flatten());
        } else if let Some(command) = last.find_subcommand(&word) {
            commands.push(command);
            names.push(command.get_name().to_owned());
            front.push(word);
        } else {
            behind.push(word);
            break;
        }
    }
    behind.extend(words);
    if called == CalledAs::Rados {
        behind = as_rados(behind, root, &commands)?;
    }
    if names.first().is_some_and(|name| name == "rbd") {
        if rbd::words::has_size(&names[1..].join(" ")) {
            behind.splice(0..0, without_snap(&mut front));
        }
        let takes_next = |word: &str| takes_next_word(word, &commands);
        behind = rbd::words::arranged(&names[1..].join(" "), behind, takes_next)?;
    }
    front.extend(behind);
    Ok(front)
}

/// Removes `-s` and its value from the words, and returns them.
fn without_snap(words: &mut Vec<String>) -> Vec<String> {
    let (mut left, mut taken) = (Vec::new(), Vec::new());
    let mut all = words.drain(..);
    while let Some(word) = all.next() {
        match word.strip_prefix("-s") {
            Some("") => taken.extend([word].into_iter().chain(all.next())),
            Some(_) => taken.push(word),
            None => left.push(word),
        }
    }
    drop(all);
    *words = left;
    taken
}

/// Returns `true` if a word is an option of a command, or of one below it.
fn is_below(word: &str, command: &Command) -> bool {
    option_of(word, &[command]).is_some() || command.get_subcommands().any(|below| is_below(word, below))
}

/// Returns `true` if a word is such an option, and its value is the next word.
fn takes_next_below(word: &str, command: &Command) -> bool {
    takes_next_word(word, &[command]) || command.get_subcommands().any(|below| takes_next_below(word, below))
}

/// Commands of `rados --striper`; here they are commands of `file`.
const STRIPED: [&str; 10] =
    ["append", "get", "getxattr", "listxattr", "put", "rm", "rmxattr", "setxattr", "stat", "truncate"];

/// Inserts `file` before the command's name if `--striper` precedes any `--`.
fn striped(mut line: Vec<String>, root: &Command) -> Vec<String> {
    let end = line.iter().position(|word| word == "--").unwrap_or(line.len());
    let Some(at) = line[..end].iter().position(|word| word == "--striper") else { return line };
    line.remove(at);
    let (_, behind) = named_command(root, &line);
    if behind > 1 && STRIPED.contains(&line[behind - 1].as_str()) {
        line.insert(behind - 1, "file".to_owned());
    }
    line
}

/// Commands for which `rados` checks the number of words; the others ignore extra words.
const COUNTED: [&str; 5] = ["getomapval", "ls", "setomapval", "setxattr", "setomapheader"];

/// Returns the words after a command's name as `rados` reads them. Options of its other commands are
/// checked and ignored, an unknown option is a word, and extra words are dropped.
fn as_rados(words: Vec<String>, root: &Command, commands: &[&Command]) -> Result<Vec<String>, String> {
    let words = without_others_options(words, root, commands)?;
    let last = commands[commands.len() - 1];
    let (mut options, mut given) = (Vec::new(), Vec::new());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--" {
            given.extend(words.by_ref());
        } else if word.starts_with('-') && word != "-" && is_ours(&word, commands) {
            let value = takes_next_word(&word, commands).then(|| words.next()).flatten();
            options.extend([word].into_iter().chain(value));
        } else {
            given.push(word);
        }
    }
    let most: usize = last
        .get_positionals()
        .map(|arg| arg.get_num_args().map_or(1, |n| n.max_values()))
        .fold(0, usize::saturating_add);
    if !COUNTED.contains(&last.get_name()) && !last.has_subcommands() {
        given.truncate(most);
    }
    if given.iter().any(|word| word.starts_with('-') && word != "-") {
        options.push("--".to_owned());
    }
    options.extend(given);
    Ok(options)
}

/// Returns `true` if a word is an option of a command, or asks for help.
fn is_ours(word: &str, commands: &[&Command]) -> bool {
    ["-h", "--help"].contains(&word) || option_of(word, commands).is_some()
}

/// Commands that `rados` does not have; their options are not options of `rados` either.
const NOT_OF_RADOS: [&str; 17] = [
    "completions",
    "config",
    "contend",
    "demo",
    "df",
    "file",
    "fsck",
    "lockstat",
    "manual",
    "mount",
    "nbd",
    "ops",
    "ping",
    "rbd",
    "run",
    "serve",
    "trace",
];

/// Options whose values `rados` reads as bytes, with an optional unit in capital letters.
const BYTES: [&str; 9] = [
    "--block-size",
    "--max-backlog",
    "--max-object-size",
    "--max-op-len",
    "--min-object-size",
    "--min-op-len",
    "--object-size",
    "--offset-align",
    "--target-throughput",
];

/// Removes the options of other commands. Their values are checked all the same, as `rados` does.
fn without_others_options(
    words: Vec<String>,
    root: &Command,
    commands: &[&Command],
) -> Result<Vec<String>, String> {
    let mut left = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--" {
            left.push(word);
            left.extend(words.by_ref());
        } else if !word.starts_with('-') || word == "-" || option_of(&word, commands).is_some() {
            let value = takes_next_word(&word, commands).then(|| words.next()).flatten();
            check_unit(&word, value.as_deref())?;
            left.push(word);
            left.extend(value);
        } else if let Some(other) = having(&word, root) {
            let value = takes_next_word(&word, &[other]).then(|| words.next()).flatten();
            check_unit(&word, value.as_deref())?;
            check(other, word, value)?;
        } else {
            left.push(word);
        }
    }
    Ok(left)
}

/// Finds a command of `rados` that has an option.
fn having<'a>(word: &str, command: &'a Command) -> Option<&'a Command> {
    let of_this = option_of(word, &[command]).is_some();
    let mut below = command.get_subcommands().filter(|below| !NOT_OF_RADOS.contains(&below.get_name()));
    if of_this { Some(command) } else { below.find_map(|below| having(word, below)) }
}

/// Refuses a unit that `rados` does not know.
fn check_unit(word: &str, value: Option<&str>) -> Result<(), String> {
    let (option, value) = match word.split_once('=') {
        Some((option, value)) => (option, Some(value)),
        None => (word, value),
    };
    let is_small = value.is_some_and(|value| value.ends_with(|c: char| c.is_ascii_lowercase() && c != 'i'));
    match BYTES.contains(&option) && is_small {
        true => Err(format!("invalid value for {option}: a unit is one of K, M, G and T")),
        false => Ok(()),
    }
}

/// Checks that an option of a command accepts this value.
fn check(command: &Command, word: String, value: Option<String>) -> Result<(), String> {
    let arg = option_of(&word, &[command]).cloned();
    let words = ["check".to_owned(), word].into_iter().chain(value);
    let alone = Command::new("check").args(arg).try_get_matches_from(words);
    alone.map(drop).map_err(|e| {
        let said = e.to_string();
        let said = said.lines().next().unwrap_or_default();
        said.strip_prefix("error: ").unwrap_or(said).to_owned()
    })
}

/// Returns a predicate for the words that are options of the program or of the named command. They take
/// precedence over options of the configuration.
pub(crate) fn own<'a>(root: &'a Command, line: &[String]) -> impl Fn(&str) -> bool + use<'a> {
    let (commands, _) = named_command(root, line);
    move |word| option_of(word, &commands).is_some()
}

/// Converts the command line to text, and counts the bytes that are not UTF-8. In the text each of these
/// is a zero byte and its two hexadecimal digits; a word of a command line has no zero byte of its own.
/// Words may be joined and split in that form.
pub(crate) fn texts(line: impl Iterator<Item = OsString>) -> (Vec<String>, usize) {
    let mut count = 0;
    let text = |word: OsString| {
        let mut text = String::with_capacity(word.len());
        for chunk in word.as_bytes().utf8_chunks() {
            text.push_str(chunk.valid());
            count += chunk.invalid().len();
            chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\0{byte:02x}")));
        }
        text
    };
    (line.map(text).collect(), count)
}

/// Restores the bytes that are not UTF-8. Returns `None` if fewer than `count` remain: one was consumed
/// as the value of an option of the configuration.
pub(crate) fn with_bytes(words: Vec<String>, count: usize) -> Option<Vec<OsString>> {
    let mut found = 0;
    let word = |word: String| {
        let mut parts = word.split('\0');
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            let (digits, rest) = part.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            bytes.extend_from_slice(rest.as_bytes());
            found += 1;
        }
        Some(OsString::from_vec(bytes))
    };
    let words = words.into_iter().map(word).collect::<Option<Vec<_>>>()?;
    (found >= count).then_some(words)
}

/// Returns the commands that the words name, from the program down, and the index of the last one's
/// first word.
fn named_command<'a>(root: &'a Command, line: &[String]) -> (Vec<&'a Command>, usize) {
    let (mut commands, mut behind) = (vec![root], 1);
    let mut at = 1;
    while let Some(word) = line.get(at).filter(|word| *word != "--") {
        at += 1;
        if word.starts_with('-') {
            let last = commands[commands.len() - 1];
            let takes_next = takes_next_word(word, &commands) || takes_next_below(word, last);
            at += usize::from(takes_next || conf::takes_next_word(word));
        } else if let Some(command) = commands[commands.len() - 1].find_subcommand(word) {
            commands.push(command);
            behind = at;
        } else {
            break;
        }
    }
    (commands, behind)
}

/// Splits off the options, with their values, that the last command has and the program does not.
fn split(environment: Vec<String>, commands: &[&Command]) -> (Vec<String>, Vec<String>) {
    let (mut ours, mut first) = (Vec::new(), Vec::new());
    let mut words = environment.into_iter();
    while let Some(word) = words.next() {
        let value = if takes_next_word(&word, commands) { words.next() } else { None };
        let of_root = option_of(&word, &commands[..1]).is_some();
        let known = option_of(&word, commands).is_some();
        let side = if known && !of_root { &mut ours } else { &mut first };
        side.push(word);
        side.extend(value);
    }
    (ours, first)
}

/// Returns the options of the program that are among the words, by the parser's names for them.
pub(crate) fn options_in(words: &[String], root: &Command) -> HashSet<String> {
    let named = words.iter().filter(|word| word.starts_with('-'));
    named.filter_map(|word| option_of(word, &[root])).map(|arg| arg.get_id().to_string()).collect()
}

/// Finds the option that a word names: `--long`, `--long=value`, `-s`, `-svalue`.
fn option_of<'a>(word: &str, commands: &[&'a Command]) -> Option<&'a Arg> {
    let names = |arg: &Arg| match word.strip_prefix("--") {
        Some(long) => {
            let long = long.split('=').next().unwrap_or_default();
            arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|all| all.contains(&long))
        }
        None => {
            let short = word.strip_prefix('-').and_then(|short| short.chars().next());
            short.is_some() && arg.get_short() == short
        }
    };
    commands.iter().rev().find_map(|command| command.get_arguments().find(|arg| names(arg)))
}

/// Returns `true` if a word is an option whose value is the next word.
fn takes_next_word(word: &str, commands: &[&Command]) -> bool {
    let whole = if word.starts_with("--") { !word.contains('=') } else { word.chars().count() == 2 };
    let valued = |arg: &Arg| matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    whole && option_of(word, commands).is_some_and(valued)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn no_long_option_of_ours_is_one_of_the_configuration() {
        fn check(command: &Command) {
            for arg in command.get_arguments() {
                let longs = arg.get_long().into_iter().chain(arg.get_all_aliases().into_iter().flatten());
                for long in longs {
                    let name = long.replace('-', "_");
                    assert!(conf::table::known(&name).is_none(), "{} --{long}", command.get_name());
                }
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn options_of_the_named_command_are_ours() {
        let mut root = Cli::command();
        root.build();
        let line = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (said, word, ours) in [
            ("loligo -p p bench 1 write", "-b", true),
            ("loligo -p p ls", "-b", false),
            ("loligo --rbd-default-order 20 -m h -d bench 1 write", "-b", true),
            ("loligo lspools", "-d", false),
            ("loligo lspools", "-p", true),
        ] {
            assert_eq!(own(&root, &line(said))(word), ours, "{said}: {word}");
        }
    }

    #[test]
    fn words_that_are_no_text_come_back() {
        let word = |word: &[u8]| OsString::from_vec(word.to_vec());
        let line = [&b"loligo"[..], b"/tmp/\xff", b"", b"\xfea\xc3"].map(word);
        let (mut words, count) = texts(line.clone().into_iter());
        assert_eq!(words, ["loligo", "/tmp/\0ff", "", "\0fea\0c3"]);
        assert_eq!(with_bytes(words.clone(), count).as_deref(), Some(&line[..]));
        assert_eq!(with_bytes(words[..3].to_vec(), count), None, "one has gone into the configuration");
        words[3].insert_str(0, "q/");
        assert_eq!(with_bytes(words, count).expect("all are there")[3], word(b"q/\xfea\xc3"));
    }

    #[test]
    fn options_of_a_command_may_stand_before_it() {
        use CalledAs::{Loligo, Rados};
        let mut root = Cli::command();
        root.build();
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (called, line, read) in [
            (Loligo, "-p p put o f", "-p p put o f"),
            (Loligo, "-p p --all ls", "-p p ls --all"),
            (Loligo, "-p p -b 4096 -t 8 bench 1 write", "-p p bench -b 4096 -t 8 1 write"),
            (Loligo, "rbd --image i -p q info", "rbd -p q info i"),
            (Loligo, "rbd -p q --dest j import f", "rbd -p q import f j"),
            (Loligo, "rbd create -s 10 i", "rbd create --size 10 i"),
            (Loligo, "-p q rbd -s 10 create i", "-p q rbd create --size 10 i"),
            (Loligo, "-s s1 rbd info i", "-s s1 rbd info i"),
            (Loligo, "rbd --size 10 create i", "rbd create --size 10 i"),
            (Loligo, "rbd snap --image i create -s s", "rbd snap create -s s i"),
            (Loligo, "-s s1 get o -", "-s s1 get o -"),
            (Loligo, "--max-ops 4 df", "df --max-ops 4"),
            (Rados, "--max-ops 4 df", "df"),
            (Rados, "lock list o --run-length 4 --all", "lock list o"),
            (Rados, "lock list o --lock-duration 4", "lock list o"),
            (Rados, "-p p put -- --max-ops f", "-p p put -- --max-ops f"),
            (Rados, "--nosuch ls", "--nosuch ls"),
            (Rados, "-p p ls --nosuch", "-p p ls -- --nosuch"),
            (Rados, "-p p put o f --nosuch", "-p p put o f"),
            (Rados, "-p p put --nosuch f", "-p p put -- --nosuch f"),
            (Rados, "-p p rm a --nosuch", "-p p rm -- a --nosuch"),
            (Rados, "-p p setxattr o a v w", "-p p setxattr o a v w"),
            (Rados, "-p p --striper put o f", "-p p file put o f"),
            (Rados, "-p p stat o --striper", "-p p file stat o"),
            (Rados, "--block-size 4 df", "df"),
        ] {
            let arranged = arranged(words(&format!("loligo {line}")), &root, called);
            assert_eq!(arranged, Ok(words(&format!("loligo {read}"))), "{line}");
        }
        // Stock `rados` refuses it as well.
        let refused = arranged(words("rados --read-percent 4k df"), &root, Rados);
        assert!(refused.is_err_and(|why| why.contains("4k")));
        for line in
            ["rados --block-size 4k df", "rados --max-op-len=4k df", "rados -p p load-gen --max-op-len 4k"]
        {
            assert!(arranged(words(line), &root, Rados).is_err(), "{line}");
        }
        for (program, called) in [
            ("/usr/bin/rados", Rados),
            ("rbd", CalledAs::Rbd),
            ("/sbin/mount.fuse.loligo", CalledAs::Mount),
            ("rados-x", Loligo),
            ("/rbd/loligo", Loligo),
        ] {
            assert!(CalledAs::of(program) == called, "{program}");
        }
    }

    #[test]
    fn words_of_the_environment_come_first_and_a_commands_own_behind_it() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (environment, line, read) in [
            ("", "-p p put o f", "-p p put o f"),
            ("-N ns1", "-p p put o f", "-N ns1 -p p put o f"),
            ("-N ns1", "-p p put o f -N ns2", "-N ns1 -p p put o f -N ns2"),
            ("-p q --format json", "df", "-p q --format json df"),
            ("-s s1", "get o -", "-s s1 get o -"),
            ("put o7 f", "-p p", "put o7 f -p p"),
            ("stray", "-p p put o f", "stray -p p put o f"),
            ("--nosuch=1", "ls", "--nosuch=1 ls"),
            ("--all", "-p p ls", "-p p ls --all"),
            ("--all -N ns1", "-p put ls", "-N ns1 -p put ls --all"),
            ("--lock-cookie c", "lock get o l", "lock get --lock-cookie c o l"),
            ("--object-size 8M", "-p p rbd create i", "-p p rbd create --object-size 8M i"),
            ("-- -p q", "-p p put o f", "-p p put o f -- -p q"),
            ("-N n -- a", "put -- o", "-N n put -- o a"),
        ] {
            let line = words(&format!("loligo {line}"));
            let read = words(&format!("loligo {read}"));
            let mut root = Cli::command();
            root.build();
            assert_eq!(joined(words(environment), line, &root), read, "{environment:?}");
        }
    }
}
