//! The life of sessions: opened, renewed, ended; and what is done from time to time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use loligo_rados::Errno;
use loligo_wire::message::mds::{CapRelease, ClientSession};
use loligo_wire::{Caps, Rank};

use crate::core::Core;
use crate::error::Error;
use crate::inode::Inode;
use crate::session::{Ended, Event, Phase, Session};

/// How often what is due is looked for (`client_tick_interval`).
const TICK: Duration = Duration::from_secs(1);
/// How long changed attributes may stay here while a file is open.
const DIRTY_TICKS: u32 = 5;
/// Inodes kept at most (`client_cache_size`).
const INODES_MAX: usize = 16_384;
/// How long after a server has forgotten a session the map may take to name its successor.
const SUCCESSOR_MS: u64 = 20_000;
/// Seconds for which a renewal holds, if the map does not say.
const SESSION_TIMEOUT: u32 = 60;

impl Core {
    /// Runs until the mount is gone.
    pub(crate) async fn keep(core: Weak<Self>) {
        let mut ticks = 0_u32;
        loop {
            tokio::time::sleep(TICK).await;
            let Some(core) = core.upgrade() else { return };
            if core.has_ended() {
                return;
            }
            ticks = ticks.wrapping_add(1);
            core.give_up_forgotten();
            core.renew_what_is_due();
            if ticks.is_multiple_of(DIRTY_TICKS) {
                core.flush_all();
                core.trim_to_size();
            }
            core.all_sessions().iter().for_each(|session| session.send_releases());
        }
    }

    pub(super) fn timeout_ms(&self) -> u64 {
        let timeout = self.mds_map().map_or(SESSION_TIMEOUT, |map| map.session_timeout_s);
        u64::from(timeout) * 1000
    }

    /// Gives sessions up that a server has forgotten, unless it has restarted: then its successor asks for
    /// what this client had.
    fn give_up_forgotten(&self) {
        let now = self.now_ms();
        let is_blocked = self.rados.is_blocklisted();
        for session in self.all_sessions() {
            let forgotten = session.state().forgotten_ms;
            if forgotten.is_some_and(|since| is_blocked || now - since >= SUCCESSOR_MS) {
                self.session_ended(&session, Ended::Lost);
            }
        }
    }

    /// Renews the sessions whose last renewal is a third of its time old.
    fn renew_what_is_due(&self) {
        let (now, every) = (self.now_ms(), self.timeout_ms() / 3);
        for session in self.all_sessions() {
            let due = {
                let state = session.state();
                state.phase == Phase::Open && state.asked_ms.is_none_or(|asked| now - asked >= every)
            };
            if due {
                session.renew(now);
            }
        }
    }

    /// The server has opened a session, or tells its features again.
    pub(super) fn session_opened(&self, session: &Session, msg: &ClientSession) {
        session.state().features = msg.features.clone();
        // A server that restarts says so before it serves.
        if session.phase() == Phase::Opening {
            let now = self.now_ms();
            // What is granted before the first renewal holds as long as the session.
            session.trust.extend(now + self.timeout_ms());
            session.set_phase(Phase::Open);
            session.renew(now);
        }
    }

    /// The server has renewed the capabilities. Revokes that came while they could not be relied on are
    /// answered now, if they were not.
    pub(super) fn session_renewed(&self, session: &Session, seq: u64) {
        if session.renewed(seq, self.timeout_ms()) {
            for inode in self.inodes.all() {
                let is_of_it = inode.known().caps.of(session.rank).is_some();
                if is_of_it {
                    inode.changed.notify_waiters();
                    self.send_due(&inode, false);
                }
            }
        }
    }

    /// A session has ended: requests without a reply are tried elsewhere, those that were not durable are
    /// lost, and so are the capabilities.
    pub(crate) fn session_ended(&self, session: &Session, why: Ended) {
        if !session.end(why.clone()) {
            return;
        }
        let (pending, unconfirmed) = {
            let mut state = session.state();
            (std::mem::take(&mut state.pending), std::mem::take(&mut state.unconfirmed))
        };
        for flight in unconfirmed.values() {
            Self::note_lost(&flight.request);
        }
        for (_, mut flight) in pending {
            flight.tell(match &why {
                Ended::Closed => Event::Failed(Error::Unmounted),
                Ended::Rejected(why) => {
                    Event::Failed(Error::Rejected { rank: session.rank.0, why: why.clone() })
                }
                Ended::Lost => Event::Again,
                Ended::Broken(what, source) => {
                    Event::Failed(Error::Decode { what, rank: session.rank.0, source: *source })
                }
            });
        }
        self.drop_caps_of(session.rank);
        if let Some(conn) = session.conn() {
            conn.mark_down();
        }
    }

