//! This client, through its public interface.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use loligo_fs::{
    Changes, Errno, Error, File, FileSystem, FileType, Metadata, MountOptions, OpenOptions, UTime, XattrMode,
};
use loligo_rados::Rados;
use sha2::{Digest as _, Sha256};
use tokio::runtime::Runtime;

use crate::Client;
use crate::call::{Call, Open, Text, pattern};
use crate::cluster::rados;

/// A mount of this client.
pub(crate) struct Ours<'a> {
    runtime: &'a Runtime,
    rados: Rados,
    fs: FileSystem,
    files: BTreeMap<u8, File>,
}

impl<'a> Ours<'a> {
    /// Mounts a directory.
    pub(crate) fn mount(runtime: &'a Runtime, dir: &str) -> Self {
        let (rados, fs) = runtime.block_on(async {
            let rados = rados().await;
            let fs = FileSystem::mount(&rados, MountOptions::new().root(dir)).await.expect("mounted");
            (rados, fs)
        });
        Self { runtime, rados, fs, files: BTreeMap::new() }
    }

    pub(crate) fn end(self) {
        let Self { runtime, rados, fs, files } = self;
        drop(files);
        runtime.block_on(async {
            fs.unmount().await.expect("unmounted");
            rados.shutdown().await;
        });
    }

    fn file(&self, slot: u8) -> Result<&File, Error> {
        self.files.get(&slot).ok_or(Error::Os(Errno::EBADF))
    }

    async fn open(&mut self, slot: u8, path: &Text, how: Open, mode: u32) -> Result<String, Error> {
        if let Some(file) = self.files.remove(&slot) {
            file.close().await?;
        }
        let chosen = [
            (how.read, OpenOptions::read as fn(OpenOptions) -> OpenOptions),
            (how.write, OpenOptions::write),
            (how.create, OpenOptions::create),
            (how.exclusive, OpenOptions::create_new),
            (how.truncate, OpenOptions::truncate),
        ];
        let chosen = chosen.into_iter().filter(|(is, _)| *is);
        let options = chosen.fold(OpenOptions::new().mode(mode), |options, (_, with)| with(options));
        let file = self.fs.open(&path.0, options).await?;
        self.files.insert(slot, file);
        Ok(String::new())
    }

    async fn content(&self, path: &Text) -> Result<String, Error> {
        let file = self.fs.open(&path.0, OpenOptions::new().read()).await?;
        let data = file.read_at(0, 1 << 40).await;
        file.close().await?;
        Ok(summed(&data?))
    }

    async fn listed(&self, path: &Text) -> Result<String, Error> {
        let entries = self.fs.read_dir(&path.0).await?.all().await?;
        let shown = |name, kind| format!("{}:{}", Text(name), number_of(kind));
        let entries = entries.into_iter().map(|entry| shown(entry.name, entry.metadata.file_type()));
        let mut entries: Vec<String> = entries.collect();
        entries.sort();
        Ok(entries.join(" "))
    }

    /// Calls on open files.
    async fn on_file(&mut self, call: &Call) -> Result<String, Error> {
        let done = match *call {
            Call::Close { slot } => {
                let file = self.files.remove(&slot).ok_or(Error::Os(Errno::EBADF))?;
                file.close().await
            }
            Call::Read { slot, at, len } => {
                return self.file(slot)?.read_at(at, len).await.map(|data| summed(&data));
            }
            Call::Write { slot, at, len, seed } => {
                self.file(slot)?.write_at(at, pattern(len, seed)).await.map(drop)
            }
            Call::Append { slot, len, seed } => {
                return self.file(slot)?.append(pattern(len, seed)).await.map(|at| at.to_string());
            }
            Call::TruncateFile { slot, size } => self.file(slot)?.truncate(size).await,
            // As libcephfs: the size stays, and the range becomes a hole.
            Call::Punch { slot, at, len } => self.file(slot)?.fallocate(3, at, len).await,
            Call::SyncFile { slot } => self.file(slot)?.sync().await,
            Call::StatFile { slot } => return self.file(slot)?.stat().await.map(|found| described(&found)),
            _ => unreachable!("{call} is of paths"),
        };
        done.map(|()| String::new())
    }

