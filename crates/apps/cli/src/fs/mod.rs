//! `loligo fs`: files and directories of CephFS, without a mount.

mod args;
mod bench;
mod carry;
mod change;
mod layout;
mod lock;
mod quota;
mod show;
mod snap;
mod tree;

use std::cell::Cell;

use loligo_fs::{Changes, FileSystem, MountOptions, XattrMode};
use serde_json::json;

use crate::args::Format;
use crate::client::{self, Client};
use crate::failure::{Context, Failure};
use crate::name::Name;
use crate::say::say_bytes;

pub(crate) use self::args::FsArgs;
use self::args::FsCommand;

/// Threads: one for the network, the other for checksums and copies.
const WORKERS: usize = 2;

/// A mounted file system, and how to answer.
struct Mount {
    fs: FileSystem,
    format: Format,
    /// The exit status of a program that was run: it becomes this one's.
    status: Cell<u8>,
}

pub(crate) fn run(client: Client, args: &FsArgs) -> Result<(), Failure> {
    let workers = if let FsCommand::Bench(bench) = &args.command { bench.threads } else { WORKERS };
    let status = client::runtime(workers)?.block_on(async {
        let format = client.format;
        let conf = client.conf()?;
        let in_conf = || ["client_fs", "client_mds_namespace"].iter().find_map(|option| conf.text(option));
        let named = args.fs.clone().or_else(in_conf);
        let rados = client.cluster().await?;
        // Each command reads or writes a file once: a cache would only copy.
        let options = MountOptions::new()
            .cache(0)
            .owner(rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let options = match named.filter(|name| !name.is_empty()) {
            Some(name) => options.named(&name),
            None => options,
        };
        if let FsCommand::Bench(bench) = &args.command {
            let done = bench::run(&rados, options.cache(bench.cache), bench, format).await;
            rados.shutdown().await;
            return done.map(|()| 0);
        }
        let fs = FileSystem::mount(&rados, options).await.context(|| "mount".to_owned())?;
        let mount = Mount { fs, format, status: Cell::new(0) };
        let done = tokio::select! {
            done = one(&mount, &args.command) => done,
            _ = tokio::signal::ctrl_c() => Err(Failure::new("fs", "interrupted")),
        };
        let ended = mount.fs.unmount().await.context(|| "unmount".to_owned());
        rados.shutdown().await;
        done.and(ended).map(|()| mount.status.get())
    })?;
    if status != 0 {
        // Another program's, which has said what it had to say.
        std::process::exit(status.into());
    }
    Ok(())
}

async fn one(mount: &Mount, command: &FsCommand) -> Result<(), Failure> {
    let fs = &mount.fs;
    match command {
        FsCommand::Ls { paths, long } => show::list(mount, paths, *long).await,
        FsCommand::Stat { paths, link } => show::stat(mount, paths, *link).await,
        FsCommand::Du { paths } => show::usage(mount, paths).await,
        FsCommand::Find { path, name, kind } => show::find(mount, path, name.as_ref(), *kind).await,
        FsCommand::Cat { paths } => carry::cat(mount, paths).await,
        FsCommand::Put { file, path, transfer } => carry::put(mount, file, path, *transfer).await,
        FsCommand::Get { path, file, transfer } => carry::get(mount, path, file, *transfer).await,
        FsCommand::Cp { source, destination, window } => {
            carry::copy(mount, source, destination, *window).await
        }
        FsCommand::Mv { source, destination } => change::rename(mount, source, destination).await,
        FsCommand::Mkdir { paths, parents, mode } => change::make_dirs(mount, paths, *parents, *mode).await,
        FsCommand::Rm { paths, recursive } => change::remove(mount, paths, *recursive).await,
        FsCommand::Rmdir { paths } => {
            for path in paths {
                fs.remove_dir(path).await.context(|| named("rmdir", path))?;
            }
            Ok(())
        }
        FsCommand::Ln { target, path, symbolic: true } => {
            fs.symlink(target, path).await.context(|| named("ln", path))
        }
        FsCommand::Ln { target, path, symbolic: false } => {
            fs.link(target, path).await.context(|| named("ln", path))
        }
        FsCommand::Truncate { path, size } => {
            fs.truncate(path, *size).await.context(|| named("truncate", path))
        }
        FsCommand::Chmod { mode, paths } => {
            change::attributes(
                mount,
                "chmod",
                paths,
                Changes { permissions: Some(*mode), ..Changes::default() },
            )
            .await
        }
        FsCommand::Chown { owner, paths } => {
            let changes = Changes { uid: owner.uid, gid: owner.gid, ..Changes::default() };
            change::attributes(mount, "chown", paths, changes).await
        }
        FsCommand::Setxattr { path, attribute, value } => {
            let done = fs.set_xattr(path, attribute, value.as_bytes().to_vec(), XattrMode::Any).await;
            done.context(|| named(&format!("setxattr {attribute} of"), path))
        }
        FsCommand::Getxattr { path, attribute } => {
            let value = fs.xattr(path, attribute).await;
            let value = value.context(|| named(&format!("getxattr {attribute} of"), path))?;
            match mount.format {
                Format::Plain => say_bytes(&[&value[..], b"\n"].concat()),
                format => format.print("xattr", "item", &json!({"value": crate::name::text(&value)})),
            }
            Ok(())
        }
        FsCommand::Rmxattr { path, attribute } => {
            let done = fs.remove_xattr(path, attribute).await;
            done.context(|| named(&format!("rmxattr {attribute} of"), path))
        }
        FsCommand::Listxattr { path } => show::xattrs(mount, path).await,
        // It mounts twice, by itself.
        FsCommand::Bench(_) => Ok(()),
        FsCommand::Snap(command) => command.run(mount).await,
        FsCommand::Quota(command) => command.run(mount).await,
        FsCommand::Layout(command) => command.run(mount).await,
        FsCommand::Lock(command) => {
            mount.status.set(command.run(mount).await?);
            Ok(())
        }
    }
}

/// Names a command and its path, for messages.
fn named(command: &str, path: &Name) -> String {
    format!("{command} {path}")
}
