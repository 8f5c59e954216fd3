//! The forms in which `rbd` accepts names as options (`--image`, `--dest`, `--path` …) instead of words.

use std::path::Path;

/// The meaning of a word of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The image or snapshot that the command works on.
    Source,
    /// The image that the command creates.
    Dest,
    /// A file.
    File,
}

use Part::{Dest, File, Source};

/// The parts of commands that accept names as options; other words follow these.
const FORMS: &[(&[&str], &[Part])] = &[
    (&["create", "info", "status", "rm", "remove", "resize", "diff", "du", "disk-usage"], &[Source]),
    (&["children", "flatten", "sparsify", "bench", "trash mv", "trash move"], &[Source]),
    (&["rename", "mv", "cp", "copy", "deep cp", "deep copy", "clone"], &[Source, Dest]),
    (&["snap rename", "snap mv", "migration prepare"], &[Source, Dest]),
    (&["migration execute", "migration commit", "migration abort"], &[Source]),
    (&["export", "export-diff"], &[Source, File]),
    (&["import"], &[File, Dest]),
    (&["import-diff"], &[File, Source]),
    (&["snap create", "snap add", "snap ls", "snap list", "snap rm", "snap remove"], &[Source]),
    (&["snap purge", "snap protect", "snap unprotect", "snap rollback", "snap revert"], &[Source]),
    (&["snap limit set", "snap limit clear", "feature enable", "feature disable"], &[Source]),
    (&["lock ls", "lock list", "lock add", "lock rm", "lock remove"], &[Source]),
    (&["object-map check", "object-map rebuild", "image-meta list", "image-meta ls"], &[Source]),
    (&["config image get", "config image set", "config image list", "config image ls"], &[Source]),
    (&["config image remove", "config image rm"], &[Source]),
    (&["image-meta get", "image-meta set", "image-meta remove", "image-meta rm"], &[Source]),
];

/// Commands whose `-s` is a size.
const SIZED: [&str; 2] = ["create", "resize"];

/// Returns `true` if `-s` is a command's size.
pub(crate) fn has_size(command: &str) -> bool {
    SIZED.contains(&command)
}

/// The options of the forms; each has a value.
const OPTIONS: [&str; 6] = ["--image", "--dest", "--dest-pool", "--dest-namespace", "--dest-snap", "--path"];

/// The options of commands on groups; each has a value.
const GROUP_OPTIONS: [&str; 6] =
    ["--group", "--group-pool", "--group-namespace", "--image", "--image-pool", "--image-namespace"];

/// Returns `true` if a word is an option of the forms.
pub(crate) fn is_option(word: &str) -> bool {
    let option = word.split('=').next().unwrap_or_default();
    OPTIONS.contains(&option) || GROUP_OPTIONS.contains(&option)
}

/// Returns the value after `=` in the word, or the next word.
fn value_of(word: &str, words: &mut impl Iterator<Item = String>) -> Result<String, String> {
    match word.split_once('=') {
        Some((_, value)) => Ok(value.to_owned()),
        None => words.next().ok_or_else(|| format!("{word} needs a value")),
    }
}

/// Replaces the options that name the parts of a group or an image with words: the group, and the image
/// if there is one.
fn of_group(words: Vec<String>, takes_next: impl Fn(&str) -> bool) -> Result<Vec<String>, String> {
    let mut named: [Option<String>; GROUP_OPTIONS.len()] = Default::default();
    let (mut options, mut left) = (Vec::new(), Vec::new());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let option = word.split('=').next().unwrap_or_default();
        match GROUP_OPTIONS.iter().position(|known| *known == option) {
            Some(at) => named[at] = Some(value_of(&word, &mut words)?),
            None if word.starts_with('-') && word != "-" => {
                let next = takes_next(&word).then(|| words.next()).flatten();
                options.extend([word].into_iter().chain(next));
            }
            None => left.push(word),
        }
    }
    let [group, group_pool, group_namespace, image, image_pool, image_namespace] = named;
    let group = in_place("--group", group, group_pool, group_namespace)?;
    let image = in_place("--image", image, image_pool, image_namespace)?;
    let mut left = left.into_iter();
    // Without the option the group is the first word, before the image.
    options.extend(group.or_else(|| left.next()));
    options.extend(image);
    options.extend(left);
    Ok(options)
}

fn in_place(
    option: &str,
    name: Option<String>,
    pool: Option<String>,
    namespace: Option<String>,
) -> Result<Option<String>, String> {
    match (name, pool, namespace) {
        (None, None, None) => Ok(None),
        (None, ..) => Err(format!("{option} is missing beside its pool or namespace")),
        (Some(name), None, None) => Ok(Some(name)),
        (Some(name), Some(pool), None) => Ok(Some(format!("{pool}/{name}"))),
        (Some(name), Some(pool), Some(namespace)) => Ok(Some(format!("{pool}/{namespace}/{name}"))),
        (Some(_), None, Some(_)) => Err(format!("{option}-namespace needs {option}-pool")),
    }
}

