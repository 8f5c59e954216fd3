//! The events that metadata servers cause.

use loligo_types::{CapId, Caps, Rank, Tid};

use super::cap::{Cap, View, is_after};
use super::effect::{Effect, Lost, Release};
use super::inode::InodeCaps;
use super::uses::{Buffer, Cache};

/// A capability in a reply (`InodeStat`): it adds, and never revokes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyCap {
    /// The capability.
    pub cap_id: CapId,
    /// The bits that are issued.
    pub caps: Caps,
    /// What the metadata server takes the client to want.
    pub wanted: Caps,
    /// The number of the issue.
    pub seq: u32,
    /// The number of migrations.
    pub mseq: u32,
    /// Whether the sender has authority over the inode.
    pub is_auth: bool,
}

/// A grant or a revoke: which of the two follows from the bits.
///
/// A server waits for the answer to each revoke. It may have crossed with a message that returned the same
/// bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The capability.
    pub cap_id: CapId,
    /// All bits that the client may have from now on.
    pub caps: Caps,
    /// What the metadata server takes the client to want.
    pub wanted: Caps,
    /// The number of the message.
    pub seq: u32,
    /// The number of migrations.
    pub mseq: u32,
    /// Whether the server waits for an answer (`CEPH_CAP_OP_REVOKE`).
    pub is_revoke: bool,
}

/// The capability at the other end of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The metadata server.
    pub rank: Rank,
    /// The capability there.
    pub cap_id: CapId,
    /// Its last message.
    pub seq: u32,
    /// Its number of migrations.
    pub mseq: u32,
}

/// The authority over an inode goes to another metadata server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Export {
    /// The capability that ends.
    pub cap_id: CapId,
    /// The number of migrations.
    pub mseq: u32,
    /// The capability that follows; none if the inode was only a replica here.
    pub peer: Option<Peer>,
}

/// The authority over an inode has come to this metadata server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Import {
    /// The new capability.
    pub cap: ReplyCap,
    /// The capability that it follows.
    pub peer: Option<Peer>,
}

/// What a client tells of its capability to a metadata server that has restarted (`cap_reconnect_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapClaim {
    /// The capability.
    pub cap_id: CapId,
    /// What the client wants.
    pub wanted: Caps,
    /// What the client holds.
    pub issued: Caps,
}

impl InodeCaps {
    /// A reply of a rank names the inode with a capability.
    pub fn reply_cap(&mut self, rank: Rank, reply: &ReplyCap, view: &View<'_>) {
        self.refresh(rank, view);
        self.add(rank, reply, view);
        self.rest_with_spare(view);
        self.effects.push(Effect::Wake);
        self.check(view);
    }

    /// A grant or a revoke (`CEPH_CAP_OP_GRANT`, `CEPH_CAP_OP_REVOKE`).
    pub fn grant(&mut self, rank: Rank, grant: &Grant, view: &View<'_>) {
        self.refresh(rank, view);
        let Some(cap) = self.caps.get_mut(&rank).filter(|cap| cap.id == grant.cap_id) else {
            // The capability crossed with its release. The server hears once more that it is gone.
            let Grant { cap_id, mseq, seq: issue_seq, .. } = *grant;
            self.effects.push(Effect::SendRelease(Release { rank, cap_id, mseq, issue_seq }));
            return;
        };
        cap.seq = grant.seq;
        cap.mseq = grant.mseq;
        // The server need not know what was asked for in a message that crossed with this one.
        cap.told = grant.wanted;
        cap.issued = grant.caps;
        cap.implemented |= grant.caps;
        cap.owes_answer |= grant.is_revoke;
        self.rest_with_spare(view);
        self.effects.push(Effect::Wake);
        self.check(view);
    }

    /// A flush is durable (`CEPH_CAP_OP_FLUSH_ACK`). Parts changed again since are dirty still.
    pub fn flush_ack(&mut self, rank: Rank, tid: Tid, view: &View<'_>) {
        if self.auth != Some(rank) || self.flushing.remove(&tid).is_none() {
            return;
        }
        self.rest_with_spare(view);
        self.effects.push(Effect::Wake);
        self.check(view);
    }

