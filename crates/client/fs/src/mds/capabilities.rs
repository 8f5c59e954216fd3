//! Messages about capabilities.

use std::sync::Arc;
use std::time::Duration;

use loligo_fs_core::caps::{Export, Grant, Import, OpenMode, Peer, ReplyCap};
use loligo_wire::message::Msg;
use loligo_wire::message::mds::{
    CapOp, CapPeer, CapRelease, ClientCaps, ClientSession, DirCounts, SessionOp, SnapTrace,
};
use loligo_wire::{CapId, Caps, DecodeError, Ino};
use tokio::time::timeout;

use crate::core::Core;
use crate::error::Error;
use crate::inode::{Inode, InodeId, Known};
use crate::session::{Phase, Session};
use crate::sink::Invalidation;

/// The pause before the servers are asked again to write their logs: the first, and the longest.
const LOG_WISHES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

impl Core {
    /// Counts a file opened.
    pub(crate) fn opened(&self, inode: &Arc<Inode>, mode: OpenMode) {
        self.event(inode, |known, clock| known.with_caps(clock, |caps, view| caps.opened(mode, view)));
    }

    /// Counts a file closed. With the last one, what was written begins to go to the servers.
    pub(crate) fn closed(&self, inode: &Arc<Inode>, mode: OpenMode) {
        self.event(inode, |known, clock| {
            known.with_caps(clock, |caps, view| {
                caps.closed(mode, view);
                if !caps.is_open() {
                    caps.flush(view);
                }
            });
        });
    }

    /// Handles a server's message about a capability.
    pub(super) fn take_caps(&self, session: &Session, msg: &Msg) -> Result<(), DecodeError> {
        let caps: ClientCaps = msg.open()?;
        self.barrier.raise(caps.osd_epoch_barrier);
        self.new_snapshots(&self.realms.take(&SnapTrace::from_blob(&caps.snap_trace, false)?.0));
        let Some(inode) = self.inodes.get(InodeId::head(caps.ino)) else {
            give_back(session, &caps);
            return Ok(());
        };
        let tid = msg.header.tid;
        match caps.op {
            CapOp::Grant | CapOp::Revoke => self.take_grant(session, &inode, &caps),
            CapOp::Trunc => self.event(&inode, |known, _| {
                let file = &caps.file;
                known.cut = known.attrs.merge_size(file.size, (file.truncate_seq, file.truncate_size));
            }),
            CapOp::Export => self.take_export(session, &inode, &caps),
            CapOp::Import => self.take_import(session, &inode, &caps),
            CapOp::FlushAck => self.event(&inode, |known, clock| {
                known.with_caps(clock, |caps, view| caps.flush_ack(session.rank, tid, view));
            }),
            CapOp::FlushSnapAck => {
                self.event(&inode, |known, clock| known.snaps.ack(tid, &|| clock.flush_tid()));
            }
            // The rest are messages of clients.
            _ => {}
        }
        inode.changed.notify_waiters();
        Ok(())
    }

    fn take_grant(&self, session: &Session, inode: &Arc<Inode>, caps: &ClientCaps) {
        let now = self.now_ms();
        let grant = Grant {
            cap_id: caps.cap_id,
            caps: caps.caps,
            wanted: caps.wanted,
            seq: caps.seq,
            mseq: caps.mseq,
            is_revoke: caps.op == CapOp::Revoke,
        };
        let (was_known, taken) = self.event(inode, |known, clock| {
            let (before, granted) = (known.issued(now), known.caps.issued());
            let issued = before | known.caps.unacknowledged();
            let is_auth = known.caps.auth() == Some(session.rank);
            let is_known = known.is_of(session.rank);
            known.with_caps(clock, |caps, view| caps.grant(session.rank, &grant, view));
            if is_known {
                merge(known, caps, issued, is_auth);
            }
            // Also what counts for nothing at the moment, because the session was not renewed in time: it
            // would count again once it is.
            let taken = (before - known.issued(now)) | (granted - known.caps.issued());
            (is_known, taken)
        });
        self.tell_taken(inode, taken);
        if !was_known {
            // The server hears at once that the capability is gone.
            session.send_releases();
        }
    }

    /// Tells a cache above this client what it must not believe any more, now that a server has taken
    /// capabilities back.
    pub(super) fn tell_taken(&self, inode: &Inode, taken: Caps) {
        if !self.is_watched() {
            return;
        }
        let id = inode.id.into();
        // Without Fc the cache above asks before each read of what it has.
        if taken.intersects(Caps::ANY_SHARED | Caps::FILE_CACHE) {
            self.invalidate(Invalidation::Attributes(id));
        }
        if taken.contains(Caps::FILE_SHARED) && inode.is_dir() {
            self.invalidate(Invalidation::Names(id));
        }
    }

