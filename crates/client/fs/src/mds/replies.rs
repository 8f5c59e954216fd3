//! Replies to requests: what they say of inodes and names is taken over in the order in which the server
//! sent it, before the caller hears of it.

use std::sync::Arc;

use loligo_rados::Errno;
use loligo_wire::message::Msg;
use loligo_wire::message::mds::{
    ClientReply, CreateExtra, FilePath, LeaseStat, ReaddirExtra, RequestForward, RequestOp, SnapTrace,
};
use loligo_wire::{Caps, Decode as _, DecodeError, Ino, Tid};

use crate::core::Core;
use crate::inode::{Entry, Inode, Lease};
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
        let changed = self.realms.take(&SnapTrace::from_blob(&reply.snap, false)?.0);
        self.new_snapshot(session, &changed);
        let done = if asked.is_first { Some(self.read_reply(session, &asked, &reply)?) } else { None };
        let made = match &done {
            Some(Done { extra: Extra::Created, target: Some(target) }) => Some(target.id.ino),
            Some(Done { target: Some(target), .. }) if makes(&asked.request.op) => Some(target.id.ino),
            _ => None,
        };
        let Some((request, caller)) = settled(session, (tid, &reply), made) else { return Ok(()) };
        let Some(done) = done else {
            // The second reply says that the change is durable.
            if reply.safe {
                Self::count_unconfirmed(&request, true);
            }
            return Ok(());
        };
        let event = match Errno::from_result(reply.result) {
            Some(errno) => Event::Failed(errno.into()),
            None => Event::Done(done),
        };
        let opened = match &event {
            Event::Done(Done { target: Some(target), .. }) => {
                request.opens.map(|opens| (Arc::clone(target), opens))
            }
            _ => None,
        };
        if let Some((target, (to_read, to_write))) = &opened {
            // Before the caller hears of it, so that nothing is given back in between.
            target.known().caps.opened(*to_read, *to_write);
        }
        if !reply.safe {
            Self::count_unconfirmed(&request, false);
        }
        let was_heard = caller.is_some_and(|caller| caller.send(event).is_ok());
        if let Some((target, (to_read, to_write))) = opened.filter(|_| !was_heard) {
            self.closed(&target, to_read, to_write);
        }
        Ok(())
    }

    /// Takes over what a reply says.
    fn read_reply(&self, session: &Session, asked: &Asked, reply: &ClientReply) -> Result<Done, DecodeError> {
        let request = &asked.request;
        let address = || match &request.entry {
            Some((dir, name)) if !dir.id.is_head() => dir.address_of(name),
            _ => FilePath::default(),
        };
        let trace = &reply.trace;
        let dir = trace.dentry.as_ref().map(|dentry| {
            let dir = self.learn(session, &dentry.dir, || FilePath::new(dentry.dir.ino, Vec::new()));
            (dir, dentry)
        });
        let target = trace.target.as_ref().map(|stat| {
            self.learn(session, stat, || match address() {
                path if path.base.0 != 0 => path,
                _ => FilePath::new(stat.ino, Vec::new()),
            })
        });
        if let Some((dir, dentry)) = dir {
            self.link(session, (&dir, &dentry.name, &dentry.lease), target.as_ref(), asked.sent_ms);
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
            _ => Extra::None,
        };
        Ok(Done { target, extra })
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
        let mut entries = Vec::with_capacity(extra.entries.len());
        for entry in &extra.entries {
            let inode = self.learn(session, &entry.stat, || match dir.id.is_head() {
                true => FilePath::new(entry.stat.ino, Vec::new()),
                false => dir.address_of(&entry.name),
            });
            self.link(session, (dir, &entry.name, &entry.lease), Some(&inode), asked.sent_ms);
            entries.push((entry.name.clone(), inode));
        }
        Ok(Listing { frag: extra.dirstat.frag, is_end: extra.is_end(), entries })
    }

    /// Remembers what a name in a directory means, as long as the server lets this client rely on it, or
    /// that it means nothing any more.
    fn link(
        &self,
        session: &Session,
        (dir, name, lease): (&Arc<Inode>, &[u8], &LeaseStat),
        target: Option<&Arc<Inode>>,
        sent_ms: u64,
    ) {
        let now = self.now_ms();
        let mut known = dir.known();
        let Some(target) = target else {
            known.entries.remove(name);
            return;
        };
        let is_leased = lease.mask & LeaseStat::VALID != 0 && lease.duration_ms > 0;
        let lease = Lease {
            until_ms: sent_ms + u64::from(lease.duration_ms),
            generation: session.trust.generation(),
            trust: Arc::clone(&session.trust),
        };
        let entry = Entry { id: target.id, lease: is_leased.then_some(lease) };
        if is_leased || known.issued(now).contains(Caps::FILE_SHARED) {
            known.entries.insert(name.to_vec(), entry);
        } else {
            known.entries.remove(name);
        }
        drop(known);
        if target.id.is_head() {
            target.known().found_in = Some((dir.id, name.to_vec()));
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

/// Moves a request on after a reply: to those that are not durable, or out. Returns it with its caller.
fn settled(
    session: &Session,
    (tid, reply): (Tid, &ClientReply),
    made: Option<Ino>,
) -> Option<(Arc<Request>, Option<Caller>)> {
    let mut state = session.state();
    let mut flight = state.pending.remove(&tid).or_else(|| state.unconfirmed.remove(&tid))?;
    flight.created = flight.created.or(made);
    let (request, caller) = (Arc::clone(&flight.request), flight.take_caller());
    if !reply.safe {
        state.unconfirmed.insert(tid, flight);
    }
    Some((request, caller))
}

/// Returns `true` if a request makes an inode.
fn makes(op: &RequestOp) -> bool {
    matches!(op, RequestOp::MkDir { .. } | RequestOp::MkNod { .. } | RequestOp::SymLink)
}