    /// The rank gives its capability away (`CEPH_CAP_OP_EXPORT`). The import may have come before.
    pub fn export(&mut self, rank: Rank, export: &Export, view: &View<'_>) {
        self.refresh(rank, view);
        let known = |cap: &&Cap| cap.id == export.cap_id && !is_after(cap.mseq, export.mseq);
        let Some(old) = self.caps.get(&rank).filter(known).cloned() else { return };
        let was_auth = self.auth == Some(rank);
        if let Some(peer) = export.peer {
            self.follow(&old, was_auth, &peer, view);
        }
        self.caps.remove(&rank);
        if was_auth {
            self.auth = export.peer.map(|peer| peer.rank).filter(|auth| self.caps.contains_key(auth));
        }
        self.effects.push(Effect::Wake);
        self.check(view);
    }

    /// The capability `old` goes on at `peer`, whose own message may have come already.
    fn follow(&mut self, old: &Cap, was_auth: bool, peer: &Peer, view: &View<'_>) {
        self.refresh(peer.rank, view);
        if let Some(new) = self.caps.get_mut(&peer.rank) {
            if new.id == peer.cap_id && !is_after(new.seq, peer.seq) {
                new.seq = peer.seq;
                new.issued |= old.issued;
            }
            new.implemented |= old.implemented;
            return;
        }
        let generation = view.generation(peer.rank);
        // What the new server believes to be wanted is not known: the next check tells it.
        let new = Cap {
            id: peer.cap_id,
            issued: old.issued,
            implemented: old.implemented,
            told: Caps::NONE,
            seq: peer.seq.wrapping_sub(1),
            issue_seq: peer.seq.wrapping_sub(1),
            mseq: peer.mseq,
            generation,
            owes_answer: false,
        };
        self.caps.insert(peer.rank, new);
        if was_auth {
            self.auth = Some(peer.rank);
        }
    }

    /// The rank takes a capability over (`CEPH_CAP_OP_IMPORT`). The export may have come before.
    pub fn import(&mut self, rank: Rank, import: &Import, view: &View<'_>) {
        self.refresh(rank, view);
        self.add(rank, &import.cap, view);
        let old = import.peer.filter(|peer| peer.rank != rank).and_then(|peer| {
            let cap = self.caps.get(&peer.rank)?;
            (cap.id == peer.cap_id && !is_after(cap.mseq, peer.mseq)).then_some(peer.rank)
        });
        if let Some(old) = old.and_then(|old| self.caps.remove(&old))
            && let Some(new) = self.caps.get_mut(&rank)
        {
            new.implemented |= old.implemented;
        }
        if self.auth == Some(rank) {
            self.flush_again();
        }
        self.rest_with_spare(view);
        self.effects.push(Effect::Wake);
        self.check(view);
    }

    /// A metadata server has restarted, and asks what the client holds. `previous` is the session's
    /// generation before, `view` has the new one. Numbers start anew.
    ///
    /// What was being revoked is claimed as well: the server that revoked it is gone, and nobody else can
    /// have been given what this client has not returned. Of a capability that was void only what changes
    /// the file is claimed: had somebody else wanted that, the session would have been evicted.
    pub fn reconnect(&mut self, rank: Rank, previous: u32, view: &View<'_>) -> Option<CapClaim> {
        let wanted = self.wanted();
        let was_void = self.caps.get(&rank)?.generation != previous;
        if was_void {
            self.void(rank);
        }
        let cap = self.caps.get_mut(&rank)?;
        cap.issued = match was_void {
            true => cap.implemented & Caps::PIN.union(Caps::ANY_WR),
            false => cap.implemented,
        };
        cap.generation = view.generation(rank);
        cap.seq = 0;
        cap.issue_seq = 0;
        cap.mseq = 0;
        cap.told = wanted;
        cap.owes_answer = false;
        let claim = CapClaim { cap_id: cap.id, wanted, issued: cap.issued };
        self.max_size_asked = 0;
        // The server that vouched for them is gone.
        self.forget_names();
        Some(claim)
    }

