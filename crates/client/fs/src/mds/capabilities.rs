//! Messages about capabilities, and the operations that wait for what they grant.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use loligo_rados::Errno;
use loligo_wire::message::Msg;
use loligo_wire::message::mds::{
    CapFile, CapOp, CapRelease, ClientCaps, DirCounts, OpenArgs, RequestOp, SnapTrace, Xattrs,
};
use loligo_wire::{Caps, DecodeError, Encode as _, Epoch, Ino, Rank, Tid};

use crate::core::Core;
use crate::error::Error;
use crate::inode::{Due, Grant, Inode, InodeId, Known};
use crate::session::{Request, Session};

/// The right to read or to write a file's data, for the time of one operation.
pub(crate) struct Use<'c> {
    core: &'c Core,
    inode: Arc<Inode>,
    caps: Caps,
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        let is_last = self.inode.known().caps.end(self.caps);
        if is_last {
            // A revoke may have waited for it.
            self.core.send_due(&self.inode, false);
            self.inode.changed.notify_waiters();
        }
    }
}

impl Core {
    /// Waits until this client may read or write a file's data, and, for a write, up to `end`.
    ///
    /// # Errors
    /// The mount has ended, or the server gives nothing after its session was lost; EROFS for a write if the
    /// server permits no changes.
    pub(crate) async fn acquire(
        &self,
        inode: &Arc<Inode>,
        caps: Caps,
        end: Option<u64>,
    ) -> Result<Use<'_>, Error> {
        loop {
            let changed = inode.changed.notified();
            tokio::pin!(changed);
            // Enlisted before the check, so that a change between the two is not missed.
            changed.as_mut().enable();
            if self.has_ended() {
                return Err(Error::Unmounted);
            }
            let (auth, asks) = {
                let mut known = inode.known();
                let lacks_room = end.filter(|end| *end > known.attrs.max_size);
                if lacks_room.is_none() && known.caps.try_begin(caps, self.now_ms()) {
                    return Ok(Use { core: self, inode: Arc::clone(inode), caps });
                }
                let asks = lacks_room.is_some_and(|end| end > known.asked_max);
                if let Some(end) = lacks_room.filter(|_| asks) {
                    known.asked_max = end;
                }
                (known.caps.auth(), asks)
            };
            let Some(auth) = auth else {
                // The session in which the file was opened is lost.
                self.open_again(inode).await?;
                continue;
            };
            if caps.contains(Caps::FILE_WR) && self.is_read_only(auth) {
                return Err(Errno::EROFS.into());
            }
            self.send_due_asking(inode, false, asks);
            changed.await;
        }
    }

    /// Returns `true` if a server permits no changes, because it cannot make them durable.
    fn is_read_only(&self, rank: Rank) -> bool {
        self.session_of(rank).is_some_and(|session| session.state().is_read_only)
    }

    /// Opens a file in a new session, so that the server grants what the open files need.
    async fn open_again(&self, inode: &Arc<Inode>) -> Result<(), Error> {
        let writes = inode.known().caps.wanted().contains(Caps::FILE_WR);
        let flags = if writes { OpenArgs::RDWR } else { 0 };
        let args = OpenArgs { flags, mask: Caps::STAT, pool: -1, ..OpenArgs::default() };
        self.call(Request::about(inode, RequestOp::Open(args))).await.map(drop)
    }

    /// Sends what is due about an inode: answers to revokes, changed wishes, and, if `flush`, changed
    /// attributes.
    pub(crate) fn send_due(&self, inode: &Arc<Inode>, flush: bool) {
        self.send_due_asking(inode, flush, false);
    }

    fn send_due_asking(&self, inode: &Arc<Inode>, flush: bool, asks: bool) {
        let sessions = {
            let mut known = inode.known();
            let due = known.caps.due(flush, asks, || self.next_flush_tid());
            self.queue_updates(inode, &known, &due)
        };
        sessions.iter().for_each(|session| session.run());
    }

    /// Counts a file closed. With the last one the capabilities to read and write go back.
    pub(crate) fn closed(&self, inode: &Arc<Inode>, to_read: bool, to_write: bool) {
        let sessions = {
            let mut known = inode.known();
            known.caps.closed(to_read, to_write);
            known.asked_max = 0;
            let due = known.caps.give_up(|| self.next_flush_tid());
            self.queue_updates(inode, &known, &due)
        };
        sessions.iter().for_each(|session| session.run());
    }

    /// Queues updates under the inode's lock: they leave in the order in which its state changed.
    fn queue_updates(&self, inode: &Inode, known: &Known, due: &[Due]) -> Vec<Arc<Session>> {
        let queue = |due: &Due| {
            let session = self.session_of(due.rank)?;
            session.queue(self.update(inode, known, due)?);
            Some(session)
        };
        due.iter().filter_map(queue).collect()
    }

    /// Builds a message about a capability.
    fn update(&self, inode: &Inode, known: &Known, due: &Due) -> Option<Msg> {
        let cap = known.caps.of(due.rank)?;
        let attrs = &known.attrs;
        let flushes_xattrs = due.flushes.contains(Caps::XATTR_EXCL);
        let body = ClientCaps {
            op: CapOp::Update,
            ino: inode.id.ino,
            cap_id: cap.id,
            seq: cap.seq,
            issue_seq: cap.issue_seq,
            mseq: cap.mseq,
            caps: due.keeps,
            wanted: due.wants,
            dirty: due.flushes,
            snap_follows: self.realms.context(known.realm).seq,
            uid: attrs.uid,
            gid: attrs.gid,
            mode: attrs.mode,
            nlink: attrs.nlink,
            xattr_version: attrs.xattr_version,
            xattrs: if flushes_xattrs { Xattrs::to_bytes(&attrs.xattrs) } else { Bytes::new() },
            file: CapFile {
                size: attrs.size,
                max_size: if known.asked_max > attrs.max_size { known.asked_max } else { 0 },
                truncate_size: attrs.truncate_size,
                truncate_seq: attrs.truncate_seq,
                mtime: attrs.mtime,
                atime: attrs.atime,
                ctime: attrs.ctime,
                layout: attrs.layout,
                time_warp_seq: attrs.time_warp_seq,
            },
            pool_ns: attrs.pool_ns.clone(),
            btime: attrs.btime,
            change_attr: attrs.change_attr,
            osd_epoch_barrier: Epoch(0),
            oldest_flush_tid: Tid(known.caps.oldest_flush().unwrap_or(0)),
            caller_uid: self.options.uid,
            caller_gid: self.options.gid,
            flags: ClientCaps::NO_CAPSNAP,
            ..ClientCaps::default()
        };
        Some(Msg::new(&body).with_tid(Tid(due.flush_tid)))
    }

    /// Handles a server's message about a capability.
    pub(super) fn take_caps(&self, session: &Session, msg: &Msg) -> Result<(), DecodeError> {
        let caps: ClientCaps = msg.open()?;
        let changed = self.realms.take(&SnapTrace::from_blob(&caps.snap_trace, false)?.0);
        self.new_snapshot(session, &changed);
        let Some(inode) = self.inodes.get(InodeId::head(caps.ino)) else {
            give_back(session, &caps);
            return Ok(());
        };
        match caps.op {
            CapOp::Grant | CapOp::Revoke => self.take_grant(session, &inode, &caps),
            CapOp::Trunc => {
                let file = &caps.file;
                let mut known = inode.known();
                known.attrs.merge_size(file.size, (file.truncate_seq, file.truncate_size));
            }
            CapOp::Export => self.take_export(session, &inode, &caps),
            CapOp::Import => self.take_import(session, &inode, &caps),
            CapOp::FlushAck => inode.known().caps.flushed(msg.header.tid.0),
            // No state of a snapshot is flushed, and the rest are messages of clients.
            _ => {}
        }
        self.send_due(&inode, false);
        inode.changed.notify_waiters();
        Ok(())
    }

    fn take_grant(&self, session: &Session, inode: &Inode, caps: &ClientCaps) {
        let now = self.now_ms();
        let mut known = inode.known();
        let issued = known.issued(now) | known.caps.unacknowledged();
        let Some((_, taken)) = known.caps.set_issued(session.rank, caps.caps, caps.wanted, caps.seq) else {
            drop(known);
            give_back(session, caps);
            return;
        };
        let is_auth = known.caps.auth() == Some(session.rank);
        merge(&mut known, caps, issued, is_auth);
        if taken.contains(Caps::FILE_SHARED) {
            known.forget_entries();
        }
    }

    /// The inode moves to another server, which tells of the capability there.
    fn take_export(&self, session: &Session, inode: &Inode, caps: &ClientCaps) {
        {
            let mut known = inode.known();
            if known.caps.of(session.rank).is_none_or(|cap| cap.id != caps.cap_id) {
                return;
            }
            known.caps.remove(session.rank);
            known.caps.flush_again();
            if known.caps.of(caps.peer.mds).is_some() {
                known.caps.set_auth(caps.peer.mds);
            }
            known.asked_max = 0;
            known.forget_entries();
        }
        // The other server can tell of it only in a session.
        let map = self.mds_map();
        if let Some(info) = map.as_ref().and_then(|map| map.server(caps.peer.mds)) {
            self.session_with(info);
        }
    }

    fn take_import(&self, session: &Session, inode: &Inode, caps: &ClientCaps) {
        let now = self.now_ms();
        let mut known = inode.known();
        let issued = known.issued(now) | known.caps.unacknowledged();
        let peer = caps.peer;
        if known.caps.of(peer.mds).is_some_and(|cap| cap.id == peer.cap_id && cap.mseq <= caps.mseq) {
            known.caps.remove(peer.mds);
            known.caps.flush_again();
        }
        let grant = Grant {
            rank: session.rank,
            id: caps.cap_id,
            caps: caps.caps,
            wanted: caps.wanted,
            seq: caps.seq,
            mseq: caps.mseq,
            is_auth: true,
        };
        known.caps.add(grant, &session.trust);
        if caps.realm.0 != 0 {
            known.realm = caps.realm;
        }
        merge(&mut known, caps, issued, true);
    }

    /// The snapshots of realms have changed: what was written before belongs to the old ones. Attributes
    /// that changed before are sent at once, so that the server has them for the snapshot.
    pub(super) fn new_snapshot(&self, session: &Session, realms: &BTreeSet<Ino>) {
        if realms.is_empty() {
            return;
        }
        for inode in self.inodes.all() {
            let concerns = {
                let known = inode.known();
                realms.contains(&known.realm) && known.caps.of(session.rank).is_some()
            };
            if concerns {
                self.send_due(&inode, true);
            }
        }
    }

    /// Waits until the servers have made all changes to an inode durable.
    ///
    /// # Errors
    /// What the server could not be told of is lost.
    pub(crate) async fn settled(&self, inode: &Arc<Inode>) -> Result<(), Error> {
        loop {
            let changed = inode.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let failed = {
                let mut known = inode.known();
                let is_settled = known.unconfirmed == 0 && known.caps.unacknowledged().is_empty();
                is_settled.then(|| known.failed.take())
            };
            match failed {
                Some(None) => return Ok(()),
                Some(Some(errno)) => return Err(errno.into()),
                None if self.has_ended() => return Err(Error::Unmounted),
                None => changed.await,
            }
        }
    }
}

