//! The project's own rules that a program can check.

use std::fs;
use std::path::Path;

use crate::process::{output_of, workspace};
use crate::{Result, audit, cycles, verdicts};

/// The floors of the house: a crate knows only crates on lower floors (ARCHITECTURE.md).
const FLOORS: [(&str, u32); 36] = [
    ("tests/powercut", 0),
    ("crates/base/heap", 0),
    ("crates/base/lockstat", 0),
    ("crates/base/types", 0),
    ("crates/base/lane", 1),
    ("crates/base/logring", 1),
    ("crates/proto/wire", 1),
    ("crates/proto/layout", 1),
    ("crates/proto/fs-core", 1),
    ("crates/proto/nbd-proto", 1),
    ("crates/proto/maps", 2),
    ("crates/proto/cephx", 2),
    ("crates/proto/msgr-proto", 3),
    ("crates/net/conf", 4),
    ("crates/net/msgr", 4),
    ("crates/net/admin", 4),
    ("crates/client/cluster", 5),
    ("crates/client/cache", 5),
    ("crates/server/store", 5),
    ("crates/server/classes", 5),
    ("crates/server/store-disk", 6),
    ("crates/server/osd", 6),
    ("crates/client/rados", 6),
    ("crates/client/stripe", 7),
    ("crates/server/mon", 6),
    ("crates/client/rbd", 8),
    ("crates/client/fs", 7),
    ("crates/server/server", 7),
    ("crates/apps/flight", 8),
    ("crates/apps/nbd", 9),
    ("crates/apps/capi", 9),
    ("crates/apps/fuse", 9),
    ("crates/apps/contend", 10),
    ("python", 10),
    ("crates/apps/cli", 11),
    ("xtask", 11),
];

/// The groups of crates, from the lowest: a crate may depend only on crates of its own group and of
/// lower ones.
const GROUPS: [(&str, u32); 6] = [
    ("crates/base/", 0),
    ("crates/proto/", 1),
    ("crates/net/", 2),
    ("crates/client/", 3),
    ("crates/server/", 3),
    ("crates/apps/", 4),
];

/// Returns the folder of a crate, relative to the workspace; none if there is no such crate.
pub(crate) fn folder_of(name: &str) -> Option<&'static str> {
    FLOORS.iter().map(|(folder, _)| *folder).find(|folder| name_of(folder) == name)
}

/// The folders of all crates.
pub(crate) fn folders() -> impl Iterator<Item = &'static str> {
    FLOORS.iter().map(|(folder, _)| *folder)
}

fn name_of(folder: &str) -> &str {
    folder.rsplit('/').next().unwrap_or(folder)
}

/// Crates that read bytes of peers and must not panic on them.
const PEER_BYTES: [&str; 10] = [
    "crates/base/types/",
    "crates/proto/wire/",
    "crates/proto/msgr-proto/",
    "crates/proto/maps/",
    "crates/proto/cephx/",
    "crates/proto/fs-core/",
    "crates/proto/nbd-proto/",
    "crates/net/conf/",
    "crates/server/classes/",
    "crates/apps/nbd/",
];

const LINES_MAX: usize = 1200;
/// The width of code (`rustfmt.toml`).
const COLUMNS_MAX: usize = 110;

pub(crate) fn run() -> Result<()> {
    let mut found = Vec::new();
    let files = output_of(std::process::Command::new("git").args(["ls-files"]).current_dir(workspace()))?;
    let read = |file: &str| fs::read_to_string(workspace().join(file)).map(|text| (file.to_owned(), text));
    let files: Vec<_> =
        files.lines().filter(|f| f.ends_with(".rs")).map(read).collect::<std::io::Result<_>>()?;
    for (file, text) in &files {
        check_source(file, text, &mut found);
    }
    verdicts::check(&files, &mut found)?;
    for (folder, floor) in FLOORS.iter().filter(|(folder, _)| *folder != "xtask") {
        let manifest = workspace().join(folder).join("Cargo.toml");
        check_arrows(folder, *floor, &fs::read_to_string(manifest)?, &mut found);
    }
    cycles::check(folders(), &mut found)?;
    found.extend(machine_paths()?);
    found.extend(audit::run()?);
    if found.is_empty() { Ok(()) } else { Err(format!("rules broken:\n  {}", found.join("\n  ")).into()) }
}

/// Returns the lines that contain the path of the folder of this clone: they are of no use on other
/// machines.
fn machine_paths() -> Result<Vec<String>> {
    let Some(above) = workspace().parent().filter(|above| above.parent().is_some()).map(Path::to_owned)
    else {
        return Ok(Vec::new());
    };
    let mut grep = std::process::Command::new("git");
    grep.args(["grep", "-nIF", "-e"]).arg(format!("{}/", above.display())).current_dir(workspace());
    // If nothing is found, the exit status is 1, so the status is not checked.
    let hits = String::from_utf8_lossy(&grep.output()?.stdout).into_owned();
    Ok(hits.lines().map(|line| format!("a path of this machine: {line}")).collect())
}

