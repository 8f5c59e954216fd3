//! Attributes, links' targets and room.

use loligo_fs::{Caps, Errno, Error};

use super::Server;
use crate::attributes::changes;
use crate::kernel::{Answer, Head, Op, SetAttr, Sizes};

impl Server {
    pub(super) async fn about_node(&self, head: &Head, op: Op) -> Result<Answer, Error> {
        match op {
            Op::GetAttr => {
                let node = self.seen(head).await?;
                let meta = node.stat(Caps::STAT).await?;
                // A read that comes next may use what pages are left.
                self.settle_pages(head.node, &node).await;
                Ok(Answer::attr(head.node, &meta, self.attrs_for(head.node, &node), self.policy.shown))
            }
            Op::SetAttr(set) => self.set_attr(head, &set).await,
            Op::ReadLink => Ok(Answer::Data(self.seen(head).await?.read_link().await?.into())),
            Op::StatFs => {
                let space = self.fs.statfs().await?;
                let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
                Ok(Answer::sizes(Sizes {
                    block: small(space.block_size),
                    blocks: space.blocks,
                    free: space.free,
                    files: space.files,
                    free_files: 0,
                    name_max: small(space.name_max),
                }))
            }
            Op::SyncFs => self.fs.sync().await.map(|()| Answer::Done),
            Op::FSyncDir => self.seen(head).await?.sync().await.map(|()| Answer::Done),
            _ => Err(Errno::ENOSYS.into()),
        }
    }

    async fn set_attr(&self, head: &Head, set: &SetAttr) -> Result<Answer, Error> {
        let node = self.changed(head).await?;
        let opened = set.handle().and_then(|fh| self.files.get(fh));
        let mut changes = changes(set);
        // The size of an open file is the handle's to change, also for a user who could not open it now.
        if let Some((file, size)) = opened.zip(changes.size) {
            file.file.truncate(size).await?;
            changes.size = None;
        }
        node.set(&changes).await?;
        let meta = node.stat(Caps::STAT).await?;
        Ok(Answer::attr(head.node, &meta, self.attrs_for(head.node, &node), self.policy.shown))
    }
}
