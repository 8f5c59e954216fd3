//! Snapshots of directories.

use clap::Subcommand;
use loligo_fs::{Errno, Metadata};
use serde_json::{Value, json};

use super::tree::join;
use super::{Mount, named};
use crate::args::Format;
use crate::failure::{Context, Failure};
use crate::name::{Name, shown, text};
use crate::say::say_line;
use crate::table;

/// Commands of `loligo fs snap`.
#[derive(Subcommand)]
pub(crate) enum SnapCommand {
    /// Make a snapshot of a directory and all that is below.
    Create { directory: Name, name: Name },
    /// List the snapshots of a directory, also those that it has from directories above.
    Ls { directory: Name },
    /// Remove a snapshot.
    Rm { directory: Name, name: Name },
    /// Rename a snapshot.
    Rename {
        directory: Name,
        name: Name,
        /// The new name.
        new: Name,
    },
    /// Show what is known of a snapshot.
    Info { directory: Name, name: Name },
}

/// A snapshot, as it is listed.
struct Snapshot {
    name: Vec<u8>,
    metadata: Metadata,
    created: String,
}

impl SnapCommand {
    pub(super) async fn run(&self, mount: &Mount) -> Result<(), Failure> {
        let fs = &mount.fs;
        match self {
            Self::Create { directory, name } => {
                let made = fs.create_dir(path(directory, name), 0o755).await;
                made.context(|| named("snap create", &place(directory, name)))
            }
            Self::Rm { directory, name } => {
                let removed = fs.remove_dir(path(directory, name)).await;
                removed.context(|| named("snap rm", &place(directory, name)))
            }
            Self::Rename { directory, name, new } => {
                let renamed = fs.rename(path(directory, name), path(directory, new)).await;
                renamed.context(|| named("snap rename", &place(directory, name)))
            }
            Self::Ls { directory } => list(mount, directory).await,
            Self::Info { directory, name } => info(mount, directory, name).await,
        }
    }
}

/// Returns the path by which a snapshot of a directory is found.
fn path(directory: &[u8], name: &[u8]) -> Vec<u8> {
    join(&join(directory, b".snap"), name)
}

fn place(directory: &[u8], name: &[u8]) -> Name {
    Name::from(&path(directory, name))
}

async fn list(mount: &Mount, directory: &Name) -> Result<(), Failure> {
    let what = || named("snap ls", directory);
    let entries = mount.fs.read_dir(join(directory, b".snap")).await.context(what)?;
    let mut found = Vec::new();
    for entry in entries.all().await.context(what)? {
        found.push(describe(mount, directory, entry.name, entry.metadata).await.context(what)?);
    }
    found.sort_unstable_by_key(|snapshot| snapshot.metadata.snap);
    if mount.format != Format::Plain {
        mount.format.print("snapshots", "snapshot", &found.iter().map(for_programs).collect::<Value>());
        return Ok(());
    }
    let mut rows = vec![["ID", "NAME", "CREATED"].map(str::to_owned)];
    rows.extend(found.iter().map(|snapshot| {
        [snapshot.metadata.snap.0.to_string(), shown(&snapshot.name), snapshot.created.clone()]
    }));
    table::lines([true, false, false], &rows).iter().for_each(|line| say_line(line.trim_end()));
    Ok(())
}

async fn info(mount: &Mount, directory: &Name, name: &Name) -> Result<(), Failure> {
    let what = || named("snap info", &place(directory, name));
    let metadata = mount.fs.statistics(path(directory, name)).await.context(what)?;
    let snapshot = describe(mount, directory, name.to_vec(), metadata).await.context(what)?;
    if mount.format != Format::Plain {
        mount.format.print("snapshot", "item", &for_programs(&snapshot));
        return Ok(());
    }
    let all = &snapshot.metadata.recursive;
    for (what, value) in [
        ("id", snapshot.metadata.snap.0.to_string()),
        ("name", shown(&snapshot.name)),
        ("created", snapshot.created.clone()),
        ("bytes", all.bytes.to_string()),
        ("files", all.files.to_string()),
        ("directories", all.subdirs.to_string()),
    ] {
        say_line(&format!("{what}: {value}"));
    }
    Ok(())
}

async fn describe(
    mount: &Mount,
    directory: &[u8],
    name: Vec<u8>,
    metadata: Metadata,
) -> Result<Snapshot, loligo_fs::Error> {
    let created = match mount.fs.xattr(path(directory, &name), "ceph.snap.btime").await {
        Ok(time) => String::from_utf8_lossy(&time).into_owned(),
        Err(e) if e.errno() == Errno::ENODATA => String::new(),
        Err(e) => return Err(e),
    };
    Ok(Snapshot { name, metadata, created })
}

fn for_programs(snapshot: &Snapshot) -> Value {
    let all = &snapshot.metadata.recursive;
    json!({
        "id": snapshot.metadata.snap.0,
        "name": text(&snapshot.name),
        "created": snapshot.created,
        "bytes": all.bytes,
        "files": all.files,
        "directories": all.subdirs,
    })
}