    /// The reconnect message has been sent: flushes follow it, before the server serves others.
    pub fn reconnected(&mut self, rank: Rank, view: &View<'_>) {
        if self.auth == Some(rank) {
            self.flush_again();
        }
        self.effects.push(Effect::Wake);
        self.check(view);
    }

    /// The session with a rank is lost, and with it the capability, and what only it knew.
    pub fn lost(&mut self, rank: Rank, view: &View<'_>) {
        if self.caps.remove(&rank).is_none() {
            return;
        }
        if self.cache != Cache::Empty && !self.issued().contains(Caps::FILE_CACHE) {
            self.void_cache();
        }
        if self.auth == Some(rank) {
            self.auth = None;
            let lost = Lost { dirty: self.unacknowledged(), has_data: self.buffer != Buffer::Clean };
            self.dirty = Caps::NONE;
            self.flushing.clear();
            self.buffer = Buffer::Clean;
            self.flush_asked = false;
            self.data_flush_asked = false;
            self.max_size_asked = 0;
            if !lost.dirty.is_empty() || lost.has_data {
                self.effects.push(Effect::Lost(lost));
            }
        }
        self.effects.push(Effect::Wake);
        self.check(view);
    }

    /// Makes what was issued before the session was stale void.
    pub(super) fn refresh(&mut self, rank: Rank, view: &View<'_>) {
        let generation = view.generation(rank);
        if self.caps.get(&rank).is_none_or(|cap| cap.generation == generation) {
            return;
        }
        self.void(rank);
        if let Some(cap) = self.caps.get_mut(&rank) {
            cap.generation = generation;
        }
    }

    /// Makes a capability void: all of it stays implemented, as if it had been revoked, until the next check
    /// returns it. The server hears so what the client has, and an answer that was due is not forgotten. The
    /// cache of this time must go even if Fc comes back at once.
    fn void(&mut self, rank: Rank) {
        let Some(cap) = self.caps.get_mut(&rank) else { return };
        let had = cap.issued;
        cap.issued &= Caps::PIN;
        if had.contains(Caps::FILE_CACHE) {
            self.void_cache();
        }
        if had.contains(Caps::FILE_SHARED) {
            self.forget_names();
        }
    }

    /// Adds a capability, or bits to it.
    fn add(&mut self, rank: Rank, reply: &ReplyCap, view: &View<'_>) {
        let generation = view.generation(rank);
        let cap = self.caps.entry(rank).or_insert_with(|| Cap {
            id: reply.cap_id,
            issued: Caps::NONE,
            implemented: Caps::NONE,
            told: reply.wanted,
            seq: reply.seq.wrapping_sub(1),
            issue_seq: 0,
            mseq: reply.mseq,
            generation,
            owes_answer: false,
        });
        let is_new = cap.id != reply.cap_id;
        // What the server had taken from its predecessor it need not have told.
        let is_interrupted = is_new && cap.issued.contains(Caps::FILE_SHARED);
        if is_new {
            cap.id = reply.cap_id;
            cap.issued &= Caps::PIN;
            cap.owes_answer = false;
        }
        if is_new || is_after(reply.seq, cap.seq) {
            cap.seq = reply.seq;
            cap.mseq = reply.mseq;
        }
        cap.issue_seq = reply.seq;
        cap.told = reply.wanted;
        cap.issued |= reply.caps;
        cap.implemented |= reply.caps;
        let newer = match self.auth.and_then(|auth| self.caps.get(&auth)) {
            Some(auth) => !is_after(auth.mseq, reply.mseq),
            None => true,
        };
        if reply.is_auth && newer {
            self.auth = Some(rank);
        }
        if is_interrupted {
            self.forget_names();
        }
    }
}
