//! What comes before and after each change of a file's data: the rules that clients keep for the servers.

use loligo_wire::message::mds::{RequestOp, SetAttr};

use super::File;
use crate::error::Error;
use crate::permission;
use crate::session::Request;

impl File {
    /// Checks that data up to `end` may be written: the size is possible, no lock was lost, and quotas have
    /// room. A file that runs as its owner or group does so no more, unless root writes. Returns `true` if
    /// the file grows under a quota with little room left.
    pub(super) async fn before_write(&self, end: u64) -> Result<bool, Error> {
        self.fs.core.check_size(end)?;
        self.locks_hold()?;
        self.lose_ids().await?;
        let growth = end.saturating_sub(self.inode.data.size());
        self.fs.room_for_bytes(&self.inode, growth, end).await
    }

    /// Ends that the file runs as its owner or group, since a user other than root changes its data.
    pub(crate) async fn lose_ids(&self) -> Result<(), Error> {
        let loses_ids = match self.inode.data.data_view() {
            Some(view) => view.loses_ids,
            None => permission::loses_ids(self.inode.known().attrs.mode),
        };
        if loses_ids && !self.fs.user().is_root() {
            let args = SetAttr { mask: SetAttr::KILL_SGUID, ..SetAttr::default() };
            self.fs.call(Request::about(&self.inode, RequestOp::SetAttr(args))).await?;
        }
        Ok(())
    }

    /// Tells the servers of a file that has grown under a quota with little room left, since only they know
    /// what all clients use; and makes the data durable, if the file was opened so.
    pub(super) async fn after_write(&self, is_near_limit: bool) -> Result<(), Error> {
        if is_near_limit {
            self.fs.core.flush(&self.inode);
        }
        if self.options.is_sync() { self.sync().await } else { Ok(()) }
    }
}
