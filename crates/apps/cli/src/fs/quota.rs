//! Quotas of directories.

use clap::Subcommand;
use loligo_fs::{Errno, XattrMode};
use serde_json::json;

use super::{Mount, named};
use crate::args::{Format, size};
use crate::failure::{Context, Failure};
use crate::name::{Name, text};
use crate::say::say_line;
use crate::table;

const MAX_BYTES: &str = "ceph.quota.max_bytes";
const MAX_FILES: &str = "ceph.quota.max_files";

/// Commands of `loligo fs quota`. Clients keep a quota, each as far as it knows what the others use.
#[derive(Subcommand)]
pub(crate) enum QuotaCommand {
    /// Show a directory's limits, and what is used of them.
    Get { directory: Name },
    /// Set a directory's limits. One that is not named stays.
    Set {
        directory: Name,
        /// Bytes of all files below; 0 is no limit.
        #[arg(long, value_parser = size, value_name = "BYTES", required_unless_present = "files")]
        bytes: Option<u64>,
        /// Files and directories below; 0 is no limit.
        #[arg(long, value_name = "N")]
        files: Option<u64>,
    },
    /// Remove a directory's limits.
    Rm { directory: Name },
}

impl QuotaCommand {
    pub(super) async fn run(&self, mount: &Mount) -> Result<(), Failure> {
        match self {
            Self::Get { directory } => get(mount, directory).await,
            Self::Set { directory, bytes, files } => {
                set(mount, directory, *bytes, *files).await.context(|| named("quota set", directory))
            }
            Self::Rm { directory } => {
                set(mount, directory, Some(0), Some(0)).await.context(|| named("quota rm", directory))
            }
        }
    }
}

async fn set(
    mount: &Mount,
    directory: &Name,
    bytes: Option<u64>,
    files: Option<u64>,
) -> Result<(), loligo_fs::Error> {
    for (attribute, limit) in [(MAX_BYTES, bytes), (MAX_FILES, files)] {
        if let Some(limit) = limit {
            let value = limit.to_string().into_bytes();
            mount.fs.set_xattr(directory, attribute, value, XattrMode::Any).await?;
        }
    }
    Ok(())
}

async fn get(mount: &Mount, directory: &Name) -> Result<(), Failure> {
    let what = || named("quota get", directory);
    let bytes = limit(mount, directory, MAX_BYTES).await.context(what)?;
    let files = limit(mount, directory, MAX_FILES).await.context(what)?;
    let there = mount.fs.statistics(directory).await.context(what)?.recursive;
    let entries = there.files + there.subdirs;
    if mount.format != Format::Plain {
        let all = json!({
            "path": text(directory),
            "max_bytes": bytes,
            "max_files": files,
            "bytes": there.bytes,
            "files": entries,
        });
        mount.format.print("quota", "item", &all);
        return Ok(());
    }
    let shown = |limit: Option<u64>| limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    let rows = [
        ["", "USED", "LIMIT"].map(str::to_owned),
        ["bytes".to_owned(), there.bytes.to_string(), shown(bytes)],
        ["files".to_owned(), entries.to_string(), shown(files)],
    ];
    table::lines([false, true, true], &rows).iter().for_each(|line| say_line(line.trim_end()));
    Ok(())
}

/// Returns a limit, unless there is none.
async fn limit(mount: &Mount, directory: &Name, attribute: &str) -> Result<Option<u64>, loligo_fs::Error> {
    match mount.fs.xattr(directory, attribute).await {
        Ok(value) => Ok(String::from_utf8_lossy(&value).parse().ok().filter(|limit| *limit > 0)),
        // A file has no limits, and is told so.
        Err(e) if e.errno() == Errno::ENODATA && mount.fs.stat(directory).await?.is_dir() => Ok(None),
        Err(e) if e.errno() == Errno::ENODATA => Err(Errno::ENOTDIR.into()),
        Err(e) => Err(e),
    }
}