/// Checks that the file begins with a description, and that comments are no wider than code: wider ones
/// need scrolling.
fn check_comments(file: &str, text: &str, found: &mut Vec<String>) {
    if !text.starts_with("//!") {
        found.push(format!("{file}: no `//!` in the first line says what the file is"));
    }
    let mut is_verbatim = false;
    for (number, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_verbatim = false;
            continue;
        };
        let words = comment.trim_start_matches(['/', '!']).trim_start();
        is_verbatim ^= words.starts_with("```");
        // Tables and drawings cannot be wrapped.
        let is_drawn = words.starts_with('|') || comment.contains(['│', '└', '╔', '┘', '─', '▶']);
        if line.chars().count() > COLUMNS_MAX && !is_verbatim && !is_drawn {
            found.push(format!("{file}:{}: a comment of more than {COLUMNS_MAX} columns", number + 1));
        }
    }
}

fn check_source(file: &str, text: &str, found: &mut Vec<String>) {
    check_comments(file, text, found);
    let lines = text.lines().count();
    if lines > LINES_MAX {
        found.push(format!("{file}: {lines} lines; more than {LINES_MAX} are more than one idea"));
    }
    let is_test =
        ["/tests/", "/benches/", "/examples/", "/fuzz_targets/"].iter().any(|dir| file.contains(dir))
            || Path::new(file).file_name().is_some_and(|name| name == "tests.rs");
    if is_test {
        return;
    }
    let product = text.split("#[cfg(test)]").next().unwrap_or_default();
    for (number, line) in product.lines().enumerate() {
        let code = line.trim_start();
        let unwraps = PEER_BYTES.iter().any(|dir| file.starts_with(dir)) && code.contains(".unwrap()");
        if unwraps && !code.starts_with("//") {
            found.push(format!("{file}:{}: unwrap() where bytes of a peer may flow", number + 1));
        }
    }
}

fn check_arrows(folder: &str, floor: u32, manifest: &str, found: &mut Vec<String>) {
    let dependencies = manifest.split("[dev-dependencies]").next().unwrap_or_default();
    for (other, other_floor) in FLOORS {
        let knows = dependencies.lines().any(|line| {
            line.strip_prefix("loligo-")
                .and_then(|rest| rest.split(['.', ' ', '=']).next())
                .is_some_and(|word| word == name_of(other))
        });
        if knows && other_floor >= floor {
            found.push(format!("{folder} (floor {floor}) knows {other} (floor {other_floor})"));
        }
        if knows && !may_know(folder, other) {
            found.push(format!("{folder} knows {other}, which is in no group below"));
        }
    }
}

fn may_know(folder: &str, other: &str) -> bool {
    let group = |folder: &str| GROUPS.into_iter().find(|(group, _)| folder.starts_with(group));
    match (group(folder), group(other)) {
        (Some((own, rank)), Some((others, others_rank))) => own == others || others_rank < rank,
        // Packages only for tests and developers.
        (None, _) => true,
        (Some(_), None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_rules_are_found() {
        let mut found = Vec::new();
        check_source("crates/proto/wire/src/x.rs", "//! X.\nlet a = b.unwrap();\n", &mut found);
        check_source(
            "crates/server/osd/src/x.rs",
            &format!("//! X.{}", "\n".repeat(LINES_MAX + 1)),
            &mut found,
        );
        check_arrows("crates/proto/maps", 2, "[dependencies]\nloligo-msgr.workspace = true\n", &mut found);
        check_arrows("crates/server/osd", 7, "[dependencies]\nloligo-rados.workspace = true\n", &mut found);
        check_source("crates/server/osd/src/x.rs", "fn f() {}\n", &mut found);
        let wide = format!("//! X.\n    // {}\n", "word ".repeat(30));
        check_source("crates/server/osd/src/x.rs", &wide, &mut found);
        assert_eq!(found.len(), 7, "{found:?}");
    }

    #[test]
    fn kept_rules_are_not() {
        let mut found = Vec::new();
        let tested = "//! X.\nfn f() {}\n#[cfg(test)]\nmod tests { fn g() { a.unwrap() } }\n";
        check_source("crates/proto/wire/src/x.rs", tested, &mut found);
        let table =
            format!("//! X.\n//!\n//! | {} |\n//! ```\n//! {}\n//! ```\n", "a".repeat(120), "a".repeat(120));
        check_source("crates/proto/wire/src/x.rs", &table, &mut found);
        check_arrows(
            "crates/net/msgr",
            4,
            "[dependencies]\nloligo-msgr-proto.workspace = true\n",
            &mut found,
        );
        assert!(found.is_empty(), "{found:?}");
    }
}
