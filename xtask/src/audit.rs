//! Checks the list of dependencies with C code: `docs/decisions/c-dependencies.md` must name each
//! package of `Cargo.lock` that builds C code.

use std::collections::BTreeSet;
use std::fs;

use crate::Result;
use crate::process::workspace;

const LIST: &str = "docs/decisions/c-dependencies.md";

/// The packages with which build scripts compile C and assembly.
const COMPILERS: [&str; 4] = ["cc", "cmake", "nasm-rs", "autotools"];

/// The items that every entry must contain.
const QUESTIONS: [&str; 5] = ["What", "Why", "Kept by", "Input", "If it had a fault"];

pub(crate) fn run() -> Result<Vec<String>> {
    let read = |file: &str| fs::read_to_string(workspace().join(file)).map_err(|e| format!("{file}: {e}"));
    Ok(compare(&builds_c(&read("Cargo.lock")?), &read(LIST)?))
}

/// Returns the packages of a lock file that depend on a compiler.
fn builds_c(lock: &str) -> BTreeSet<&str> {
    let builds = |package: &&str| {
        let dependencies = package.split_once("dependencies = [").map_or("", |(_, rest)| rest);
        // A line is ` "name",` or, if there are several versions, ` "name version",`.
        let names = dependencies.lines().filter_map(|line| line.split(['"', ' ']).nth(2));
        names.into_iter().any(|name| COMPILERS.contains(&name))
    };
    lock.split("[[package]]")
        .filter(builds)
        .filter_map(|package| package.lines().find_map(|line| line.strip_prefix("name = \"")))
        .filter_map(|rest| rest.strip_suffix('"'))
        .collect()
}

/// Returns the faults of the list.
fn compare(packages: &BTreeSet<&str>, list: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut listed = BTreeSet::new();
    for entry in list.split("\n## ").skip(1) {
        let (name, text) = entry.split_once('\n').unwrap_or((entry, ""));
        listed.insert(name.trim());
        for question in QUESTIONS {
            if !text.contains(&format!("\n- {question}: ")) && !text.starts_with(&format!("- {question}: ")) {
                found.push(format!("{LIST}: {name}: \"{question}\" is not answered"));
            }
        }
    }
    for missing in packages.difference(&listed) {
        found.push(format!(
            "{LIST}: {missing} builds C code and is not listed: say what it is and what it reads"
        ));
    }
    for gone in listed.difference(packages) {
        found.push(format!("{LIST}: {gone} is listed and no package of Cargo.lock that builds C code"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"a-sys\"\nversion = \"1\"\ndependencies = [\n \"cc\",\n]\n\n\
                        [[package]]\nname = \"b\"\nversion = \"1\"\ndependencies = [\n \"libc\",\n]\n\n\
                        [[package]]\nname = \"cc\"\nversion = \"1\"\n\n\
                        [[package]]\nname = \"d\"\ndependencies = [\n \"cmake 0.1.2\",\n]\n";

    fn entry(name: &str) -> String {
        let answers: String = QUESTIONS.iter().map(|question| format!("- {question}: so.\n")).collect();
        format!("\n## {name}\n{answers}")
    }

    #[test]
    fn the_packages_that_build_c_are_found() {
        assert_eq!(builds_c(LOCK), BTreeSet::from(["a-sys", "d"]));
    }

    #[test]
    fn what_is_not_listed_or_no_longer_there_is_told() {
        let packages = builds_c(LOCK);
        assert!(compare(&packages, &(entry("a-sys") + &entry("d"))).is_empty());
        assert_eq!(compare(&packages, &entry("a-sys")).len(), 1);
        assert_eq!(compare(&packages, &(entry("a-sys") + &entry("d") + &entry("gone"))).len(), 1);
        assert_eq!(compare(&packages, &(entry("a-sys") + "\n## d\n- What: it.\n")).len(), 4);
    }

    #[test]
    fn the_project_s_list_is_complete() {
        assert_eq!(run().expect("both files are there"), Vec::<String>::new());
    }
}
