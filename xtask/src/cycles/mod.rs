//! Finds import cycles between the files of a crate. Like dependencies between crates, imports within a
//! crate must have no cycles, except those of a list that may only shrink (`xtask/cycles.txt`).
//!
//! A file depends on another if it names an item that the other one defines. A re-exported item
//! (`pub use`) counts for the file that defines it, so a parent that declares its modules and re-exports
//! their items is in no cycle. A child may use the items of its parents, as a function may use the items
//! of its file. Tests do not count.

mod graph;
mod reader;
mod resolve;

use std::collections::BTreeSet;
use std::fs;

use self::graph::Circle;
use crate::Result;
use crate::process::workspace;

/// The list of files known to be in a cycle, relative to the workspace.
const KNOWN: &str = "xtask/cycles.txt";

/// Prints the cycles of those crates in `folders` whose path contains `filter`.
pub(crate) fn show(folders: impl Iterator<Item = &'static str>, filter: &str) -> Result<()> {
    let mut count = 0;
    for folder in folders.filter(|folder| folder.contains(filter)) {
        for circle in of_crate(folder)? {
            count += 1;
            println!("{folder}: {} files", circle.files.len());
            for arrow in &circle.arrows {
                println!("  {} -> {}: {}", arrow.from, arrow.to, arrow.names.join(", "));
            }
        }
    }
    println!("{count} circles");
    Ok(())
}

/// Removes the files that are in no cycle any more from the list. No command adds files to it.
pub(crate) fn prune(folders: impl Iterator<Item = &'static str>) -> Result<()> {
    let mut tangled = BTreeSet::new();
    for folder in folders {
        tangled.extend(of_crate(folder)?.into_iter().flat_map(|circle| circle.files));
    }
    let list = workspace().join(KNOWN);
    let text = fs::read_to_string(&list)?;
    let kept = text.lines().filter(|line| line.starts_with('#') || tangled.contains(*line));
    fs::write(&list, kept.map(|line| format!("{line}\n")).collect::<String>())?;
    Ok(())
}

/// Adds to `found` each file that is in a cycle but not in the list, and each file of the list that is
/// in no cycle.
pub(crate) fn check(folders: impl Iterator<Item = &'static str>, found: &mut Vec<String>) -> Result<()> {
    let text = fs::read_to_string(workspace().join(KNOWN))?;
    let known: BTreeSet<&str> = text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')).collect();
    let mut circles = Vec::new();
    for folder in folders {
        circles.extend(of_crate(folder)?);
    }
    compare(&circles, &known, found);
    Ok(())
}

fn compare(circles: &[Circle], known: &BTreeSet<&str>, found: &mut Vec<String>) {
    let mut tangled = BTreeSet::new();
    for circle in circles {
        tangled.extend(circle.files.iter().map(String::as_str));
        for file in circle.files.iter().filter(|file| !known.contains(file.as_str())) {
            let arrows: Vec<String> = circle.arrows_of(file).map(ToString::to_string).collect();
            found.push(format!("{file}: is in a circle of imports: {}", arrows.join("; ")));
        }
    }
    for file in known.difference(&tangled) {
        found.push(format!(
            "{file}: is in no circle of imports: take it out of {KNOWN} (cargo xtask cycles --prune)"
        ));
    }
}