    /// Calls that change names or attributes.
    async fn change(&self, call: &Call) -> Result<(), Error> {
        let fs = &self.fs;
        match call {
            Call::MakeDir { path, mode } => fs.create_dir(&path.0, *mode).await,
            Call::RemoveDir { path } => fs.remove_dir(&path.0).await,
            Call::Unlink { path } => fs.remove_file(&path.0).await,
            Call::Rename { from, to } => fs.rename(&from.0, &to.0).await,
            Call::Link { from, to } => {
                // libcephfs follows a link here, as no system call does.
                if fs.lstat(&from.0).await?.is_symlink() {
                    return Err(Errno::ELOOP.into());
                }
                fs.link(&from.0, &to.0).await
            }
            Call::Symlink { target, path } => fs.symlink(&target.0, &path.0).await,
            Call::MakeNode { path, mode, rdev } => fs.make_node(&path.0, *mode, *rdev).await,
            Call::Chmod { path, mode } => {
                fs.change(&path.0, Changes { permissions: Some(*mode), ..Changes::default() }).await
            }
            Call::Chown { path, uid, gid } => fs.change(&path.0, owner(*uid, *gid)).await,
            Call::ChownLink { path, uid, gid } => fs.change_link(&path.0, owner(*uid, *gid)).await,
            Call::SetTimes { path, atime, mtime } => {
                let at = |sec: u32| Some(UTime { sec, nsec: 0 });
                fs.change(&path.0, Changes { atime: at(*atime), mtime: at(*mtime), ..Changes::default() })
                    .await
            }
            Call::Truncate { path, size } => {
                // libcephfs sets the size of the link itself.
                if fs.lstat(&path.0).await?.is_symlink() {
                    return Err(Errno::ELOOP.into());
                }
                fs.truncate(&path.0, *size).await
            }
            Call::SetXattr { path, name, value, flags } => {
                let how = match flags {
                    1 => XattrMode::Create,
                    2 => XattrMode::Replace,
                    _ => XattrMode::Any,
                };
                fs.set_xattr(&path.0, &name.0, value.0.clone(), how).await
            }
            Call::RemoveXattr { path, name } => fs.remove_xattr(&path.0, &name.0).await,
            Call::Sync => fs.sync().await,
            _ => unreachable!("{call} changes nothing"),
        }
    }

    async fn done(&mut self, call: &Call) -> Result<String, Error> {
        let fs = &self.fs;
        match call {
            Call::Open { slot, path, how, mode } => self.open(*slot, path, *how, *mode).await,
            Call::Close { .. }
            | Call::Read { .. }
            | Call::Write { .. }
            | Call::Append { .. }
            | Call::TruncateFile { .. }
            | Call::Punch { .. }
            | Call::SyncFile { .. }
            | Call::StatFile { .. } => self.on_file(call).await,
            Call::Content { path } => self.content(path).await,
            Call::ReadLink { path } => Ok(Text(fs.read_link(&path.0).await?).to_string()),
            Call::Stat { path } => Ok(described(&fs.stat(&path.0).await?)),
            Call::StatLink { path } => Ok(described(&fs.lstat(&path.0).await?)),
            Call::Ino { path } => Ok(fs.lstat(&path.0).await?.ino.0.to_string()),
            Call::ReadDir { path } => self.listed(path).await,
            Call::GetXattr { path, name } => Ok(Text(fs.xattr(&path.0, &name.0).await?.to_vec()).to_string()),
            Call::ListXattrs { path } => {
                let names = fs.xattrs(&path.0).await?;
                let mut names: Vec<String> = names.into_iter().map(|name| Text(name).to_string()).collect();
                names.sort();
                Ok(names.join(" "))
            }
            _ => self.change(call).await.map(|()| String::new()),
        }
    }
}

impl Client for Ours<'_> {
    fn call(&mut self, call: &Call) -> String {
        let runtime = self.runtime;
        match runtime.block_on(self.done(call)) {
            Ok(value) => format!("ok {value}").trim_end().to_owned(),
            Err(e) => format!("err {}", e.errno().0),
        }
    }
}

fn owner(uid: u32, gid: u32) -> Changes {
    Changes { uid: Some(uid), gid: Some(gid), ..Changes::default() }
}

fn summed(data: &[u8]) -> String {
    let mut text = format!("{} ", data.len());
    for byte in &Sha256::digest(data)[..8] {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Times of now differ between the clients; those that were set do not.
fn when(time: UTime) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs();
    if now.abs_diff(time.sec.into()) < 3600 { "now".to_owned() } else { time.sec.to_string() }
}

fn described(found: &Metadata) -> String {
    let Metadata { mode, nlink, uid, gid, size, rdev, atime, .. } = *found;
    // The servers sum a directory's bytes up when they have time.
    let size = if found.is_dir() { "-".to_owned() } else { size.to_string() };
    format!("{mode:o} {nlink} {uid} {gid} {size} {rdev} {}", when(atime))
}

/// The number in a directory's entry, as `readdir(3)` has it.
fn number_of(kind: FileType) -> u8 {
    match kind {
        FileType::Fifo => 1,
        FileType::CharDevice => 2,
        FileType::Directory => 4,
        FileType::BlockDevice => 6,
        FileType::Regular => 8,
        FileType::Symlink => 10,
        FileType::Socket => 12,
    }
}
