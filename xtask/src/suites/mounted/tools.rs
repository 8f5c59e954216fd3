//! Tools from crates.io, at pinned versions.

use std::path::PathBuf;

use super::Found;
use crate::Result;
use crate::process::{cargo, succeed, workspace};

/// Installs a tool below `target`, unless it is there. If it cannot be had, that counts as skipped.
pub(super) fn prepare(name: &str, version: &str, found: &mut Found) -> Result<Option<PathBuf>> {
    let root = workspace().join("target/suites").join(format!("{name}-{version}"));
    let program = root.join("bin").join(name);
    if program.exists() {
        return Ok(Some(program));
    }
    let mut install = cargo();
    // The workspace's settings and lints are not the tool's.
    install.current_dir(std::env::temp_dir()).args(["install", "--quiet", "--locked", "--root"]).arg(&root);
    install.args(["--version", version, name]).env("CARGO_TARGET_DIR", root.join("target"));
    match succeed(&mut install) {
        Ok(()) => {
            // Only the program is needed.
            std::fs::remove_dir_all(root.join("target"))?;
            Ok(Some(program))
        }
        Err(e) => {
            found.skipped.push(format!("{name} {version}: cannot be installed from crates.io: {e}"));
            Ok(None)
        }
    }
}
