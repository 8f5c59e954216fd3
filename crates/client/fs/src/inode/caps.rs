//! One inode's capabilities: what the metadata servers granted, what is in use, what must be given back.
//!
//! Pure state: no lock, no clock, nothing is sent. [`CapSet`] is changed by the servers' messages and by
//! operations that begin and end; [`CapSet::due`] tells what to send.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use loligo_wire::{CapId, Caps, Rank};

/// What a reader asks for. Data is not cached, so Fc is not asked for.
const WANTED_TO_READ: Caps = Caps::PIN.union(Caps::FILE_SHARED).union(Caps::FILE_RD);
/// What a writer asks for.
const WANTED_TO_WRITE: Caps = Caps::PIN.union(Caps::FILE_EXCL).union(Caps::FILE_WR);

/// Until when, and in which generation, a session's capabilities may be relied on.
///
/// The data path looks at it without a lock.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    generation: AtomicU32,
    /// Milliseconds of the client's clock.
    until: AtomicU64,
}

impl Trust {
    /// Returns `true` if capabilities of a generation may be relied on at a time.
    pub(crate) fn holds(&self, generation: u32, now_ms: u64) -> bool {
        generation == self.generation() && now_ms < self.until.load(Ordering::Acquire)
    }

    /// Returns the generation of capabilities that are granted now.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Extends the time, after a renewal.
    pub(crate) fn extend(&self, until_ms: u64) {
        self.until.fetch_max(until_ms, Ordering::AcqRel);
    }

    /// Ends the generation: nothing that was granted so far may be relied on.
    pub(crate) fn end_generation(&self) {
        self.until.store(0, Ordering::Release);
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}

/// The capability that one metadata server granted on an inode.
#[derive(Clone, Debug)]
pub(crate) struct Cap {
    pub(crate) id: CapId,
    /// What the server lets this client do.
    pub(crate) issued: Caps,
    /// What this client may still be doing: what is issued, and what is being taken back.
    pub(crate) implemented: Caps,
    /// What the server knows this client to want.
    pub(crate) wanted: Caps,
    pub(crate) seq: u32,
    pub(crate) issue_seq: u32,
    pub(crate) mseq: u32,
    generation: u32,
    trust: Arc<Trust>,
}

impl Cap {
    /// Counts the capability in a new session with the server's successor. Returns what is claimed there.
    pub(crate) fn begin_anew(&mut self, trust: &Arc<Trust>) -> Caps {
        (self.seq, self.issue_seq, self.mseq) = (0, 0, 0);
        self.issued = self.implemented;
        (self.generation, self.trust) = (trust.generation(), Arc::clone(trust));
        self.issued
    }
}

/// What a message to a server about a capability says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// The server.
    pub(crate) rank: Rank,
    /// What this client keeps.
    pub(crate) keeps: Caps,
    /// What it wants.
    pub(crate) wants: Caps,
    /// The changed attributes that the message carries.
    pub(crate) flushes: Caps,
    /// The number of the flush, if there is one.
    pub(crate) flush_tid: u64,
}

/// All capabilities on one inode, and their use.
#[derive(Debug, Default)]
pub(crate) struct CapSet {
    caps: BTreeMap<Rank, Cap>,
    auth: Option<Rank>,
    /// Reads and writes in progress.
    reads: u32,
    writes: u32,
    /// Open files, by what they may do.
    open_to_read: u32,
    open_to_write: u32,
    /// Changed attributes that no server knows of, and those that were sent and are not acknowledged.
    dirty: Caps,
    flushing: BTreeMap<u64, Caps>,
}

/// A server's grant, as its message or its reply says it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) rank: Rank,
    pub(crate) id: CapId,
    pub(crate) caps: Caps,
    pub(crate) wanted: Caps,
    pub(crate) seq: u32,
    pub(crate) mseq: u32,
    pub(crate) is_auth: bool,
}

