//! What is here, read from the sources: commands of the program and of the monitor, methods of object
//! classes, and functions of the C libraries.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::Result;
use crate::process::workspace;

/// What a command of a monitor comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    /// As a cluster answers that has no file system.
    AsIfNone,
    /// The manager's module is not there.
    NoModule,
}

pub(super) struct Ours {
    /// Words of commands, such as `rbd snap ls`.
    pub(super) commands: BTreeSet<String>,
    pub(super) monitor: BTreeMap<String, Answer>,
    /// By class.
    pub(super) methods: BTreeMap<String, Vec<String>>,
    pub(super) functions: Functions,
}

/// Functions of the C libraries.
pub(super) struct Functions {
    /// All that are exported.
    pub(super) exported: BTreeSet<String>,
    /// Those that fail with EOPNOTSUPP, whatever they are given.
    pub(super) absent: BTreeSet<String>,
}

pub(super) fn read() -> Result<Ours> {
    let program = Enums::read("crates/apps/cli/src")?;
    let mut commands = BTreeSet::new();
    program.commands("Command", Path::new("crates/apps/cli/src/args.rs"), "", &mut commands);
    let mut monitor = BTreeMap::new();
    let table = "crates/server/mon/src/command";
    monitor_commands(parsed(&workspace().join(table).join("modules.rs"))?, true, &mut monitor);
    monitor_commands(parsed(&workspace().join(table).join("table.rs"))?, false, &mut monitor);
    let mut methods = BTreeMap::new();
    for file in sources("crates/server/classes/src")? {
        class_methods(parsed(&file)?, &mut methods);
    }
    Ok(Ours { commands, monitor, methods, functions: functions("crates/apps/capi")? })
}

fn functions(package: &str) -> Result<Functions> {
    let package = workspace().join(package);
    let mut exported = BTreeSet::new();
    for library in ["librados", "librbd"] {
        let list = package.join("symbols").join(library).with_extension("txt");
        let names = fs::read_to_string(&list).map_err(|e| format!("{}: {e}", list.display()))?;
        exported.extend(names.lines().map(str::to_owned));
    }
    let tokens: Vec<TokenTree> = parsed(&package.join("src/absent.rs"))?.into_iter().collect();
    let mut absent = BTreeSet::new();
    for at in tokens.windows(3) {
        if let [TokenTree::Ident(name), TokenTree::Punct(mark), TokenTree::Group(list)] = at
            && name == "absent"
            && mark.as_char() == '!'
        {
            let is_name = |token: &TokenTree| matches!(token, TokenTree::Ident(_));
            absent.extend(list.stream().into_iter().filter(is_name).map(|name| name.to_string()));
        }
    }
    Ok(Functions { exported, absent })
}

/// The source files below a folder.
fn sources(folder: &str) -> Result<Vec<PathBuf>> {
    fn below(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                below(&path, files)?;
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                files.push(path);
            }
        }
        Ok(())
    }
    let (folder, mut files) = (workspace().join(folder), Vec::new());
    below(&folder, &mut files).map_err(|e| format!("{}: {e}", folder.display()))?;
    files.sort();
    Ok(files)
}

fn parsed(file: &Path) -> Result<TokenStream> {
    let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    text.parse().map_err(|e| format!("{}: {e}", file.display()).into())
}

/// The text of a literal string.
fn text_of(token: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = token else { return None };
    literal.to_string().strip_prefix('"')?.strip_suffix('"').map(str::to_owned)
}

/// Calls of each function in the tokens: its name, and what is between the parentheses.
fn calls(tokens: TokenStream, found: &mut impl FnMut(&str, TokenStream)) {
    let mut before: Option<String> = None;
    for token in tokens {
        if let TokenTree::Group(group) = &token {
            if let (Some(name), Delimiter::Parenthesis) = (&before, group.delimiter()) {
                found(name, group.stream());
            }
            calls(group.stream(), found);
        }
        before = if let TokenTree::Ident(word) = token { Some(word.to_string()) } else { None };
    }
}

fn monitor_commands(tokens: TokenStream, are_modules: bool, known: &mut BTreeMap<String, Answer>) {
    calls(tokens, &mut |name, args| {
        let first = args.clone().into_iter().next().and_then(|token| text_of(&token));
        let (Some(prefix), true) = (first, ["cmd", "r", "rw"].contains(&name)) else { return };
        let answer = match (are_modules, args.to_string().contains("absent ::")) {
            (true, _) => Answer::NoModule,
            (false, true) => Answer::AsIfNone,
            (false, false) => Answer::Done,
        };
        known.insert(prefix, answer);
    });
}

