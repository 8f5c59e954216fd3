//! The page `docs/compatibility.md`, made from the list.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::Store;
use super::list::{LeftOut, List, Suite};
use crate::process::workspace;
use crate::stock::Release;
use crate::{Result, compat};

const RELEASES: [Release; 2] = [Release::Reef, Release::Tentacle];

/// Writes the page.
pub(crate) fn write() -> Result<()> {
    Ok(std::fs::write(path(), text()?)?)
}

fn path() -> PathBuf {
    workspace().join("docs/compatibility.md")
}

fn text() -> Result<String> {
    let list = List::read()?;
    let mut page = String::from(
        "# What works with which release\n\n\
         <!-- Written by `cargo xtask test suites --write-page` from xtask/src/suites/list.toml, xtask/src/compat/facts and the \
         sources. -->\n\n\
         Releases are 16.2.15, 18.2.7 and 20.2.4; x: the release has it. Answers that only look as if there were a cluster are in \
         [emulated answers](emulated.md), what is missing in [limits](limits.md).\n\n\
         ## What Ceph's own test programs find\n\n\
         Debian's package `ceph-test` holds the programs by which Ceph's developers test a cluster.\n\
         `cargo xtask test suites` runs them, from releases 18.2.7 and (with `--all-releases`) 20.2.4, against `loligo serve`\n\
         with each of its stores. Tests that are known not to pass are listed below. `--quick` leaves out what takes long.\n\n\
         | program | releases | `--quick` |\n|---|---|---|\n",
    );
    for suite in &list.suites {
        let of = RELEASES.into_iter().filter(|&release| suite.is_of(release));
        let of: Vec<&str> = of.map(Release::version).collect();
        let quick = match (suite.quick, suite.slow.is_empty()) {
            (true, true) => "yes",
            (true, false) => "the quick tests",
            (false, _) => "no",
        };
        let alone = if suite.alone { ", each test by itself" } else { "" };
        writeln!(page, "| {}{alone} | {} | {quick} |", called(suite), of.join(", "))?;
    }
    page.push_str("\n### Tests that do not pass\n");
    for group in &list.left_out {
        section(&mut page, group)?;
    }
    page.push_str("\n### Programs that are not run\n\n| why | programs |\n|---|---|\n");
    for group in &list.not_run {
        let names: Vec<String> = group.programs.iter().map(|name| format!("`{name}`")).collect();
        writeln!(page, "| {} | {} |", group.why, names.join(" "))?;
    }
    page.push_str(&compat::sections()?);
    Ok(page)
}

/// The command line of the program.
fn called(suite: &Suite) -> String {
    let env = suite.env.iter().map(|(name, value)| format!("{name}={value} "));
    let args = suite.args.iter().map(|arg| format!(" {arg}"));
    format!("`{}{}{}`", env.collect::<String>(), suite.program, args.collect::<String>())
}

fn section(page: &mut String, group: &LeftOut) -> Result<()> {
    writeln!(page, "\n#### {}\n\n{}\n", group.what, group.why.trim())?;
    if group.releases.len() < RELEASES.len() {
        let of: Vec<&str> = group.releases.iter().map(|release| release.version()).collect();
        writeln!(page, "Only in {}.\n", of.join(", "))?;
    }
    if group.stores.len() < Store::ALL.len() {
        let of: Vec<&str> = group.stores.iter().map(|store| store.name()).collect();
        writeln!(page, "Only with the store `{}`.\n", of.join("`, `"))?;
    }
    for test in &group.tests {
        writeln!(page, "- `{test}`")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_the_list() {
        let page = std::fs::read_to_string(path()).unwrap_or_default();
        let list = text().expect("the list is read");
        assert!(
            page == list,
            "docs/compatibility.md is not what `cargo xtask test suites --write-page` writes"
        );
    }
}
