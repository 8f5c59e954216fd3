//! Replies to requests: what they say of inodes and names is taken over in the order in which the server
//! sent it, before the caller hears of it.

use std::sync::Arc;

use loligo_rados::Errno;
use loligo_wire::message::Msg;
use loligo_wire::message::mds::{
    ClientReply, CreateExtra, FileLockRecord, FilePath, InodeStat, LeaseStat, ReaddirExtra, RequestForward,
    RequestOp, SnapTrace, VxattrExtra,
};
use loligo_wire::{Caps, Decode as _, DecodeError, Tid};

use crate::core::Core;
use crate::inode::{Entry, Inode, InodeId, Lease};
use crate::session::{Caller, Done, Event, Extra, Flight, Listing, Request, Session};

/// What is known of a request when its reply arrives.
struct Asked {
    request: Arc<Request>,
    /// When it was sent, by the client's clock.
    sent_ms: u64,
    /// It has had no reply yet.
    is_first: bool,
}

impl Core {
    /// Handles a reply.
    pub(super) fn take_reply(&self, session: &Session, msg: &Msg) -> Result<(), DecodeError> {
        let reply: ClientReply = msg.open()?;
        let tid = msg.header.tid;
        let Some(asked) = asked(session, tid) else { return Ok(()) };
        self.new_snapshots(&self.realms.take(&SnapTrace::from_blob(&reply.snap, false)?.0));
        let done = if asked.is_first { Some(self.read_reply(session, &asked, &reply)?) } else { None };
        let made = match &done {
            Some(Done { extra: Extra::Created, target: Some(target) }) => Some(Arc::clone(target)),
            Some(Done { target: Some(target), .. }) if makes(&asked.request.op) => Some(Arc::clone(target)),
            _ => None,
        };
        let Some(Settled { request, caller, changed }) = settled(session, (tid, &reply), made) else {
            return Ok(());
        };
        let Some(done) = done else {
            // The second reply says that the change is durable.
            if reply.safe {
                Self::count_unconfirmed(changed.iter(), true);
            }
            return Ok(());
        };
        let event = match Errno::from_result(reply.result) {
            Some(errno) => Event::Failed(errno.into()),
            None => Event::Done(done),
        };
        let opened = match &event {
            Event::Done(Done { target: Some(target), .. }) => {
                request.opens.map(|mode| (Arc::clone(target), mode))
            }
            _ => None,
        };
        if let Some((target, mode)) = &opened {
            // Before the caller hears of it, so that nothing is given back in between.
            self.opened(target, *mode);
        }
        if let (Event::Done(_), Some(removed)) = (&event, request.removes)
            && let Some(removed) = self.inodes.get(removed)
        {
            let now = self.now_ms();
            let mut known = removed.known();
            let has_more = known.attrs.nlink > 1 && known.is_vouched_for(Caps::LINK_SHARED, now);
            known.is_removed = !has_more;
        }
        if !reply.safe {
            Self::count_unconfirmed(changed.iter(), false);
        }
        let was_heard = caller.is_some_and(|caller| caller.send(event).is_ok());
        if let Some((target, mode)) = opened.filter(|_| !was_heard) {
            self.closed(&target, mode);
        }
        Ok(())
    }