/// Gives back a capability on an inode that this client has forgotten.
fn give_back(session: &Session, caps: &ClientCaps) {
    if matches!(caps.op, CapOp::Grant | CapOp::Revoke | CapOp::Import) {
        session.release(CapRelease {
            ino: caps.ino,
            cap_id: caps.cap_id,
            mseq: caps.mseq,
            issue_seq: caps.seq,
        });
        session.send_releases();
    }
}

/// Merges the attributes in a message about a capability.
fn merge(known: &mut Known, caps: &ClientCaps, issued: Caps, is_auth: bool) {
    let attrs = &mut known.attrs;
    let granted = caps.caps;
    if granted.contains(Caps::AUTH_SHARED) && !issued.contains(Caps::AUTH_EXCL) {
        (attrs.mode, attrs.uid, attrs.gid, attrs.btime) = (caps.mode, caps.uid, caps.gid, caps.btime);
    }
    if granted.contains(Caps::LINK_SHARED) && !issued.contains(Caps::LINK_EXCL) {
        attrs.nlink = caps.nlink;
    }
    attrs.merge_xattrs(&caps.xattrs, caps.xattr_version, issued);
    if granted.intersects(Caps::ANY_FILE) {
        let file = &caps.file;
        (attrs.layout, attrs.pool_ns) = (file.layout, caps.pool_ns.clone());
        attrs.merge_size(file.size, (file.truncate_seq, file.truncate_size));
        attrs.merge_times(issued, (file.ctime, file.mtime, file.atime), file.time_warp_seq);
        attrs.change_attr = attrs.change_attr.max(caps.change_attr);
    }
    if let Some(DirCounts { nfiles, nsubdirs }) =
        caps.dir_counts.filter(|_| granted.contains(Caps::FILE_SHARED))
    {
        (attrs.files, attrs.subdirs) = (nfiles, nsubdirs);
    }
    if is_auth && caps.file.max_size != attrs.max_size {
        attrs.max_size = caps.file.max_size;
        if attrs.max_size >= known.asked_max {
            known.asked_max = 0;
        }
    }
}