/// Returns the cycles of the crate in this folder, in its library and in its program.
fn of_crate(folder: &str) -> Result<Vec<Circle>> {
    let mut circles = Vec::new();
    for root in ["src/lib.rs", "src/main.rs"] {
        let root = format!("{folder}/{root}");
        if workspace().join(&root).exists() {
            let source = reader::read(&root, &mut |file| fs::read_to_string(workspace().join(file)))?;
            circles.extend(graph::circles(&source.files, &resolve::arrows(&source)));
        }
    }
    Ok(circles)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};
    use std::io;

    use super::graph::Circle;
    use super::{compare, graph, reader, resolve};

    fn circles(files: &[(&str, &str)]) -> Vec<Circle> {
        let files: HashMap<String, String> =
            files.iter().map(|(file, text)| (format!("src/{file}"), (*text).to_owned())).collect();
        let mut load = |file: &str| files.get(file).cloned().ok_or_else(|| io::ErrorKind::NotFound.into());
        let source = reader::read("src/lib.rs", &mut load).expect("the sources can be read");
        graph::circles(&source.files, &resolve::arrows(&source))
    }

    /// Returns the files of the only cycle, separated by spaces.
    fn the_circle(files: &[(&str, &str)]) -> String {
        let circles = circles(files);
        assert!(circles.len() <= 1, "{circles:?}");
        circles.first().map(|circle| circle.files.join(" ")).unwrap_or_default()
    }

    #[test]
    fn two_files_that_import_each_other_are_a_circle() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::{B, other::*}; pub struct A(B);"),
            ("b.rs", "pub struct B; fn f(a: super::a::A) {}"),
            ("c.rs", "use crate::a::A;"),
        ];
        assert_eq!(the_circle(&files), "src/a.rs src/b.rs");
    }

    #[test]
    fn what_is_handed_on_is_charged_to_the_file_that_defines_it() {
        let parent = [
            ("lib.rs", "mod house;"),
            ("house/mod.rs", "mod door; mod wall; pub use door::Door; pub(crate) use self::wall::Wall;"),
            ("house/door.rs", "use super::Wall; pub struct Door(Wall);"),
            ("house/wall.rs", "pub struct Wall;"),
        ];
        assert_eq!(the_circle(&parent), "");
        let through = [
            ("lib.rs", "mod house; mod yard;"),
            ("house.rs", "mod door; pub use door::Door;"),
            ("house/door.rs", "pub struct Door(crate::yard::Path);"),
            ("yard.rs", "use crate::house::Door; pub struct Path; fn f() { Door::open() }"),
        ];
        assert_eq!(the_circle(&through), "src/house/door.rs src/yard.rs");
    }

    #[test]
    fn what_a_parent_defines_is_within_reach_of_its_children() {
        let files = [
            ("lib.rs", "mod house; mod yard;"),
            ("house/mod.rs", "mod door; pub use door::Door; pub struct House(Door);"),
            ("house/door.rs", "pub struct Door; fn f(house: &super::House, all: &crate::House) {}"),
            ("yard.rs", "pub struct Yard(crate::house::House);"),
        ];
        assert_eq!(the_circle(&files), "");
        let mut around = files;
        around[2].1 = "pub struct Door(crate::yard::Yard);";
        assert_eq!(the_circle(&around), "src/house/door.rs src/house/mod.rs src/yard.rs");
    }

    #[test]
    fn names_taken_by_a_star_and_inside_functions_count() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::*; fn f() { helper() }  pub fn a() {}"),
            ("b.rs", "pub fn helper() { use crate::c::c; c() }"),
            ("c.rs", "pub fn c() { println!(\"{}\", crate::a::a()) }"),
        ];
        assert_eq!(the_circle(&files), "src/a.rs src/b.rs src/c.rs");
    }

    #[test]
    fn tests_comments_and_texts_do_not_count() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub struct A(B);"),
            (
                "b.rs",
                "/// [`crate::a::A`]\npub struct B; // crate::a::A\nconst X: &str = \"crate::a::A\";\n\
                 impl B { #[cfg(test)] fn g() -> crate::a::A { todo() } }\n\
                 #[cfg(test)] mod tests { use crate::a::A; }\n#[cfg(test)] mod more;",
            ),
        ];
        assert_eq!(the_circle(&files), "");
    }

    #[test]
    fn the_list_may_only_shrink() {
        let circle = circles(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use crate::a::A; pub struct B;"),
        ]);
        let judge = |known: &[&'static str]| {
            let mut found = Vec::new();
            compare(&circle, &BTreeSet::from_iter(known.iter().copied()), &mut found);
            found
        };
        assert!(judge(&["src/a.rs", "src/b.rs"]).is_empty());
        assert_eq!(
            judge(&["src/a.rs"]),
            ["src/b.rs: is in a circle of imports: src/b.rs -> src/a.rs: A; src/a.rs -> src/b.rs: B"]
        );
        assert_eq!(
            judge(&["src/a.rs", "src/b.rs", "src/c.rs"]),
            ["src/c.rs: is in no circle of imports: take it out of xtask/cycles.txt \
              (cargo xtask cycles --prune)"]
        );
    }
}