/// Commands that name an image only by its id; `--image-id` adds nothing there.
const BY_ID: [&str; 3] = ["trash rm", "trash remove", "trash restore"];

/// Makes the id a word of its own, after the option that marks it as an id.
fn ids(command: &str, words: Vec<String>) -> Vec<String> {
    if command.starts_with("group ") {
        return words;
    }
    let (mut all, is_known) = (Vec::new(), BY_ID.contains(&command));
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let id = word.strip_prefix("--image-id=").map(str::to_owned);
        match id {
            None if word == "--" => {
                all.push(word);
                all.extend(words.by_ref());
            }
            None if word == "--image-id" && is_known => {}
            None => all.push(word),
            Some(id) => {
                all.extend((!is_known).then(|| "--image-id".to_owned()));
                all.push(id);
            }
        }
    }
    all
}

/// The options of the forms in a command line; of repeated options the last one.
#[derive(Default)]
struct Named([Option<String>; OPTIONS.len()]);

impl Named {
    fn value(&mut self, option: &str) -> Option<String> {
        OPTIONS.iter().position(|known| *known == option).and_then(|at| self.0[at].take())
    }
}

/// Returns the words after a command's name, with the names where the command expects them. `takes_next`
/// tells which other options have values.
pub(crate) fn arranged(
    command: &str,
    words: Vec<String>,
    takes_next: impl Fn(&str) -> bool,
) -> Result<Vec<String>, String> {
    let words = ids(command, words);
    let words = if command.starts_with("group ") { of_group(words, &takes_next)? } else { words };
    let Some((_, parts)) = FORMS.iter().find(|(commands, _)| commands.contains(&command)) else {
        return Ok(words);
    };
    let mut named = Named::default();
    let (mut options, mut given) = (Vec::new(), Vec::new());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let size = word.strip_prefix("-s").filter(|_| has_size(command));
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value.to_owned())),
            None => (&*word, None),
        };
        if word == "--" {
            given.extend(words.by_ref());
        } else if let Some(at) = OPTIONS.iter().position(|known| *known == option) {
            let value = value.or_else(|| words.next());
            named.0[at] = Some(value.ok_or_else(|| format!("{option} needs a value"))?);
        } else if let Some(size) = size {
            options.push("--size".to_owned());
            let value = if size.is_empty() { words.next() } else { Some(size.to_owned()) };
            options.extend(value);
        } else if word.starts_with('-') && word != "-" {
            let next = takes_next(&word).then(|| words.next()).flatten();
            options.extend([word].into_iter().chain(next));
        } else {
            given.push(word);
        }
    }
    put(command, parts, &mut given, &mut named)?;
    if let Some(left) =
        OPTIONS.iter().zip(&named.0).find_map(|(option, value)| value.as_ref().map(|_| option))
    {
        return Err(format!("{left} is no option of {command}"));
    }
    if given.iter().any(|word| word.starts_with('-') && word != "-") {
        options.push("--".to_owned());
    }
    options.extend(given);
    Ok(options)
}

/// Inserts the names from options among those from words.
fn put(command: &str, parts: &[Part], given: &mut Vec<String>, named: &mut Named) -> Result<(), String> {
    let own_name = match command {
        "import" => file_name,
        "migration prepare" => image_name,
        _ => no_name,
    };
    for (at, part) in parts.iter().enumerate() {
        let value = match part {
            Source => named.value("--image"),
            File => named.value("--path"),
            // An import has one image only, so both options name it.
            Dest if parts[0] == File => named.value("--dest").or(named.value("--image")),
            Dest => named.value("--dest"),
        };
        if let Some(value) = value {
            given.insert(at.min(given.len()), value);
        }
        if *part == Dest {
            put_place(at, own_name, given, named)?;
        }
    }
    Ok(())
}

/// An import is named after the file.
fn file_name(file: &str) -> Option<&str> {
    Path::new(file).file_name().and_then(|name| name.to_str())
}

/// A migration keeps the image's name.
fn image_name(image: &str) -> Option<&str> {
    image.split('@').next().and_then(|path| path.rsplit('/').next())
}

/// Other commands have no default name.
fn no_name(_: &str) -> Option<&str> {
    None
}