impl CapSet {
    /// Adds what a reply grants. Replies grant and never take. Returns the bits that are new.
    pub(crate) fn add(&mut self, grant: Grant, trust: &Arc<Trust>) -> Caps {
        let generation = trust.generation();
        let before = match self.caps.get_mut(&grant.rank) {
            Some(cap) if cap.id == grant.id => {
                // A capability of an ended generation counts as a pin only.
                let before = if cap.generation == generation { cap.issued } else { Caps::PIN };
                if cap.generation != generation {
                    (cap.issued, cap.implemented) = (Caps::PIN, cap.implemented & Caps::PIN);
                }
                cap.issued |= grant.caps;
                cap.implemented |= grant.caps;
                cap.wanted |= grant.wanted;
                cap.seq = grant.seq;
                cap.issue_seq = grant.seq;
                cap.mseq = cap.mseq.max(grant.mseq);
                (cap.generation, cap.trust) = (generation, Arc::clone(trust));
                before
            }
            _ => {
                let cap = Cap {
                    id: grant.id,
                    issued: grant.caps,
                    implemented: grant.caps,
                    wanted: grant.wanted,
                    seq: grant.seq,
                    issue_seq: grant.seq,
                    mseq: grant.mseq,
                    generation,
                    trust: Arc::clone(trust),
                };
                self.caps.insert(grant.rank, cap);
                Caps::NONE
            }
        };
        if grant.is_auth {
            self.auth = Some(grant.rank);
        }
        self.auth.get_or_insert(grant.rank);
        grant.caps - before
    }

    /// Applies a server's grant or revoke: from now on `caps` are issued. Returns what was not issued
    /// before, and what is taken; `None` if there is no such capability.
    pub(crate) fn set_issued(
        &mut self,
        rank: Rank,
        caps: Caps,
        wanted: Caps,
        seq: u32,
    ) -> Option<(Caps, Caps)> {
        let cap = self.caps.get_mut(&rank)?;
        let generation = cap.trust.generation();
        if cap.generation != generation {
            // The server speaks of what this client gave up with the generation: only what the message
            // grants counts.
            (cap.issued, cap.generation) = (Caps::PIN, generation);
        }
        let (new, taken) = (caps - cap.issued, cap.implemented - caps);
        cap.issued = caps;
        cap.implemented |= caps;
        cap.wanted = wanted;
        cap.seq = seq;
        Some((new, taken))
    }

    /// Makes a server the one that decides, after the inode moved to it.
    pub(crate) fn set_auth(&mut self, rank: Rank) {
        self.auth = Some(rank);
    }

    /// Removes a server's capability.
    pub(crate) fn remove(&mut self, rank: Rank) -> Option<Cap> {
        let cap = self.caps.remove(&rank);
        if self.auth == Some(rank) {
            self.auth = self.caps.keys().next().copied();
        }
        cap
    }

    /// Returns a server's capability.
    pub(crate) fn of(&self, rank: Rank) -> Option<&Cap> {
        self.caps.get(&rank)
    }

    /// Returns a server's capability, to change its numbers.
    pub(crate) fn of_mut(&mut self, rank: Rank) -> Option<&mut Cap> {
        self.caps.get_mut(&rank)
    }

    /// Returns the server that decides about the inode, of those that granted a capability.
    pub(crate) fn auth(&self) -> Option<Rank> {
        self.auth
    }

    /// Returns what may be relied on now.
    pub(crate) fn issued(&self, now_ms: u64) -> Caps {
        let valid = self.caps.values().filter(|cap| cap.trust.holds(cap.generation, now_ms));
        valid.fold(Caps::NONE, |all, cap| all | cap.issued)
    }

    /// Returns what the operations in progress use.
    pub(crate) fn used(&self) -> Caps {
        let mut used = Caps::NONE;
        if self.reads > 0 {
            used |= Caps::FILE_RD;
        }
        if self.writes > 0 {
            used |= Caps::FILE_WR;
        }
        used
    }

    /// Returns what the open files want.
    pub(crate) fn wanted(&self) -> Caps {
        let mut wanted = Caps::NONE;
        if self.open_to_read > 0 {
            wanted |= WANTED_TO_READ;
        }
        if self.open_to_write > 0 {
            wanted |= WANTED_TO_WRITE;
        }
        wanted
    }