    /// The inode moves to another server, which tells of the capability there.
    fn take_export(&self, session: &Session, inode: &Arc<Inode>, caps: &ClientCaps) {
        let CapPeer { cap_id, issue_seq, mseq, mds, .. } = caps.peer;
        let peer = (cap_id != CapId(0)).then_some(Peer { rank: mds, cap_id, seq: issue_seq, mseq });
        // The other server can tell of it only in a session.
        let map = self.mds_map();
        let other = peer.and_then(|_| map.as_ref()?.server(mds).map(|info| self.session_with(info)));
        let export = Export { cap_id: caps.cap_id, mseq: caps.mseq, peer };
        let now = self.now_ms();
        let taken = self.event(inode, |known, clock| {
            let issued = known.issued(now);
            if let Some(other) = &other {
                known.trusts.insert(mds, Arc::clone(&other.trust));
            }
            known.with_caps(clock, |caps, view| caps.export(session.rank, &export, view));
            known.forget_held_names();
            issued - known.issued(now)
        });
        self.tell_taken(inode, taken);
    }

    fn take_import(&self, session: &Session, inode: &Arc<Inode>, caps: &ClientCaps) {
        let now = self.now_ms();
        let CapPeer { cap_id, issue_seq, mseq, mds, .. } = caps.peer;
        let cap = ReplyCap {
            cap_id: caps.cap_id,
            caps: caps.caps,
            wanted: caps.wanted,
            seq: caps.seq,
            mseq: caps.mseq,
            is_auth: true,
        };
        let peer = (cap_id != CapId(0)).then_some(Peer { rank: mds, cap_id, seq: issue_seq, mseq });
        self.event(inode, |known, clock| {
            let issued = known.issued(now) | known.caps.unacknowledged();
            known.trusts.insert(session.rank, Arc::clone(&session.trust));
            let import = Import { cap, peer };
            known.with_caps(clock, |caps, view| caps.import(session.rank, &import, view));
            known.snaps.send_again();
            if caps.realm.0 != 0 && caps.realm != known.realm {
                known.moved_to = Some(caps.realm);
            }
            merge(known, caps, issued, true);
        });
    }

    /// The snapshots of realms have changed: what was changed and written before belongs to the old ones.
    pub(super) fn new_snapshots(&self, changed: &[loligo_fs_core::realm::Changed]) {
        if changed.is_empty() {
            return;
        }
        for inode in self.inodes.all() {
            let realm = inode.known().realm;
            if changed.iter().any(|changed| changed.realm == realm) {
                self.event(&inode, |known, _| known.moved_to = Some(realm));
            }
        }
    }

    /// Inodes move into a realm that is new.
    pub(super) fn split(&self, realm: Ino, inos: &[Ino]) {
        for ino in inos {
            let Some(inode) = self.inodes.get(InodeId::head(*ino)) else { continue };
            let from = inode.known().realm;
            if from != realm && self.realms.takes(from, realm) {
                self.event(&inode, |known, _| known.moved_to = Some(realm));
            }
        }
    }

    /// Sends what was changed in an inode, and waits until the servers have made it durable: what was changed
    /// before the call.
    ///
    /// # Errors
    /// The mount has ended. What is lost is noted with the inode.
    pub(crate) async fn settle(&self, inode: &Arc<Inode>) -> Result<(), Error> {
        self.flush(inode);
        let (target, auth, mut waits) = {
            let known = inode.known();
            let waits = known.unconfirmed > 0 || !known.caps.unacknowledged().is_empty();
            (known.changes, known.caps.auth(), waits)
        };
        let (mut covering, mut patience, mut word) = (None, LOG_WISHES.0, None);
        loop {
            let changed = inode.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let is_settled = {
                let known = inode.known();
                if covering.is_none() && known.covered.0 >= target {
                    covering = Some(known.covered.1);
                }
                let oldest = known.caps.oldest_flush();
                let is_covered = covering.is_some_and(|tid| oldest.is_none_or(|oldest| oldest > tid));
                known.unconfirmed == 0
                    && known.snaps.is_empty()
                    && (is_covered || known.caps.unacknowledged().is_empty())
            };
            if is_settled {
                return self.may_go_on();
            }
            if self.has_ended() {
                return Err(Error::Unmounted);
            }
            if std::mem::take(&mut waits) {
                self.ask_for_logs();
            }
            // A wish that comes before a server has written what is waited for into its log changes nothing.
            if timeout(patience, changed).await.is_err() {
                waits = true;
                patience = LOG_WISHES.1.min(patience * 2);
                word = word.or_else(|| auth.map(|rank| self.waits_for_server(rank)));
            }
        }
    }

    /// Asks the servers to make their logs durable: by themselves they do so every few seconds.
    pub(crate) fn ask_for_logs(&self) {
        for session in self.all_sessions() {
            if session.phase() == Phase::Open {
                session.send(Msg::new(&ClientSession::new(SessionOp::RequestFlushMdLog, 0)));
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
        known.cut = attrs.merge_size(file.size, (file.truncate_seq, file.truncate_size)).or(known.cut);
        attrs.merge_times(issued, (file.ctime, file.mtime, file.atime), file.time_warp_seq);
        attrs.change_attr = attrs.change_attr.max(caps.change_attr);
    }
    if let Some(DirCounts { nfiles, nsubdirs }) =
        caps.dir_counts.filter(|_| granted.contains(Caps::FILE_SHARED))
    {
        (attrs.files, attrs.subdirs) = (nfiles, nsubdirs);
    }
    if is_auth && caps.file.max_size != attrs.max_size {
        known.permit_size(caps.file.max_size);
    }
}
