//! Resolves paths to files, and computes the arrows between files.

use super::graph::Arrows;
use super::reader::{Module, Source};

/// The maximum number of imports of imports to follow: these may have cycles.
const HOPS_MAX: u32 = 16;

/// Returns the names that each file uses from each other file.
pub(super) fn arrows(source: &Source) -> Arrows {
    let mut arrows = Arrows::default();
    for (at, module) in source.modules.iter().enumerate() {
        let mut point = |path: &[String]| {
            if let Some((file, name)) = definer(source, at, path, HOPS_MAX)
                && file != module.file
                && !encloses(source, file, at)
            {
                arrows.entry((module.file, file)).or_default().insert(name);
            }
        };
        for (name, import) in &module.imports {
            if !import.is_export || is_named(source, module.file, name) {
                point(&import.path);
            }
        }
        for path in &module.paths {
            point(path);
        }
        for star in &module.stars {
            for word in &module.words {
                let mut path = star.clone();
                path.push(word.clone());
                if !has(module, word) && is_there(source, at, &path) {
                    point(&path);
                }
            }
        }
    }
    arrows
}

/// Whether this file is that of a module around the module `at`. A child may use the items of its
/// parents, as a function may use the items of its file.
fn encloses(source: &Source, file: usize, at: usize) -> bool {
    std::iter::successors(source.modules[at].parent, |parent| source.modules[*parent].parent)
        .any(|parent| source.modules[parent].file == file)
}

/// Whether code of this file contains the word, which one of its modules imports.
fn is_named(source: &Source, file: usize, word: &str) -> bool {
    source.modules.iter().filter(|module| module.file == file).any(|module| module.words.contains(word))
}

fn has(module: &Module, word: &str) -> bool {
    module.items.contains(word) || module.imports.contains_key(word) || module.children.contains_key(word)
}

/// Whether the module at the path without its last segment defines or re-exports the last segment.
fn is_there(source: &Source, at: usize, path: &[String]) -> bool {
    let (last, way) = path.split_last().expect("a path has segments");
    let mut module = at;
    for (index, segment) in way.iter().enumerate() {
        let next = match segment.as_str() {
            "crate" => Some(0),
            "self" => Some(module),
            "super" => source.modules[module].parent,
            name if index == 0 || source.modules[module].children.contains_key(name) => {
                source.modules[module].children.get(name).copied()
            }
            _ => None,
        };
        let Some(next) = next else { return false };
        module = next;
    }
    let module = &source.modules[module];
    module.items.contains(last) || module.imports.get(last).is_some_and(|import| import.is_export)
}

/// Returns the file that defines the item at the path from this module, and the item's name; none for a
/// module, or for an item of another crate.
fn definer(source: &Source, at: usize, path: &[String], hops: u32) -> Option<(usize, String)> {
    let hops = hops.checked_sub(1)?;
    let mut module = at;
    for (index, segment) in path.iter().enumerate() {
        let here = &source.modules[module];
        let is_last = index + 1 == path.len();
        match segment.as_str() {
            "crate" => module = 0,
            "self" => {}
            "super" => module = here.parent?,
            name if is_last && here.items.contains(name) => return Some((here.file, name.to_owned())),
            name if here.children.contains_key(name) => module = here.children[name],
            name if here.items.contains(name) => return Some((here.file, name.to_owned())),
            name => return elsewhere(source, module, name, &path[index + 1..], (index == 0, hops)),
        }
    }
    None
}

/// Resolves a name that the module does not define itself: it is imported, or made by a macro.
fn elsewhere(
    source: &Source,
    module: usize,
    name: &str,
    rest: &[String],
    (is_first, hops): (bool, u32),
) -> Option<(usize, String)> {
    let here = &source.modules[module];
    if let Some(import) = here.imports.get(name) {
        // An import whose path begins with its own name, such as `use tokio;`, comes from another crate.
        if import.path.first().is_some_and(|first| first == name) && !here.children.contains_key(name) {
            return None;
        }
        let path: Vec<String> = import.path.iter().chain(rest).cloned().collect();
        return definer(source, module, &path, hops);
    }
    for star in &here.stars {
        let mut path = star.clone();
        path.push(name.to_owned());
        if is_there(source, module, &path) {
            path.extend_from_slice(rest);
            return definer(source, module, &path, hops);
        }
    }
    if module == 0
        && let Some(file) = source.macros.get(name)
    {
        return Some((*file, name.to_owned()));
    }
    // A path that starts with a name unknown here belongs to another crate, or to the language.
    (!is_first).then(|| (here.file, name.to_owned()))
}
