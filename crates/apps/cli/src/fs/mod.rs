//! `loligo fs`: files and directories of CephFS, without a mount.

mod args;
mod carry;
mod change;
mod show;
mod tree;

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
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
}

pub(crate) fn run(client: Client, args: &FsArgs) -> Result<(), Failure> {
    client::runtime(WORKERS)?.block_on(async {
        let format = client.format;
        let conf = client.conf()?;
        let in_conf = || ["client_fs", "client_mds_namespace"].iter().find_map(|option| conf.text(option));
        let named = args.fs.clone().or_else(in_conf);
        let rados = client.cluster().await?;
        let options =
            MountOptions::new().owner(rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let options = match named.filter(|name| !name.is_empty()) {
            Some(name) => options.named(&name),
            None => options,
        };
        let fs = FileSystem::mount(&rados, options).await.context(|| "mount".to_owned())?;
        let mount = Mount { fs, format };
        let done = tokio::select! {
            done = one(&mount, &args.command) => done,
            _ = tokio::signal::ctrl_c() => Err(Failure::new("fs", "interrupted")),
        };
        let ended = mount.fs.unmount().await.context(|| "unmount".to_owned());
        rados.shutdown().await;
        done.and(ended)
    })
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
    }
}

/// Names a command and its path, for messages.
fn named(command: &str, path: &Name) -> String {
    format!("{command} {path}")
}

/// The amount transferred.
#[derive(Clone, Copy, Debug, Default)]
struct Carried {
    files: u64,
    bytes: u64,
}

impl Carried {
    /// Prints the summary for programs; people have seen the progress bar.
    fn show(self, format: Format, begun: Instant, verified: bool) {
        if format != Format::Plain {
            let Self { files, bytes } = self;
            let seconds = begun.elapsed().as_secs_f64();
            let all = json!({"files": files, "bytes": bytes, "seconds": seconds, "verified": verified});
            format.print("copied", "item", &all);
        }
    }
}

/// Creates a progress bar, which is drawn on a terminal only. It is hidden for small amounts.
fn progress(bytes: Option<u64>) -> ProgressBar {
    match bytes {
        Some(bytes) if bytes <= 16 << 20 => ProgressBar::hidden(),
        Some(bytes) => {
            let style = "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
            let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(bytes).with_style(style)
        }
        None => {
            let style = ProgressStyle::with_template("{spinner} {bytes} {bytes_per_sec}");
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(Duration::from_millis(200));
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        }
    }
}