    /// Takes over what a reply says.
    fn read_reply(&self, session: &Session, asked: &Asked, reply: &ClientReply) -> Result<Done, DecodeError> {
        let request = &asked.request;
        let address = |stat: &InodeStat, is_target| self.address_of(request, stat, is_target);
        let trace = &reply.trace;
        let dir = trace.dentry.as_ref().map(|dentry| {
            let dir = self.learn(session, &dentry.dir, || address(&dentry.dir, false));
            dir.known().fragments.learn(&dentry.dirstat);
            (dir, dentry)
        });
        let target = trace.target.as_ref().map(|stat| self.learn(session, stat, || address(stat, true)));
        match (&dir, &target) {
            (Some((dir, dentry)), Some(target)) => {
                self.link(session, (dir, &dentry.name, &dentry.lease), target, asked.sent_ms);
            }
            (Some((dir, dentry)), None) => unlink(session, request, reply, (dir, &dentry.name)),
            _ => {}
        }
        if reply.result >= 0 {
            self.names_changed(session, request, reply, target.as_ref());
        }
        let extra = match &request.op {
            _ if reply.result < 0 => Extra::None,
            RequestOp::ReadDir(_) | RequestOp::LsSnap(_) => {
                Extra::Listing(self.read_listing(session, asked, reply)?)
            }
            RequestOp::Create(_) if !reply.extra.is_empty() => {
                CreateExtra::from_extra(&reply.extra)?;
                Extra::Created
            }
            RequestOp::GetFileLock(_) => Extra::Lock(FileLockRecord::from_bytes(&reply.extra)?),
            RequestOp::GetVxattr => Extra::Value(VxattrExtra::from_bytes(&reply.extra)?.0),
            _ => Extra::None,
        };
        Ok(Done { target, extra })
    }

    /// Returns how requests name an inode that a reply tells of: by its number, or, in a snapshot, as the
    /// request named it. By its number a server would look for it outside the snapshot, where it may have
    /// changed, or be gone.
    fn address_of(&self, request: &Request, stat: &InodeStat, is_target: bool) -> FilePath {
        let id = InodeId { ino: stat.ino, snap: stat.snapid };
        let in_snapshot = (!id.is_head()).then(|| {
            let named = request.address_in_snapshot(id, is_target);
            named.or_else(|| self.inodes.peek(id).map(|known| known.address.clone()))
        });
        in_snapshot.flatten().unwrap_or_else(|| FilePath::new(stat.ino, Vec::new()))
    }

    /// Takes over a part of a directory.
    fn read_listing(
        &self,
        session: &Session,
        asked: &Asked,
        reply: &ClientReply,
    ) -> Result<Listing, DecodeError> {
        let extra = ReaddirExtra::from_bytes(&reply.extra)?;
        let dir = &asked.request.about;
        dir.known().fragments.learn(&extra.dirstat);
        let mark = match dir.id.is_head() {
            true => dir.known().begin_listing(session.rank, self.now_ms()),
            false => None,
        };
        let mut entries = Vec::with_capacity(extra.entries.len());
        for entry in &extra.entries {
            let inode = self.learn(session, &entry.stat, || match dir.id.is_head() {
                true => FilePath::new(entry.stat.ino, Vec::new()),
                false => dir.address_of(&entry.name),
            });
            self.link(session, (dir, &entry.name, &entry.lease), &inode, asked.sent_ms);
            entries.push((entry.name.clone(), inode));
        }
        let is_by_hash = extra.flags & ReaddirExtra::HASH_ORDER != 0;
        Ok(Listing { frag: extra.dirstat.frag, is_by_hash, is_end: extra.is_end(), entries, mark })
    }

    /// Remembers what a name in a directory means, as long as the server lets this client rely on it.
    fn link(
        &self,
        session: &Session,
        (dir, name, lease): (&Arc<Inode>, &[u8], &LeaseStat),
        target: &Arc<Inode>,
        sent_ms: u64,
    ) {
        let now = self.now_ms();
        let mut known = dir.known();
        let is_leased = lease.mask & LeaseStat::VALID != 0 && lease.duration_ms > 0;
        let lease = Lease {
            until_ms: sent_ms + u64::from(lease.duration_ms),
            seq: lease.seq,
            generation: session.trust.generation(),
            trust: Arc::clone(&session.trust),
        };
        let entry = Entry { id: target.id, lease: is_leased.then_some(lease) };
        if is_leased || known.issued(now).contains(Caps::FILE_SHARED) {
            known.remember_name(name, entry);
        } else {
            known.forget_name(name);
        }
        drop(known);
        if target.id.is_head() {
            target.known().found_in = Some((dir.id, name.to_vec()));
        }
    }

