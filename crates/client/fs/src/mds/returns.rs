//! What a request gives back of capabilities and leases. Its server would otherwise take them from this
//! client before it carries the request out, which costs a message and an answer, while the request waits.

use std::sync::Arc;

use loligo_wire::Caps;
use loligo_wire::message::mds::{RequestOp, RequestRelease, SetAttr};

use crate::core::Core;
use crate::inode::{Inode, InodeId};
use crate::session::{Request, Session};

/// What a request makes of no use to this client.
struct Spoilt<'r> {
    inode: Arc<Inode>,
    parts: Caps,
    /// With one of these the server lets the client keep the parts.
    unless: Caps,
    /// The name in this directory that changes.
    name: Option<&'r [u8]>,
}

impl<'r> Spoilt<'r> {
    fn of(inode: &Arc<Inode>, parts: Caps) -> Self {
        Self { inode: Arc::clone(inode), parts, unless: Caps::NONE, name: None }
    }

    /// A name in a directory changes.
    fn name((dir, name): &'r (Arc<Inode>, Vec<u8>)) -> Self {
        let unless = Caps::FILE_EXCL;
        Self { unless, name: Some(name), ..Self::of(dir, Caps::FILE_SHARED) }
    }
}

impl Core {
    /// Gives back what a request to a session's server spoils, and returns what the request must tell of it.
    /// The request must be queued at once.
    pub(super) fn give_with(&self, session: &Session, request: &Request) -> Vec<RequestRelease> {
        let mut releases = Vec::new();
        for spoilt in self.spoilt_by(request) {
            if spoilt.inode.id.is_head() {
                releases.extend(self.give(session, &spoilt, request.removes));
            }
        }
        releases
    }

    /// Returns what a request spoils. One that makes a name keeps Fs of its directory: through a mount it
    /// costs the server more to get it back with each name than to ask for it.
    fn spoilt_by<'r>(&self, request: &'r Request) -> Vec<Spoilt<'r>> {
        let names = request.entry.iter().chain(&request.renames).map(Spoilt::name);
        let links = |inode: &Arc<Inode>| Spoilt::of(inode, Caps::ANY_LINK);
        match &request.op {
            RequestOp::Link => request.also.iter().map(links).collect(),
            RequestOp::Unlink | RequestOp::RmDir | RequestOp::Rename => {
                let moved = request.renames.as_ref().and_then(|(dir, name)| dir.known().means(name));
                let known = [request.removes, moved].into_iter().flatten();
                names.chain(known.filter_map(|id| self.inodes.peek(id)).map(|inode| links(&inode))).collect()
            }
            RequestOp::SetAttr(args) => vec![Spoilt::of(&request.about, parts_of(args))],
            RequestOp::SetXattr { .. } | RequestOp::RmXattr => {
                vec![Spoilt::of(&request.about, Caps::ANY_XATTR)]
            }
            _ => Vec::new(),
        }
    }

    /// Gives back what is spoilt of one inode. A directory of which all names are known keeps what vouches
    /// for them, unless the server asks: this client wants to have it for itself.
    fn give(
        &self,
        session: &Session,
        spoilt: &Spoilt<'_>,
        removed: Option<InodeId>,
    ) -> Option<RequestRelease> {
        let Spoilt { inode, parts, unless, name } = spoilt;
        let now = self.now_ms();
        let (leased, parts) = {
            let known = inode.known();
            let lease = name.and_then(|name| Some((name, known.lease_of(name, &session.trust, now)?)));
            let holds = known.caps.issued_by(session.rank).unwrap_or(Caps::NONE);
            let gives = holds.intersects(*parts) && !holds.intersects(*unless) && !known.is_complete(now);
            if lease.is_none() && !gives {
                return None;
            }
            (lease, if gives { *parts } else { Caps::NONE })
        };
        let (returned, taken, is_last) = self.event(inode, |known, clock| {
            let before = known.issued(now);
            let returned = known
                .with_caps(clock, |caps, view| caps.give_with_request(session.rank, parts, *unless, view));
            if let Some((name, _)) = leased.filter(|_| returned.is_some()) {
                known.end_lease(name, now);
            }
            (returned, before - known.issued(now), known.attrs.nlink <= 1)
        });
        let returned = returned?;
        // The kernel knows that a file whose last name goes has none.
        if !(is_last && removed == Some(inode.id)) {
            self.tell_taken(inode, taken);
        }
        if returned.given.is_empty() && leased.is_none() {
            return None;
        }
        let (name, lease_seq) = leased.unwrap_or_default();
        Some(RequestRelease {
            ino: inode.id.ino,
            cap_id: returned.cap_id,
            caps: returned.caps,
            wanted: returned.wanted,
            seq: returned.seq,
            issue_seq: returned.issue_seq,
            mseq: returned.mseq,
            lease_seq,
            name: name.to_vec(),
        })
    }
}

/// The capabilities of the attributes that a request sets, without those of the data: operations on it may
/// begin at any time.
fn parts_of(args: &SetAttr) -> Caps {
    let owner = SetAttr::MODE | SetAttr::UID | SetAttr::GID;
    if args.mask & owner != 0 { Caps::ANY_AUTH } else { Caps::NONE }
}
