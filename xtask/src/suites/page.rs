//! The page `docs/compatibility.md`, made from the list.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::Store;
use super::list::{LeftOut, List, Suite};
use crate::process::workspace;
use crate::stock::Release;
use crate::{Result, compat};

const RELEASES: [Release; 2] = [Release::Reef, Release::Tentacle];

/// The list of Ceph's scripts for the kernel's client of images, which a test of the program `loligo` runs.
const KERNEL_SCRIPTS: &str = "crates/apps/cli/tests/krbd_kernel/scripts.txt";

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
         <!-- Written by `cargo xtask test suites --write-page` from xtask/src/suites/list.toml, xtask/src/suites/capi.toml, \
         crates/apps/cli/tests/krbd_kernel/scripts.txt, xtask/src/compat/facts and the sources. -->\n\n\
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
    page.push_str(&programs_on_capi()?);
    page.push_str(&kernel_scripts(&std::fs::read_to_string(workspace().join(KERNEL_SCRIPTS))?)?);
    page.push_str(&compat::sections()?);
    Ok(page)
}

/// The section about programs on the C libraries.
fn programs_on_capi() -> Result<String> {
    let list = List::read_capi()?;
    let mut page = String::from(
        "\n## Programs on the C libraries\n\n\
         `cargo xtask test suites --capi` runs programs of release 18.2.7 on Loligo's C libraries and on Ceph's, against\n\
         `loligo serve` and against a stock cluster. Tests that are known not to pass are listed below. `--quick` runs a part,\n\
         on Loligo's libraries against `loligo serve`.\n\n\
         | program | `--quick` |\n|---|---|\n",
    );
    for suite in &list.suites {
        writeln!(page, "| `{}` | {} |", suite.name(), if suite.quick { "yes" } else { "no" })?;
    }
    page.push_str("\n### Tests of these programs that do not pass\n");
    for group in &list.left_out {
        section(&mut page, group)?;
    }
    Ok(page)
}

/// The section about scripts for the kernel's client of images. In the list a colon and a reason are behind
/// each script that is left out.
fn kernel_scripts(list: &str) -> Result<String> {
    let mut page = String::from(
        "\n## Ceph's scripts for the kernel's client of images\n\n\
         The scripts `krbd_*` lie below `qa` of ceph/ceph, and are in no package. `cargo xtask torture` runs those that\n\
         need nothing but an image and small programs, in an emulated machine, if `CEPH_SOURCE` names a folder that has\n\
         them; so does `cargo test -p loligo --test krbd_kernel -- --ignored --nocapture scripts_of_ceph`.\n\n\
         | scripts | run |\n|---|---|\n",
    );
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for line in lines {
        let (script, why) = line.split_once(": ").unwrap_or((line, "yes"));
        match groups.iter_mut().find(|group| group.0 == why) {
            Some((_, scripts)) => scripts.push(format!("`{script}`")),
            None => groups.push((why, vec![format!("`{script}`")])),
        }
    }
    for (why, scripts) in groups {
        let run = if why == "yes" { why.to_owned() } else { format!("no. {why}") };
        writeln!(page, "| {} | {run} |", scripts.join(" "))?;
    }
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
    if let [libs] = group.libs[..] {
        writeln!(page, "Only on {}.\n", libs.name())?;
    }
    if let [peer] = group.peers[..] {
        writeln!(page, "Only against {}.\n", peer.name())?;
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
    fn scripts_have_one_row_for_each_reason() {
        let page = kernel_scripts("# of Ceph\na.t\nb.t: Too long.\nc.t\nd.t: Too long.\n").expect("written");
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(rows, ["| `a.t` `c.t` | yes |", "| `b.t` `d.t` | no. Too long. |"]);
    }

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