    /// Counts a file opened.
    pub(crate) fn opened(&mut self, to_read: bool, to_write: bool) {
        self.open_to_read += u32::from(to_read);
        self.open_to_write += u32::from(to_write);
    }

    /// Counts a file closed.
    pub(crate) fn closed(&mut self, to_read: bool, to_write: bool) {
        self.open_to_read = self.open_to_read.saturating_sub(u32::from(to_read));
        self.open_to_write = self.open_to_write.saturating_sub(u32::from(to_write));
    }

    /// Returns `true` if a file is open.
    pub(crate) fn is_open(&self) -> bool {
        self.open_to_read + self.open_to_write > 0
    }

    /// Begins a read or a write, if what it needs is issued and is not being taken back.
    pub(crate) fn try_begin(&mut self, needs: Caps, now_ms: u64) -> bool {
        if !self.issued(now_ms).contains(needs) {
            return false;
        }
        match needs.contains(Caps::FILE_WR) {
            true => self.writes += 1,
            false => self.reads += 1,
        }
        true
    }

    /// Ends a read or a write. Returns `true` if it was the last of its kind.
    pub(crate) fn end(&mut self, used: Caps) -> bool {
        let count = if used.contains(Caps::FILE_WR) { &mut self.writes } else { &mut self.reads };
        *count = count.saturating_sub(1);
        *count == 0
    }

    /// Notes that attributes have changed here.
    pub(crate) fn mark_dirty(&mut self, what: Caps) {
        self.dirty |= what;
    }

    /// Returns the bits of attributes that changed here and that no server has acknowledged.
    pub(crate) fn unacknowledged(&self) -> Caps {
        self.flushing.values().fold(self.dirty, |all, bits| all | *bits)
    }

    /// Returns the bits of attributes that changed here and were not sent.
    pub(crate) fn dirty(&self) -> Caps {
        self.dirty
    }

    /// Returns the number of the oldest flush that is not acknowledged.
    pub(crate) fn oldest_flush(&self) -> Option<u64> {
        self.flushing.keys().next().copied()
    }

    /// Notes that a server has made the attributes of a flush durable. Later flushes hold for earlier
    /// ones, of the same bits.
    pub(crate) fn flushed(&mut self, tid: u64) {
        self.flushing.remove(&tid);
    }

    /// Makes what was sent and not acknowledged unsent again: the server has forgotten it.
    pub(crate) fn flush_again(&mut self) {
        self.dirty = self.unacknowledged();
        self.flushing.clear();
    }

    /// Drops what changed here and cannot be sent any more. Returns `true` if there was something.
    pub(crate) fn drop_dirty(&mut self) -> bool {
        let had = !self.unacknowledged().is_empty();
        self.dirty = Caps::NONE;
        self.flushing.clear();
        had
    }

    /// Returns what must be sent now: answers to revokes that nothing in use delays any more, changed
    /// wishes, and, if `flush`, changed attributes. With `ask` the server that decides is told in any case.
    /// `next_tid` numbers a flush. The state afterwards is that the messages were sent.
    pub(crate) fn due(&mut self, flush: bool, ask: bool, mut next_tid: impl FnMut() -> u64) -> Vec<Due> {
        let (used, wanted, auth) = (self.used(), self.wanted(), self.auth);
        let mut all = Vec::new();
        for (rank, cap) in &mut self.caps {
            let is_auth = auth == Some(*rank);
            let revoked = cap.implemented - cap.issued;
            let answers = !revoked.is_empty() && (revoked & used).is_empty();
            let still_used = revoked & used;
            let wants = if is_auth { wanted } else { Caps::NONE };
            let wishes = is_auth && !cap.wanted.contains(wants);
            // The exclusive bits that go are those by which the server lets the attributes be changed.
            let goes = !(revoked & (Caps::ANY_FILE_WR | Caps::AUTH_EXCL | Caps::XATTR_EXCL)).is_empty();
            let flushes = match is_auth && (flush || (answers && goes)) {
                true => self.dirty,
                false => Caps::NONE,
            };
            let must_tell = answers || wishes || !flushes.is_empty() || (ask && is_auth);
            if !must_tell {
                continue;
            }
            if answers {
                cap.implemented = cap.issued;
            }
            cap.wanted = if wishes { cap.wanted | wants } else { cap.wanted };
            let flush_tid = if flushes.is_empty() { 0 } else { next_tid() };
            if !flushes.is_empty() {
                self.dirty = Caps::NONE;
                self.flushing.insert(flush_tid, flushes);
            }
            all.push(Due {
                rank: *rank,
                keeps: cap.issued | still_used,
                wants: wants | cap.wanted,
                flushes,
                flush_tid,
            });
        }
        all
    }

