//! The list of suites, and of what is left out of them.

use serde::Deserialize;

use crate::Result;
use crate::stock::Release;

const TEXT: &str = include_str!("list.toml");

/// The parsed list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    pub(super) pjdfstest: Pjdfstest,
    pub(super) fsx: Fsx,
    pub(super) workunits: Workunits,
}

/// Calls of POSIX, and what each must refuse.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Pjdfstest {
    pub(super) version: String,
    #[serde(default)]
    pub(super) left_out: Vec<LeftOut>,
}

/// Tests that are not expected to pass, for a common reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LeftOut {
    #[expect(dead_code, reason = "for readers of the list")]
    why: String,
    #[serde(alias = "scripts")]
    pub(super) tests: Vec<String>,
    /// The releases of whose servers that is true; all, if none is named.
    #[serde(default)]
    releases: Vec<Release>,
}

impl LeftOut {
    /// Returns `true` if the group is left out with servers of this release.
    pub(super) fn is_of(&self, release: Release) -> bool {
        self.releases.is_empty() || self.releases.contains(&release)
    }

    /// Returns `true` if its tests are run, and may fail: with other servers they pass.
    fn is_run(&self) -> bool {
        !self.releases.is_empty()
    }
}

/// Random reads and writes of one file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Fsx {
    pub(super) version: String,
    /// Operations with each seed.
    pub(super) ops: u32,
    pub(super) seeds: Vec<u64>,
    /// How many of the seeds a quick run has.
    pub(super) quick_seeds: usize,
}

/// Scripts of Ceph's developers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Workunits {
    pub(super) scripts: Vec<String>,
    #[serde(default)]
    pub(super) left_out: Vec<LeftOut>,
}

impl Workunits {
    /// Returns the number of scripts that are never run.
    pub(super) fn never_run(&self) -> u64 {
        let groups = self.left_out.iter().filter(|group| !group.is_run());
        groups.map(|group| group.tests.len() as u64).sum()
    }

    /// Returns `true` if a script is run, and may fail with servers of this release.
    pub(super) fn may_fail(&self, script: &str, release: Release) -> bool {
        let groups = self.left_out.iter().filter(|group| group.is_run() && group.is_of(release));
        groups.flat_map(|group| &group.tests).any(|test| test == script)
    }
}

impl List {
    pub(super) fn read() -> Result<Self> {
        toml::from_str(TEXT).map_err(|e| format!("xtask/src/suites/mounted/list.toml: {e}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read_and_runs_something() {
        let list = List::read().expect("the list is read");
        assert!((1..list.fsx.seeds.len()).contains(&list.fsx.quick_seeds) && list.fsx.ops > 0);
        for group in &list.workunits.left_out {
            for script in &group.tests {
                let is_run = list.workunits.scripts.contains(script);
                assert_eq!(is_run, group.is_run(), "{script} is run and left out, or neither");
            }
        }
        let may_fail = |release| list.workunits.may_fail("misc/layout_vxattrs.sh", release);
        assert!(may_fail(Release::Pacific) && !may_fail(Release::Reef));
    }
}