    /// Takes over what a request has done to names of which its reply does not tell.
    fn names_changed(
        &self,
        session: &Session,
        request: &Request,
        reply: &ClientReply,
        target: Option<&Arc<Inode>>,
    ) {
        let Some((dir, name)) = request.entry.as_ref().filter(|_| request.op.is_write()) else { return };
        if reply.trace.dentry.is_none() {
            dir.known().forget_name(name);
        }
        let has_moved = |(from, old_name): &&(Arc<Inode>, Vec<u8>)| (from.id, old_name) != (dir.id, name);
        if let Some((from, old_name)) = request.renames.as_ref().filter(has_moved) {
            let mut known = from.known();
            match &reply.trace.target {
                // A file with two names keeps both, if it is renamed from one to the other.
                Some(stat) if stat.nlink == 1 => known.name_is_gone(old_name, session.rank),
                _ => known.forget_name(old_name),
            }
        }
        self.changes_names(dir);
        if let (RequestOp::MkDir { .. }, Some(new)) = (&request.op, target) {
            // It is made to have something in it.
            self.changes_names(new);
        }
    }

    /// This client has changed names of a directory, and may do so again.
    fn changes_names(&self, dir: &Arc<Inode>) {
        let is_known = !dir.id.is_head() || dir.known().caps.changes_names();
        if !is_known {
            self.event(dir, |known, clock| known.with_caps(clock, |caps, view| caps.change_names(view)));
        }
    }

    /// Another server is to be asked.
    pub(super) fn take_forward(&self, session: &Session, tid: Tid, forward: RequestForward) {
        let flight = session.state().pending.remove(&tid);
        if let Some(mut flight) = flight {
            flight.tell(Event::Forward(forward.dest, forward.num_fwd));
        }
    }
}

/// Takes over that a name means nothing, if that is what the reply says.
fn unlink(session: &Session, request: &Request, reply: &ClientReply, (dir, name): (&Arc<Inode>, &[u8])) {
    let removes = matches!(request.op, RequestOp::Unlink | RequestOp::RmDir) && reply.result >= 0;
    let is_gone = removes || Errno::from_result(reply.result) == Some(Errno::ENOENT);
    let mut known = dir.known();
    match is_gone {
        true => known.name_is_gone(name, session.rank),
        false => known.forget_name(name),
    }
}

/// Returns the request that a reply answers.
fn asked(session: &Session, tid: Tid) -> Option<Asked> {
    let state = session.state();
    let of = |flight: &Flight, is_first| Asked {
        request: Arc::clone(&flight.request),
        sent_ms: flight.sent_ms,
        is_first,
    };
    if let Some(flight) = state.pending.get(&tid) {
        // A request that is sent again after its first reply has its caller told already.
        return Some(of(flight, !flight.is_told()));
    }
    state.unconfirmed.get(&tid).map(|flight| of(flight, false))
}

/// A request after a reply.
struct Settled {
    request: Arc<Request>,
    caller: Option<Caller>,
    /// What waits for its durability.
    changed: Vec<Arc<Inode>>,
}

/// Moves a request on after a reply: to those that are not durable, or out.
fn settled(
    session: &Session,
    (tid, reply): (Tid, &ClientReply),
    made: Option<Arc<Inode>>,
) -> Option<Settled> {
    let mut state = session.state();
    let mut flight = state.pending.remove(&tid).or_else(|| state.unconfirmed.remove(&tid))?;
    flight.made = flight.made.take().or(made);
    let changed = flight.changes().map(Arc::clone).collect();
    let (request, caller) = (Arc::clone(&flight.request), flight.take_caller());
    if !reply.safe {
        state.unconfirmed.insert(tid, flight);
    }
    Some(Settled { request, caller, changed })
}

/// Returns `true` if a request makes an inode.
fn makes(op: &RequestOp) -> bool {
    matches!(op, RequestOp::MkDir { .. } | RequestOp::MkNod { .. } | RequestOp::SymLink)
}