/// Adds the location of the created image from the options.
fn put_place(
    at: usize,
    own_name: fn(&str) -> Option<&str>,
    given: &mut Vec<String>,
    named: &mut Named,
) -> Result<(), String> {
    let [pool, namespace, snap] =
        ["--dest-pool", "--dest-namespace", "--dest-snap"].map(|option| named.value(option));
    if pool.is_none() && namespace.is_none() && snap.is_none() {
        return Ok(());
    }
    if given.len() <= at {
        let source = given.first().filter(|_| snap.is_none());
        let own = source.and_then(|source| own_name(source));
        let own = own.ok_or("what is made has no name; give it with --dest")?;
        given.push(own.to_owned());
    }
    let dest = &mut given[at];
    if !dest.contains('/') {
        let place = match (pool, namespace) {
            (None, None) => String::new(),
            (Some(pool), None) => format!("{pool}/"),
            (Some(pool), Some(namespace)) => format!("{pool}/{namespace}/"),
            (None, Some(_)) => return Err("--dest-namespace needs --dest-pool".to_owned()),
        };
        dest.insert_str(0, &place);
    }
    if let Some(snap) = snap.filter(|_| !dest.contains('@')) {
        dest.push('@');
        dest.push_str(&snap);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arranged_so(command: &str, words: &str) -> Result<String, String> {
        let words = words.split_whitespace().map(str::to_owned).collect();
        let takes_next = |word: &str| ["-p", "--size", "--snap", "--order"].contains(&word);
        arranged(command, words, takes_next).map(|words| words.join(" "))
    }

    #[test]
    fn names_stand_where_commands_expect_them() {
        // As 16.2.15 reads them.
        for (command, words, read) in [
            ("info", "i --snap s", "--snap s i"),
            ("info", "--image i", "i"),
            ("info", "--image=p/i@s", "p/i@s"),
            ("create", "-s 10M i", "--size 10M i"),
            ("create", "-s10M --image i", "--size 10M i"),
            ("resize", "i -s 5", "--size 5 i"),
            ("info", "-s s1 i", "-s s1 i"),
            ("import", "f", "f"),
            ("import", "--image i f", "f i"),
            ("import", "--dest i --path f", "f i"),
            ("import", "--dest i --dest-pool q /d/f", "/d/f q/i"),
            ("import", "--dest-pool q /d/f", "/d/f q/f"),
            ("import", "--path -", "-"),
            ("cp", "i j --dest-pool q", "i q/j"),
            ("migration prepare", "i --dest-pool q", "i q/i"),
            ("migration prepare", "--image p/n/i@s --dest-pool q", "p/n/i@s q/i"),
            ("migration execute", "--image i", "i"),
            ("cp", "--dest j i --dest-pool q --dest-namespace n", "i q/n/j"),
            ("cp", "i q/j --dest-pool r", "i q/j"),
            ("rename", "--image i j", "i j"),
            ("rename", "--image i --dest j", "i j"),
            ("clone", "--image p/i --snap s --dest c", "--snap s p/i c"),
            ("snap rename", "i@s --dest i --dest-snap t", "i@s i@t"),
            ("export", "--image i --path f", "i f"),
            ("export", "--path f i", "i f"),
            ("import-diff", "--image i f", "f i"),
            ("lock add", "--image i id", "i id"),
            ("image-meta set", "--image i k v", "i k v"),
            ("rm", "--image i -- -j", "-- i -j"),
            ("info", "--image-id 12ab", "--image-id 12ab"),
            ("snap ls", "--image-id=12ab --all", "--image-id --all 12ab"),
            ("trash rm", "--image-id 12ab --force", "12ab --force"),
            ("trash restore", "--image-id=12ab --image i", "12ab --image i"),
            ("config image set", "--image i k v", "i k v"),
            (
                "group image add",
                "--group-pool p --group-namespace n --group g --image-pool p --image-namespace n --image i",
                "p/n/g p/n/i",
            ),
            ("group image rm", "g --image-pool p --image i", "g p/i"),
            ("group image rm", "g --snap 12 i", "--snap 12 g i"),
            ("group snap create", "--group g --snap s", "--snap s g"),
            ("group ls", "--size 3", "--size 3"),
            ("merge-diff", "--path x a b", "--path x a b"),
        ] {
            assert_eq!(arranged_so(command, words).as_deref(), Ok(read), "{command} {words}");
        }
    }

    #[test]
    fn an_option_that_says_nothing_is_refused() {
        for (command, words) in [
            ("info", "i --dest j"),
            ("cp", "i j --path f"),
            ("rm", "--image"),
            ("cp", "i j --dest-namespace n"),
            ("snap rename", "i@s --dest-snap t"),
            ("rename", "i --dest-pool q"),
            ("group create", "--group-pool p"),
            ("group create", "--group g --group-namespace n"),
        ] {
            assert!(arranged_so(command, words).is_err(), "{command} {words}");
        }
    }
}
