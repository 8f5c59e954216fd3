//! The list of suites, and of what is left out of them.

use serde::Deserialize;

use crate::Result;

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
        let left_out = list.workunits.left_out.iter().flat_map(|group| &group.tests);
        for script in left_out {
            assert!(!list.workunits.scripts.contains(script), "{script} is run and left out");
        }
    }
}