    /// Forgets the capabilities that a server granted. Changes that it did not acknowledge are lost: the
    /// next fsync or close of the file says so.
    fn drop_caps_of(&self, rank: Rank) {
        for inode in self.inodes.all() {
            {
                let mut known = inode.known();
                let was_auth = known.caps.auth() == Some(rank);
                if known.caps.remove(rank).is_none() {
                    continue;
                }
                if was_auth && known.caps.drop_dirty() {
                    known.failed.get_or_insert(Errno::EIO);
                }
                known.asked_max = 0;
                known.entries.clear();
            }
            inode.changed.notify_waiters();
        }
    }

    /// Sends the changed attributes of all files.
    pub(crate) fn flush_all(&self) {
        for inode in self.inodes.all() {
            let is_dirty = !inode.known().caps.dirty().is_empty();
            if is_dirty {
                self.send_due(&inode, true);
            }
        }
    }

    /// Forgets inodes that nobody uses, if there are many.
    fn trim_to_size(&self) {
        let mut surplus = self.inodes.len().saturating_sub(INODES_MAX);
        if surplus == 0 {
            return;
        }
        for inode in self.inodes.all() {
            if surplus == 0 {
                return;
            }
            surplus -= usize::from(self.forget(&inode));
        }
    }

    /// Gives capabilities back until a server has granted no more than `max`.
    pub(super) fn trim(&self, session: &Session, max: usize) {
        let granted = |inode: &Arc<Inode>| inode.known().caps.of(session.rank).is_some();
        let mut held: Vec<_> = self.inodes.all().into_iter().filter(granted).collect();
        let mut surplus = held.len().saturating_sub(max);
        while surplus > 0
            && let Some(inode) = held.pop()
        {
            surplus -= usize::from(self.forget(&inode));
        }
        session.send_releases();
    }

    /// Forgets an inode that nobody uses, and gives its capabilities back.
    fn forget(&self, inode: &Arc<Inode>) -> bool {
        let is_idle = inode.known().caps.is_idle();
        if !is_idle || !self.inodes.remove_unused(inode) {
            return false;
        }
        let (caps, found_in) = {
            let mut known = inode.known();
            (known.caps.take_all(), known.found_in.take())
        };
        if let Some((dir, name)) = found_in
            && let Some(dir) = self.inodes.get(dir)
        {
            dir.known().entries.remove(&name);
        }
        for (rank, cap) in caps {
            let Some(session) = self.session_of(rank) else { continue };
            session.release(CapRelease {
                ino: inode.id.ino,
                cap_id: cap.id,
                mseq: cap.mseq,
                issue_seq: cap.issue_seq,
            });
        }
        true
    }

    /// Closes all sessions and waits until the servers have said so, or a time is over.
    pub(crate) async fn close_sessions(&self, patience: Duration) {
        for session in self.all_sessions() {
            session.send_releases();
            session.ask_to_close();
        }
        let all = async {
            for session in self.all_sessions() {
                loop {
                    let changed = session.changed.notified();
                    tokio::pin!(changed);
                    changed.as_mut().enable();
                    if session.ended().is_some() || session.phase() == Phase::Opening {
                        break;
                    }
                    changed.await;
                }
            }
        };
        // A server that does not answer ends the session by itself after a while.
        let _ = tokio::time::timeout(patience, all).await;
        for session in self.all_sessions() {
            session.end(Ended::Closed);
            if let Some(conn) = session.conn() {
                conn.mark_down();
            }
        }
        self.sessions.write().clear();
        self.inodes.clear();
    }

    /// Returns what an inode's capabilities let this client rely on.
    pub(crate) fn issued(&self, inode: &Inode) -> Caps {
        inode.known().issued(self.now_ms())
    }
}