    /// Returns what tells the servers that no file is open any more: this client keeps the shared bits
    /// only and wants nothing.
    pub(crate) fn give_up(&mut self, mut next_tid: impl FnMut() -> u64) -> Vec<Due> {
        if self.is_open() || self.reads + self.writes > 0 {
            return Vec::new();
        }
        let (auth, mut all) = (self.auth, Vec::new());
        for (rank, cap) in &mut self.caps {
            let is_auth = auth == Some(*rank);
            let keeps = cap.issued & (Caps::PIN | Caps::ANY_SHARED);
            let flushes = if is_auth { self.dirty } else { Caps::NONE };
            if cap.wanted.is_empty() && keeps == cap.implemented && flushes.is_empty() {
                continue;
            }
            (cap.issued, cap.implemented, cap.wanted) = (keeps, keeps, Caps::NONE);
            let flush_tid = if flushes.is_empty() { 0 } else { next_tid() };
            if !flushes.is_empty() {
                self.dirty = Caps::NONE;
                self.flushing.insert(flush_tid, flushes);
            }
            all.push(Due { rank: *rank, keeps, wants: Caps::NONE, flushes, flush_tid });
        }
        all
    }

    /// Returns `true` if nothing hinders this client from forgetting the inode: no file is open, nothing
    /// is in progress, and the servers know all changes.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_open() && self.reads + self.writes == 0 && self.unacknowledged().is_empty()
    }

    /// Takes all capabilities out, to release them.
    pub(crate) fn take_all(&mut self) -> BTreeMap<Rank, Cap> {
        self.auth = None;
        std::mem::take(&mut self.caps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Caps = Caps::PIN.union(Caps::FILE_SHARED).union(Caps::FILE_RD);
    const ALL: Caps = READ.union(Caps::FILE_WR).union(Caps::FILE_EXCL).union(Caps::AUTH_SHARED);

    fn trust() -> Arc<Trust> {
        let trust = Arc::new(Trust::default());
        trust.extend(1000);
        trust
    }

    fn grant(caps: Caps, seq: u32) -> Grant {
        Grant { rank: Rank(0), id: CapId(7), caps, wanted: Caps::NONE, seq, mseq: 0, is_auth: true }
    }

    fn tids() -> impl FnMut() -> u64 {
        let mut tid = 0;
        move || {
            tid += 1;
            tid
        }
    }

    /// Goal: a revoke is answered when the last operation that uses a bit of it has ended, not before,
    /// and no operation begins meanwhile.
    #[test]
    fn a_revoke_waits_for_what_uses_it() {
        let trust = trust();
        let mut set = CapSet::default();
        assert_eq!(set.add(grant(ALL, 1), &trust), ALL);
        assert!(set.try_begin(Caps::FILE_WR, 0) && set.try_begin(Caps::FILE_RD, 0));
        set.mark_dirty(Caps::FILE_WR);
        let (new, taken) = set.set_issued(Rank(0), READ, Caps::NONE, 2).expect("a capability");
        assert_eq!((new, taken), (Caps::NONE, ALL - READ));
        assert!(set.due(false, false, tids()).is_empty(), "a write is in progress");
        assert!(!set.try_begin(Caps::FILE_WR, 0), "it is being taken back");
        assert!(set.try_begin(Caps::FILE_RD, 0), "this is not");
        assert!(set.end(Caps::FILE_WR));
        let due = set.due(false, false, tids());
        assert_eq!(due.len(), 1);
        assert_eq!((due[0].keeps, due[0].flushes, due[0].flush_tid), (READ, Caps::FILE_WR, 1));
        assert!(set.due(false, false, tids()).is_empty(), "once");
        assert_eq!(set.unacknowledged(), Caps::FILE_WR);
        set.flushed(1);
        assert_eq!(set.unacknowledged(), Caps::NONE);
    }

    #[test]
    fn a_revoke_of_what_is_not_used_is_answered_at_once() {
        let mut set = CapSet::default();
        set.add(grant(ALL, 1), &trust());
        set.set_issued(Rank(0), Caps::PIN, Caps::NONE, 2).expect("a capability");
        let due = set.due(false, false, tids());
        assert_eq!((due.len(), due[0].keeps, due[0].flush_tid), (1, Caps::PIN, 0));
    }

    /// Goal: what was granted before a session grew stale, or longer ago than its renewal holds, is not
    /// relied on, yet a revoke of it is answered.
    #[test]
    fn stale_capabilities_are_not_relied_on_and_given_back() {
        let trust = trust();
        let mut set = CapSet::default();
        set.add(grant(ALL, 1), &trust);
        assert_eq!(set.issued(999), ALL);
        assert_eq!(set.issued(1000), Caps::NONE);
        assert!(!set.try_begin(Caps::FILE_RD, 1000));
        set.set_issued(Rank(0), READ, Caps::NONE, 2).expect("a capability");
        assert_eq!(set.due(false, false, tids()).len(), 1, "answered although nothing is trusted now");
        trust.end_generation();
        trust.extend(5000);
        assert_eq!(set.issued(1500), Caps::NONE, "of an older generation");
        let (new, _) = set.set_issued(Rank(0), READ, Caps::NONE, 3).expect("a capability");
        assert_eq!(new, READ - Caps::PIN, "granted anew");
        assert_eq!(set.issued(1500), READ);
    }

    #[test]
    fn wishes_are_told_once() {
        let mut set = CapSet::default();
        set.add(grant(READ, 1), &trust());
        set.opened(true, true);
        let due = set.due(false, false, tids());
        assert_eq!(due.len(), 1);
        assert!(due[0].wants.contains(Caps::FILE_WR | Caps::FILE_RD));
        assert!(set.due(false, false, tids()).is_empty());
        assert!(set.give_up(tids()).is_empty(), "still open");
        set.closed(true, true);
        let due = set.give_up(tids());
        assert_eq!((due.len(), due[0].wants), (1, Caps::NONE));
        assert_eq!(due[0].keeps, Caps::PIN | Caps::FILE_SHARED);
        assert!(set.is_idle());
    }

    #[test]
    fn replies_add_and_never_take() {
        let trust = trust();
        let mut set = CapSet::default();
        set.add(grant(READ, 1), &trust);
        assert_eq!(set.add(grant(Caps::PIN | Caps::AUTH_SHARED, 2), &trust), Caps::AUTH_SHARED);
        assert_eq!(set.issued(0), READ | Caps::AUTH_SHARED);
        assert_eq!(set.of(Rank(0)).map(|cap| (cap.seq, cap.issue_seq)), Some((2, 2)));
    }

    #[test]
    fn a_forgotten_flush_is_sent_again() {
        let mut set = CapSet::default();
        set.add(grant(ALL, 1), &trust());
        set.mark_dirty(Caps::FILE_WR);
        assert_eq!(set.due(true, false, tids())[0].flushes, Caps::FILE_WR);
        assert_eq!((set.dirty(), set.oldest_flush()), (Caps::NONE, Some(1)));
        set.flush_again();
        assert_eq!(set.due(true, false, || 9)[0].flush_tid, 9);
    }
}
