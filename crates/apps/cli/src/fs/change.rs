//! Makes, moves and removes names.

use loligo_fs::{Changes, Errno};

use super::tree::{self, join};
use super::{Mount, named};
use crate::failure::{Context, Failure};
use crate::name::Name;

pub(super) async fn make_dirs(
    mount: &Mount,
    paths: &[Name],
    parents: bool,
    mode: u32,
) -> Result<(), Failure> {
    for path in paths {
        let made = match parents {
            true => mount.fs.create_dir_all(path, mode).await,
            false => mount.fs.create_dir(path, mode).await,
        };
        made.context(|| named("mkdir", path))?;
    }
    Ok(())
}

/// Moves a name; into a directory of the destination's name, if there is one.
pub(super) async fn rename(mount: &Mount, source: &Name, destination: &Name) -> Result<(), Failure> {
    let to = match mount.fs.stat(destination).await {
        Ok(found) if found.is_dir() => {
            let name = source.rsplit(|byte| *byte == b'/').find(|name| !name.is_empty());
            join(destination, name.unwrap_or_default())
        }
        _ => destination.as_bytes().to_vec(),
    };
    let what = || format!("mv {source} {}", Name::from(&to));
    mount.fs.rename(source, &to).await.context(what)
}

pub(super) async fn remove(mount: &Mount, paths: &[Name], recursive: bool) -> Result<(), Failure> {
    for path in paths {
        let what = || named("rm", path);
        let found = mount.fs.lstat(path).await.context(what)?;
        if !found.is_dir() {
            mount.fs.remove_file(path).await.context(what)?;
            continue;
        }
        if !recursive {
            return Err(Failure::of(
                Errno(21),
                what(),
                "is a directory; --recursive removes it with all below",
            ));
        }
        // What is deepest comes last in the list, and goes first.
        for found in tree::below(mount, path).await?.into_iter().rev() {
            let shown = Name::from(&found.path);
            let done = match found.metadata.is_dir() {
                true => mount.fs.remove_dir(&found.path).await,
                false => mount.fs.remove_file(&found.path).await,
            };
            done.context(|| named("rm", &shown))?;
        }
        mount.fs.remove_dir(path).await.context(what)?;
    }
    Ok(())
}

pub(super) async fn attributes(
    mount: &Mount,
    command: &str,
    paths: &[Name],
    changes: Changes,
) -> Result<(), Failure> {
    for path in paths {
        mount.fs.change(path, changes).await.context(|| named(command, path))?;
    }
    Ok(())
}
