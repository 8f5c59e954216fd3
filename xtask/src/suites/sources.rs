//! The public tests of Ceph's Python modules, inside the folder of the release that runs them.

use crate::Result;
use crate::pybind;
use crate::stock::Root;

/// Where they are inside the release's folder.
const FOLDER: &str = "/var/tmp/ceph-18.2.7-tests";

/// The path of a file inside the release's folder.
pub(super) fn file(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

/// Fetches the tests, unless they are there.
pub(super) fn prepare(root: &Root) -> Result<()> {
    pybind::fetch(&root.path().join(FOLDER.trim_start_matches('/')))
}
