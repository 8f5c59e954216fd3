//! Names in directories.

use loligo_fs::{Errno, Error, FileType, RenameFlags};

use super::Server;
use crate::attributes::from_kernel;
use crate::kernel::{Answer, Head, Op};

/// `RENAME_NOREPLACE` and `RENAME_EXCHANGE`.
const NO_REPLACE: u32 = 1;
const EXCHANGE: u32 = 1 << 1;

impl Server {
    pub(super) async fn names(&self, head: &Head, op: Op) -> Result<Answer, Error> {
        if let Op::Lookup { name } = op {
            let dir = self.seen(head).await?;
            // An export asks for a file by the name `.` of the file itself.
            let node = if name == b"." { dir.clone() } else { dir.lookup(&name).await? };
            let is_vouched_for = node.trust().attrs.is_some();
            if !is_vouched_for || node.known().mode == 0 {
                node.stat(loligo_fs::Caps::STAT).await?;
            }
            return self.entry(&dir, &name, &node);
        }
        let dir = self.changed(head).await?;
        match op {
            Op::SymLink { name, target } => {
                let node = dir.symlink(&name, &target).await?;
                self.entry(&dir, &name, &node)
            }
            Op::MkNod { name, mode, umask, rdev } => {
                let mode = self.mode(&dir, mode, umask).await;
                let rdev = match FileType::of_mode(mode) {
                    FileType::BlockDevice | FileType::CharDevice => from_kernel(rdev),
                    _ => 0,
                };
                let node = dir.mknod(&name, mode, rdev).await?;
                self.entry(&dir, &name, &node)
            }
            Op::MkDir { name, mode, umask } => {
                let mode = self.mode(&dir, mode, umask).await;
                let node = dir.mkdir(&name, mode).await?;
                self.entry(&dir, &name, &node)
            }
            Op::Unlink { name } => dir.unlink(&name).await.map(|()| Answer::Done),
            Op::RmDir { name } => dir.rmdir(&name).await.map(|()| Answer::Done),
            Op::Rename { name, to, to_name, flags } => {
                if flags & !(NO_REPLACE | EXCHANGE) != 0 {
                    return Err(Errno::EINVAL.into());
                }
                let flags =
                    RenameFlags { no_replace: flags & NO_REPLACE != 0, exchange: flags & EXCHANGE != 0 };
                let to = self.node_for(to, dir.file_system().caller().clone()).await?;
                dir.rename(&name, &to, &to_name, flags).await.map(|()| Answer::Done)
            }
            Op::Link { existing, name } => {
                let existing = self.node_for(existing, dir.file_system().caller().clone()).await?;
                dir.link(&name, &existing).await?;
                existing.stat(loligo_fs::Caps::STAT).await?;
                self.entry(&dir, &name, &existing)
            }
            _ => Err(Errno::ENOSYS.into()),
        }
    }
}