/// `Class { name: "x", methods: &[rd("y", …)] }`.
fn class_methods(tokens: TokenStream, known: &mut BTreeMap<String, Vec<String>>) {
    let mut before = None;
    for token in tokens {
        if let TokenTree::Group(group) = &token {
            if before.as_deref() == Some("Class") && group.delimiter() == Delimiter::Brace {
                let fields: Vec<TokenTree> = group.stream().into_iter().collect();
                let name = fields.iter().find_map(text_of);
                let lists = fields.iter().filter_map(|token| match token {
                    TokenTree::Group(list) if list.delimiter() == Delimiter::Bracket => Some(list.stream()),
                    _ => None,
                });
                let mut methods = Vec::new();
                lists.for_each(|list| {
                    calls(list, &mut |_, args| {
                        methods.extend(args.into_iter().next().and_then(|token| text_of(&token)));
                    });
                });
                if let (Some(name), false) = (name, methods.is_empty()) {
                    known.insert(name, methods);
                }
            } else {
                class_methods(group.stream(), known);
            }
        }
        before = if let TokenTree::Ident(word) = token { Some(word.to_string()) } else { None };
    }
}

/// The enums of a command line, as `clap` reads them.
struct Enums {
    /// By name and file.
    all: Vec<(String, PathBuf, Vec<Variant>)>,
}

/// A command, or commands below one.
struct Variant {
    name: String,
    aliases: Vec<String>,
    /// Its fields are commands of another enum, under its name or in place of it.
    below: Option<(Below, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Below {
    Under,
    InPlace,
}

impl Enums {
    fn read(folder: &str) -> Result<Self> {
        let mut all = Vec::new();
        for file in sources(folder)? {
            let tokens: Vec<TokenTree> = parsed(&file)?.into_iter().collect();
            let own = file.strip_prefix(workspace())?.to_owned();
            for part in tokens.windows(3) {
                if let [TokenTree::Ident(word), TokenTree::Ident(name), TokenTree::Group(body)] = part
                    && word == "enum"
                {
                    all.push((name.to_string(), own.clone(), variants(body.stream())));
                }
            }
        }
        Ok(Self { all })
    }

    /// The enum of this name that lies nearest to a file.
    fn find(&self, name: &str, near: &Path) -> Option<&(String, PathBuf, Vec<Variant>)> {
        let shared =
            |file: &Path| file.components().zip(near.components()).take_while(|(a, b)| a == b).count();
        let depth = |file: &Path| Reverse(file.components().count());
        let named = self.all.iter().filter(|(known, ..)| known == name);
        named.max_by_key(|(_, file, _)| (file == near, shared(file), depth(file)))
    }

    /// Adds all words that lead to a command.
    fn commands(&self, name: &str, near: &Path, before: &str, known: &mut BTreeSet<String>) {
        let Some((_, file, variants)) = self.find(name, near) else { return };
        for variant in variants {
            match &variant.below {
                Some((Below::InPlace, inner)) => self.commands(inner, file, before, known),
                Some((Below::Under, inner)) => {
                    for name in std::iter::once(&variant.name).chain(&variant.aliases) {
                        self.commands(inner, file, &format!("{before}{name} "), known);
                    }
                }
                None => {
                    let names = std::iter::once(&variant.name).chain(&variant.aliases);
                    known.extend(names.map(|name| format!("{before}{name}")));
                }
            }
        }
    }
}

fn variants(tokens: TokenStream) -> Vec<Variant> {
    let mut found: Vec<Variant> = Vec::new();
    let (mut attributes, mut is_named) = (String::new(), false);
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                if let Some(TokenTree::Group(attribute)) = tokens.next() {
                    attributes.push_str(&attribute.to_string());
                }
            }
            TokenTree::Punct(mark) if mark.as_char() == ',' => {
                (attributes, is_named) = (String::new(), false);
            }
            TokenTree::Ident(word) if !is_named => {
                is_named = true;
                let aliases = quoted_after(&attributes, "alias");
                let name = quoted_after(&attributes, "name =").pop();
                found.push(Variant {
                    name: name.unwrap_or_else(|| kebab(&word.to_string())),
                    aliases,
                    below: None,
                });
            }
            TokenTree::Group(fields) if fields.delimiter() == Delimiter::Parenthesis => {
                let how = [("flatten", Below::InPlace), ("subcommand", Below::Under)];
                let how = how.into_iter().find(|(word, _)| attributes.contains(word)).map(|(_, how)| how);
                let inner = fields.stream().into_iter().filter_map(|token| match token {
                    TokenTree::Ident(word) => Some(word.to_string()),
                    _ => None,
                });
                if let (Some(how), Some(inner), Some(variant)) = (how, inner.last(), found.last_mut()) {
                    variant.below = Some((how, inner));
                }
            }
            _ => {}
        }
    }
    found
}

/// The quoted words behind each place where `word` stands, up to the next comma outside brackets.
fn quoted_after(text: &str, word: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, _) in text.match_indices(word) {
        let rest = &text[at + word.len()..];
        let rest = match rest.find('[') {
            Some(open) if rest[..open].find('"').is_none() => {
                rest[open..].split(']').next().unwrap_or_default()
            }
            _ => rest.split(',').next().unwrap_or_default(),
        };
        words.extend(rest.split('"').skip(1).step_by(2).map(str::to_owned));
    }
    words
}

/// As `clap` names a command: `RmLock` is `rm-lock`.
fn kebab(name: &str) -> String {
    let mut kebab = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(letter.to_ascii_lowercase());
    }
    kebab
}
