//! fsx: random reads, writes, mappings and truncations of one file, each checked.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::list::Fsx;
use super::{Found, Mounted};
use crate::Result;
use crate::suites::program;

/// An operation that takes so long is hung.
const SILENCE: Duration = Duration::from_secs(120);

/// What is done, and how often. `fallocate` of room is refused by CephFS.
const CONF: &str = "\
flen = 400000

[weights]
close_open = 1
invalidate = 0.5
mapread = 3
mapwrite = 3
read = 4
write = 4
truncate = 1
fsync = 0.5
fdatasync = 0.5
punch_hole = 1
sendfile = 1
posix_fadvise = 0.5
copy_file_range = 1
";

/// Runs fsx with each seed; if it `is_quick`, with the first few.
pub(super) fn run(
    suite: &Fsx,
    tool: &Path,
    mounted: &Mounted,
    found: &mut Found,
    is_quick: bool,
) -> Result<()> {
    let folder = mounted.folder("fsx")?;
    let conf = tool.with_extension("toml");
    fs::write(&conf, CONF)?;
    let artifacts = std::env::temp_dir();
    let count = if is_quick { suite.quick_seeds } else { suite.seeds.len() };
    for seed in suite.seeds.iter().take(count) {
        let mut said = Vec::new();
        let mut command = Command::new(tool);
        command.arg("-f").arg(&conf).args([
            "-v",
            "-S",
            &seed.to_string(),
            "-N",
            &suite.ops.to_string(),
            "-P",
        ]);
        command.arg(&artifacts).arg(folder.join(format!("file-{seed}")));
        let ended = program::run(&mut command, SILENCE, |line| said.push(line.to_owned()))?;
        match ended.is_success {
            true => found.pass(),
            false => {
                let last = said.len().saturating_sub(60);
                said.push(ended.how);
                found.fail(format!("fsx, seed {seed}"), &said[last..].join("\n"));
            }
        }
    }
    Ok(())
}
