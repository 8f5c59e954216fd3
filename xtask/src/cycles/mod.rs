//! Finds import cycles between the files of a crate. Like dependencies between crates, imports within a
//! crate must have no cycles.
//!
//! A file depends on another if it names an item that the other one defines. A re-exported item
//! (`pub use`) counts for the file that defines it, so a parent that declares its modules and re-exports
//! their items is in no cycle. A child may use the items of its parents, as a function may use the items
//! of its file. Tests do not count.

mod graph;
mod reader;
mod resolve;

use std::fs;

use self::graph::Circle;
use crate::Result;
use crate::process::workspace;

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

/// Adds to `found` each file that is in a cycle.
pub(crate) fn check(folders: impl Iterator<Item = &'static str>, found: &mut Vec<String>) -> Result<()> {
    for folder in folders {
        report(&of_crate(folder)?, found);
    }
    Ok(())
}

fn report(circles: &[Circle], found: &mut Vec<String>) {
    for circle in circles {
        for file in &circle.files {
            let arrows: Vec<String> = circle.arrows_of(file).map(ToString::to_string).collect();
            found.push(format!("{file}: is in a circle of imports: {}", arrows.join("; ")));
        }
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
    use std::collections::HashMap;
    use std::io;

    use super::graph::Circle;
    use super::{graph, reader, report, resolve};

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
    fn each_file_of_a_circle_is_reported_with_the_names_that_cause_it() {
        let circles = circles(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use crate::a::A; use crate::c::C; pub struct B;"),
            ("c.rs", "pub struct C;"),
        ]);
        let mut found = Vec::new();
        report(&circles, &mut found);
        assert_eq!(
            found,
            [
                "src/a.rs: is in a circle of imports: src/a.rs -> src/b.rs: B; src/b.rs -> src/a.rs: A",
                "src/b.rs: is in a circle of imports: src/b.rs -> src/a.rs: A; src/a.rs -> src/b.rs: B",
            ]
        );
    }
}
