//! `cargo xtask test suites --mount`: suites of other projects that need a mounted file system, run through
//! `loligo mount` on a stock cluster.
//!
//! `list.toml` has the tools' versions, and the tests that are left out, with the reasons. A tool that cannot
//! be downloaded, or a script that is not there, counts as skipped, by its name.

mod fsx;
mod list;
mod mount;
mod pjdfstest;
mod tools;
mod workunits;

use std::path::Path;

use crate::Result;
use crate::process::{cargo, succeed};
use crate::stock::Release;
use list::List;
use mount::Mounted;
use workunits::{SOURCE, Scripts};

/// What a mount needs.
const DEVICE: &str = "/dev/fuse";

/// What the suites have found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) passed: u64,
    /// The failed tests, with their output.
    pub(crate) failed: Vec<(String, String)>,
    /// Why tests did not run.
    pub(crate) skipped: Vec<String>,
    left_out: u64,
    /// Tests that are left out, and pass.
    passing: Vec<String>,
}

impl Found {
    fn pass(&mut self) {
        self.passed += 1;
    }

    fn fail(&mut self, test: String, said: &str) {
        self.failed.push((test, said.to_owned()));
    }

    /// All that a person has to know, the worst last.
    pub(crate) fn shown(&self) -> String {
        let mut text = String::new();
        self.passing.iter().for_each(|test| text.push_str(&format!("left out, and passes now: {test}\n")));
        for (test, said) in &self.failed {
            text.push_str(&format!("failed: {test}\n"));
            said.lines().for_each(|line| text.push_str(&format!("  {line}\n")));
        }
        let passing = self.passing.len() as u64;
        text + &format!(
            "suites through a mount: {} passed, {} failed, {} skipped, {} left out ({passing} of them pass)\n",
            self.passed,
            self.failed.len(),
            self.skipped.len(),
            self.left_out + passing,
        )
    }
}

/// The suites.
const SUITES: [&str; 3] = ["pjdfstest", "fsx", "workunits"];

/// Runs the suites whose names contain `name` on a file system of a release. `is_quick`: as far as they take
/// a few minutes.
pub(crate) fn run(release: Release, name: Option<&str>, is_quick: bool) -> Result<Found> {
    let list = List::read()?;
    let chosen = chosen(name);
    if chosen.is_empty() {
        let name = name.unwrap_or_default();
        return Err(format!("no suite is named '{name}'; there are {}", SUITES.join(", ")).into());
    }
    let mut found = Found::default();
    if !Path::new(DEVICE).exists() {
        found.skipped.extend(chosen.iter().map(|suite| format!("{suite}: there is no {DEVICE}")));
        return Ok(found);
    }
    // Before the cluster: what is not here needs none.
    let prepared = |suite: &str, version: &str, found: &mut Found| match chosen.contains(&suite) {
        true => tools::prepare(suite, version, found),
        false => Ok(None),
    };
    let pjdfstest = prepared("pjdfstest", &list.pjdfstest.version, &mut found)?;
    let fsx = prepared("fsx", &list.fsx.version, &mut found)?;
    let scripts = match chosen.contains(&"workunits") {
        true => Scripts::find(&list.workunits, std::env::var_os(SOURCE), &mut found),
        false => None,
    };
    if fsx.is_none() && pjdfstest.is_none() && scripts.is_none() {
        return Ok(found);
    }
    // Built as for the tests: by itself it would have other features, and much would be compiled twice.
    succeed(cargo().args(["test", "--quiet", "--workspace", "--no-run"]))?;
    let mounted = Mounted::new(release)?;
    if let Some(tool) = pjdfstest {
        pjdfstest::run(&list.pjdfstest, &tool, &mounted, &mut found)?;
    }
    if let Some(tool) = fsx {
        fsx::run(&list.fsx, &tool, &mounted, &mut found, is_quick)?;
    }
    if let Some(scripts) = scripts {
        scripts.run(&mounted, &mut found)?;
    }
    mounted.end()?;
    Ok(found)
}

fn chosen(name: Option<&str>) -> Vec<&'static str> {
    SUITES.into_iter().filter(|suite| name.is_none_or(|part| suite.contains(part))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_chosen_by_parts_of_their_names() {
        assert_eq!(chosen(None), SUITES);
        assert_eq!(chosen(Some("fs")), ["pjdfstest", "fsx"]);
        let refused =
            run(Release::Pacific, Some("nonsense"), true).err().expect("no suite has this name").to_string();
        assert!(refused.contains("'nonsense'") && refused.contains("workunits"), "{refused}");
    }
}
