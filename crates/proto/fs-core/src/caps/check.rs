//! The decision what to tell the metadata servers, made anew after each event.

use loligo_types::{Caps, Rank, Tid};

use super::cap::View;
use super::effect::{Effect, Update};
use super::inode::InodeCaps;
use super::uses::{Buffer, Cache};

/// The parts of a message that carries changed attributes.
#[derive(Clone, Copy, Default)]
struct Flush {
    parts: Caps,
    tid: Option<Tid>,
}

impl InodeCaps {
    /// Looks at the state again, and tells the metadata servers what has changed. The owner calls this for
    /// inodes with [`InodeCaps::revoking`] bits after each renewal of a session.
    pub fn check(&mut self, view: &View<'_>) {
        self.look(view, false);
    }

    /// As [`InodeCaps::check`], and gives back what is not wanted.
    pub(super) fn give_back(&mut self, view: &View<'_>) {
        self.look(view, true);
    }

    fn look(&mut self, view: &View<'_>, gives_back: bool) {
        let ranks: Vec<Rank> = self.caps.keys().copied().collect();
        for rank in &ranks {
            self.refresh(*rank, view);
        }
        self.let_go();
        let flush = self.begin_flush(view, gives_back);
        for rank in ranks {
            let flush = if self.auth == Some(rank) { flush } else { Flush::default() };
            self.tell(rank, flush, gives_back);
        }
    }

    /// Begins to drop the cache, to write the buffer and to forget names, where the capability for it is
    /// gone.
    fn let_go(&mut self) {
        let issued = self.issued();
        if matches!(self.cache, Cache::Filled | Cache::Void)
            && (!issued.contains(Caps::FILE_CACHE) || self.cache == Cache::Void)
        {
            self.void_cache();
        }
        if self.buffer == Buffer::Dirty && (!issued.contains(Caps::FILE_BUFFER) || self.data_flush_asked) {
            self.flush_data();
        }
        if !issued.contains(Caps::FILE_SHARED) {
            self.forget_names();
        }
    }

    /// Decides whether changed attributes are sent now: if they are being revoked, if the owner asked, or
    /// if they have waited long enough. File data is sent first.
    fn begin_flush(&mut self, view: &View<'_>, gives_back: bool) -> Flush {
        let Some(cap) = self.auth.and_then(|rank| self.caps.get(&rank)) else { return Flush::default() };
        let is_due = gives_back || self.flush_asked || cap.revoking().intersects(self.dirty);
        if self.dirty.is_empty() {
            self.flush_asked = false;
            return Flush::default();
        }
        if !is_due || self.buffer.is_flushing() || self.data_flush_asked {
            return Flush::default();
        }
        self.flush_asked = false;
        let flush = Flush { parts: self.dirty, tid: Some((view.flush_tid)()) };
        self.flushing.extend(flush.tid.map(|tid| (tid, flush.parts)));
        self.dirty = Caps::NONE;
        flush
    }

    /// What of one rank's capability is in use.
    pub(super) fn busy(&self, rank: Rank) -> Caps {
        if self.auth == Some(rank) {
            return self.used() | self.unacknowledged();
        }
        let auth = self.auth.and_then(|auth| self.issued_by(auth)).unwrap_or(Caps::NONE);
        self.used() - auth
    }

    /// Sends an update for one rank's capability, if there is something to say.
    fn tell(&mut self, rank: Rank, flush: Flush, gives_back: bool) {
        let busy = self.busy(rank);
        let (wanted, is_needed) = (self.wanted(), self.is_needed());
        let is_auth = self.auth == Some(rank);
        let Some(cap) = self.caps.get_mut(&rank) else { return };
        let mut speaks = flush.tid.is_some();
        let mut returned = cap.revoking();
        let is_revoke = !returned.is_empty() || cap.owes_answer;
        let answers = is_revoke && !returned.intersects(busy);
        if answers {
            cap.implemented = cap.issued;
            cap.owes_answer = false;
            speaks = true;
        }
        let mut kept = wanted | busy | Caps::PIN | Caps::ANY_SHARED;
        if kept.contains(Caps::FILE_CACHE) {
            kept |= Caps::FILE_RD;
        }
        let mut spare = cap.issued - kept;
        // Another client wants the inode. With what the server asks for goes what lets this client change it:
        // the server would ask for one part of that after the other.
        if !gives_back {
            spare = if answers { spare & Caps::ANY_WR } else { Caps::NONE };
        }
        // While a file is open, what else was issued with it is kept: it is asked for again too often.
        if !spare.is_empty() && !is_needed {
            cap.issued -= spare;
            cap.implemented &= cap.issued | busy;
            returned |= spare;
            speaks = true;
        }
        // The server need not know that what is issued anyway is also wanted.
        let asks_more = !(wanted - (cap.told | cap.issued)).is_empty();
        let wants_less = gives_back && !(cap.told - wanted).is_empty();
        let asks_size = is_auth && self.max_size_wanted > self.max_size_asked;
        if !(speaks || asks_more || wants_less || asks_size) {
            return;
        }
        let yields = gives_back || answers && !is_needed;
        cap.told = if yields { wanted } else { cap.told | wanted };
        if asks_size {
            self.max_size_asked = self.max_size_wanted;
        }
        self.effects.push(Effect::SendUpdate(Update {
            rank,
            cap_id: cap.id,
            seq: cap.seq,
            issue_seq: cap.issue_seq,
            mseq: cap.mseq,
            caps: cap.implemented,
            wanted: cap.told,
            dirty: flush.parts,
            flush_tid: flush.tid,
            // Who wants what is returned waits for the server's log, too: the server notes there that this
            // client writes no more, and by itself writes its log every few seconds.
            is_urgent: is_revoke && returned.intersects(flush.parts | Caps::ANY_FILE_WR),
            max_size: if asks_size { self.max_size_wanted } else { 0 },
        }));
    }

    /// Sends every flush that is not acknowledged again, after the authority has moved or restarted.
    pub(super) fn flush_again(&mut self) {
        let Some((rank, cap)) = self.auth.and_then(|rank| Some((rank, self.caps.get(&rank)?))) else {
            return;
        };
        for (tid, parts) in &self.flushing {
            self.effects.push(Effect::SendUpdate(Update {
                rank,
                cap_id: cap.id,
                seq: cap.seq,
                issue_seq: cap.issue_seq,
                mseq: cap.mseq,
                caps: cap.implemented,
                wanted: cap.told,
                dirty: *parts,
                flush_tid: Some(*tid),
                is_urgent: true,
                max_size: 0,
            }));
        }
    }
}
