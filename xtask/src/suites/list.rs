//! The list of programs, and of the tests that are left out.

use serde::Deserialize;

use super::Store;
use super::sides::{Libs, Peer};
use crate::Result;
use crate::stock::Release;

/// The list; its comments explain each field.
const TEXT: &str = include_str!("list.toml");
/// The list of programs on the C libraries.
const CAPI_TEXT: &str = include_str!("capi.toml");

/// The parsed list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct List {
    #[serde(rename = "suite")]
    pub(super) suites: Vec<Suite>,
    #[serde(default)]
    pub(super) left_out: Vec<LeftOut>,
    #[serde(default)]
    pub(super) not_run: Vec<NotRun>,
}

/// A program with its arguments.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Suite {
    pub(super) program: String,
    /// The name on the command line, on the page and in `left-out`; by default the program's name
    /// without `ceph_test_`.
    name: Option<String>,
    #[serde(default)]
    pub(super) args: Vec<String>,
    /// Environment variables.
    #[serde(default)]
    pub(super) env: Vec<(String, String)>,
    /// The number of OSDs of the server.
    #[serde(default = "one_osd")]
    pub(super) osds: u8,
    #[serde(default)]
    pub(super) judged: Judged,
    #[serde(default = "both_releases")]
    releases: Vec<Release>,
    /// Whether `--quick` runs this suite.
    #[serde(default)]
    pub(super) quick: bool,
    /// Whether it is among the few that each way of serving is tried with.
    #[serde(default)]
    pub(super) short: bool,
    /// Tests that are left out with `--quick`.
    #[serde(default)]
    pub(super) slow: Vec<String>,
    /// Whether each test runs in a process of its own.
    #[serde(default)]
    pub(super) alone: bool,
}

/// The way to find out whether a program passed.
#[derive(Deserialize, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Judged {
    /// By the output of Google's test framework for each test.
    #[default]
    Gtest,
    /// By the output of pytest for each test; the program is a file of Ceph's sources.
    Pytest,
    /// By the exit status of the program, which is a single test.
    Status,
}

/// Tests that are not expected to pass, for a common reason.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LeftOut {
    /// The heading on the page.
    pub(super) what: String,
    pub(super) why: String,
    /// Entries of the form `SUITE TEST`. Either part may contain `*`.
    pub(super) tests: Vec<String>,
    #[serde(default = "both_releases")]
    pub(super) releases: Vec<Release>,
    #[serde(default = "both_stores")]
    pub(super) stores: Vec<Store>,
    /// The libraries on which they do not pass.
    #[serde(default = "both_libs")]
    pub(super) libs: Vec<Libs>,
    /// What they do not pass against.
    #[serde(default = "both_peers")]
    pub(super) peers: Vec<Peer>,
}

/// Programs that are never run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct NotRun {
    pub(super) why: String,
    pub(super) programs: Vec<String>,
}

fn one_osd() -> u8 {
    1
}

fn both_releases() -> Vec<Release> {
    vec![Release::Reef, Release::Tentacle]
}

fn both_stores() -> Vec<Store> {
    Store::ALL.to_vec()
}

fn both_libs() -> Vec<Libs> {
    Libs::ALL.to_vec()
}

fn both_peers() -> Vec<Peer> {
    Peer::ALL.to_vec()
}

impl List {
    /// The programs that run against Loligo's server.
    pub(super) fn read() -> Result<Self> {
        toml::from_str(TEXT).map_err(|e| format!("xtask/src/suites/list.toml: {e}").into())
    }

    /// The programs that run on Loligo's C libraries.
    pub(super) fn read_capi() -> Result<Self> {
        toml::from_str(CAPI_TEXT).map_err(|e| format!("xtask/src/suites/capi.toml: {e}").into())
    }

    /// Returns all programs of a release that the list mentions.
    pub(super) fn programs(&self, release: Release) -> impl Iterator<Item = &str> {
        let run = self.suites.iter().filter(move |suite| suite.is_of(release)).map(|suite| &*suite.program);
        run.chain(self.not_run.iter().flat_map(|not| not.programs.iter().map(String::as_str)))
    }

    /// Returns the tests of a suite that are left out by chosen groups, as patterns.
    pub(super) fn left_out(&self, suite: &Suite, is_chosen: impl Fn(&LeftOut) -> bool) -> Vec<String> {
        let groups = self.left_out.iter().filter(|group| is_chosen(group));
        let tests = groups.flat_map(|group| group.tests.iter()).filter_map(|entry| {
            let (of, test) = entry.split_once(' ')?;
            matches(of, suite.name()).then(|| test.to_owned())
        });
        tests.collect()
    }
}

impl LeftOut {
    pub(super) fn has(&self, release: Release, store: Store) -> bool {
        self.releases.contains(&release) && self.stores.contains(&store)
    }
}

impl Suite {
    pub(super) fn name(&self) -> &str {
        let plain = || self.program.strip_prefix("ceph_test_").unwrap_or(&self.program);
        self.name.as_deref().unwrap_or_else(plain)
    }

    pub(super) fn is_of(&self, release: Release) -> bool {
        self.releases.contains(&release)
    }
}

/// Whether a pattern, in which `*` matches any text, matches the whole of `text`.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| matches(after, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, text) in [("*", ""), ("A.*", "A.b"), ("*EC*.x", "LibEC_1.x"), ("a*b*c", "aXbYbc")] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("A.*", "AB.b"), ("*EC", "ECx"), ("", "a"), ("a*b*c", "acb")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn every_entry_of_a_list_names_a_suite_and_each_suite_has_a_name_of_its_own() {
        check(&List::read().expect("the list is read"));
        check(&List::read_capi().expect("the list is read"));
    }

    fn check(list: &List) {
        let mut names: Vec<&str> = list.suites.iter().map(Suite::name).collect();
        for entry in list.left_out.iter().flat_map(|group| &group.tests) {
            let (suite, _) = entry.split_once(' ').unwrap_or_else(|| panic!("{entry:?} names no test"));
            assert!(names.iter().any(|name| matches(suite, name)), "{entry:?} names no suite");
        }
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all, "two suites have one name");
    }
}
