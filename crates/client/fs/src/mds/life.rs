//! The life of sessions: opened, renewed, ended; and what is done from time to time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use loligo_wire::message::Msg;
use loligo_wire::message::mds::{ClientMetrics, ClientSession};
use loligo_wire::{Caps, Rank};
use tokio::time::{Interval, MissedTickBehavior};

use super::names::SurplusNames;
use crate::core::Core;
use crate::error::Error;
use crate::inode::Inode;
use crate::life::HeldNow;
use crate::session::{Ended, Event, Phase, Session};
use crate::sink::Invalidation;

/// How often what is due is looked for (`client_tick_interval`).
const TICK: Duration = Duration::from_secs(1);
/// How long apart a crowd of inodes is looked through: all of them may be in use.
const CROWD_PAUSE: Duration = Duration::from_millis(20);
/// How long changed attributes may stay here while a file is open.
const DIRTY_TICKS: u32 = 5;
/// How long after a server has forgotten a session the map may take to name its successor.
const SUCCESSOR_MS: u64 = 20_000;
/// The same for a rank that was taken away: its server has ended its sessions before.
const GONE_MS: u64 = 1_000;
/// Seconds for which a renewal holds, if the map does not say.
const SESSION_TIMEOUT: u32 = 60;

impl Core {
    /// Runs until the mount is gone.
    pub(crate) async fn keep(core: Weak<Self>) {
        let (mut ticks, mut surplus) = (0_u32, SurplusNames::default());
        let mut timer = tokio::time::interval(TICK);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_crowded = match core.upgrade() {
                Some(core) => core.next_chore(&mut timer).await,
                None => return,
            };
            let Some(core) = core.upgrade().filter(|core| !core.has_ended()) else { return };
            if is_crowded {
                core.trim_to_size();
                core.trim_names(&mut surplus);
                drop(core);
                tokio::time::sleep(CROWD_PAUSE).await;
                continue;
            }
            core.inodes.tick();
            core.realms.sweep(|| core.inodes.all().iter().map(|inode| inode.known().realm).collect());
            ticks = ticks.wrapping_add(1);
            core.give_up_forgotten();
            core.give_back_unused();
            core.report_metrics();
            if ticks.is_multiple_of(DIRTY_TICKS) {
                core.flush_all();
                core.trim_to_size();
            }
            core.trim_names(&mut surplus);
            core.all_sessions().iter().for_each(|session| session.send_releases());
        }
    }

    /// Waits for the next tick; returns `true` if there are too many inodes before.
    async fn next_chore(&self, timer: &mut Interval) -> bool {
        tokio::select! {
            _ = timer.tick() => false,
            () = self.inodes.crowded.notified() => true,
        }
    }

    /// Renews the sessions until the mount is gone: a task of its own, which nothing else of the mount
    /// delays.
    pub(crate) async fn keep_renewed(core: Weak<Self>) {
        loop {
            tokio::time::sleep(TICK).await;
            let Some(core) = core.upgrade() else { return };
            if core.has_ended() {
                return;
            }
            core.renew_what_is_due();
        }
    }

    pub(super) fn timeout_ms(&self) -> u64 {
        let timeout = self.mds_map().map_or(SESSION_TIMEOUT, |map| map.session_timeout_s);
        u64::from(timeout) * 1000
    }

    /// Gives sessions up that a server has forgotten, unless it has restarted: then its successor asks for
    /// what this client had.
    fn give_up_forgotten(&self) {
        let (now, map) = (self.now_ms(), self.mds_map());
        for session in self.all_sessions() {
            let forgotten = session.state().forgotten_ms;
            let is_gone = map.as_ref().is_some_and(|map| !map.in_ranks.contains(&session.rank));
            let patience = if is_gone { GONE_MS } else { SUCCESSOR_MS };
            if forgotten.is_some_and(|since| now.saturating_sub(since) >= patience) {
                self.session_ended(&session, Ended::Lost);
            }
        }
    }

    /// Tells the server that collects them what this client has done, if it wants to know.
    fn report_metrics(&self) {
        let Some(session) = self.all_sessions().into_iter().next() else { return };
        let wanted = {
            let state = session.state();
            if state.phase != Phase::Open || state.metrics.is_empty() {
                return;
            }
            state.metrics.clone()
        };
        let metrics = self.metrics.report(self.held()).into_iter();
        let metrics = metrics.filter(|metric| wanted.contains(metric.kind())).collect();
        session.send(Msg::new(&ClientMetrics { metrics }));
    }

    /// Counts what is kept.
    fn held(&self) -> HeldNow {
        let mut held = HeldNow::default();
        for inode in self.inodes.all() {
            let known = inode.known();
            held.inodes += 1;
            held.caps += u64::from(known.caps.auth().is_some());
            held.open += u64::from(known.caps.wanted().intersects(Caps::FILE_RD | Caps::FILE_WR));
            held.pinned += u64::from(!known.caps.is_idle());
        }
        held.names = self.inodes.names() as u64;
        held
    }

    /// Gives back what was not used for a while.
    fn give_back_unused(&self) {
        for inode in self.inodes.all() {
            if inode.data.is_resting() {
                self.event(&inode, |known, clock| known.with_caps(clock, |caps, view| caps.tick(view)));
            }
            // What has no name any more keeps its room as long as a client has a capability.
            let is_removed = {
                let known = inode.known();
                known.is_removed && known.caps.is_idle()
            };
            if is_removed {
                self.forget(&inode);
            }
        }
    }

    /// Renews the sessions whose last renewal is a third of its time old.
    fn renew_what_is_due(&self) {
        let (now, every) = (self.now_ms(), self.timeout_ms() / 3);
        for session in self.all_sessions() {
            let due = {
                let state = session.state();
                let is_old = state.asked_ms.is_none_or(|asked| now.saturating_sub(asked) >= every);
                state.phase == Phase::Open && is_old
            };
            if due {
                session.renew(now);
            }
        }
    }

    /// The server has opened a session, or tells its features again.
    pub(super) fn session_opened(&self, session: &Session, msg: &ClientSession) {
        {
            let mut state = session.state();
            state.features = msg.features.clone();
            state.metrics = msg.metric_spec.clone();
        }
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
                let is_of_it = inode.known().is_of(session.rank);
                if is_of_it {
                    self.look(&inode);
                    inode.changed.notify_waiters();
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
            Self::note_lost(flight);
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
        self.invalidate(Invalidation::Everything);
    }

    /// Forgets the capabilities that a server granted. Changes that it did not acknowledge are lost: the
    /// next fsync or close of the file says so.
    fn drop_caps_of(&self, rank: Rank) {
        for inode in self.inodes.all() {
            if !inode.known().is_of(rank) {
                continue;
            }
            self.event(&inode, |known, clock| {
                let was_auth = known.caps.auth() == Some(rank);
                known.with_caps(clock, |caps, view| caps.lost(rank, view));
                known.trusts.remove(&rank);
                if was_auth {
                    known.locks.lose();
                    known.snaps.lost();
                }
                known.forget_names();
            });
            inode.changed.notify_waiters();
        }
    }

    /// Sends the changed attributes of all files.
    pub(crate) fn flush_all(&self) {
        for inode in self.inodes.all() {
            let is_dirty = !inode.known().caps.dirty().is_empty();
            if is_dirty {
                self.flush(&inode);
            }
        }
    }

    /// Forgets inodes that nobody uses, if there are many.
    fn trim_to_size(&self) {
        let surplus = self.inodes.len().saturating_sub(self.options.inodes_max);
        if surplus > 0 {
            // Some more, so that the next one does not begin at once.
            let surplus = surplus + self.options.inodes_max / 16;
            self.forget_oldest(self.inodes.all(), surplus);
            self.all_sessions().iter().for_each(|session| session.send_releases());
        }
    }

    /// Gives capabilities back until a server has granted no more than `max`.
    pub(super) fn trim(&self, session: &Session, max: usize) {
        let granted = |inode: &Arc<Inode>| inode.known().is_of(session.rank);
        let held: Vec<_> = self.inodes.all().into_iter().filter(granted).collect();
        let surplus = held.len().saturating_sub(max);
        let left = self.forget_oldest(held, surplus);
        session.send_releases();
        if left > 0
            && let Some(sink) = self.sink.get()
        {
            // What is left is in use above.
            sink.trim();
        }
    }

    /// Forgets so many inodes, those first that were used longest ago. Returns how many more are in use.
    fn forget_oldest(&self, mut inodes: Vec<Arc<Inode>>, surplus: usize) -> usize {
        if surplus == 0 {
            return 0;
        }
        inodes.sort_by_cached_key(|inode| inode.used());
        let mut left = surplus;
        for inode in inodes {
            left -= usize::from(self.forget(&inode));
            if left == 0 {
                break;
            }
        }
        left
    }

    /// Forgets an inode that nobody uses, and gives its capabilities back.
    pub(super) fn forget(&self, inode: &Arc<Inode>) -> bool {
        // The table and the caller have it.
        let is_unused = Arc::strong_count(inode) <= 2;
        let (is_released, is_leaving) = self.event(inode, |known, _| {
            let is_released = is_unused && known.snaps.is_empty() && known.caps.release();
            if is_released {
                // It may be in use again by now, and stay.
                known.forget_names();
            }
            // Cached data goes first; the rest follows then.
            known.is_leaving = is_unused && !is_released && known.caps.is_idle();
            (is_released, known.is_leaving)
        });
        if !is_released {
            return is_leaving;
        }
        self.inodes.remove_unused(inode);
        let found_in = inode.known().found_in.take();
        if let Some((dir, name)) = found_in
            && let Some(dir) = self.inodes.get(dir)
        {
            dir.known().forget_these(&[(0, name, inode.id)]);
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
        }
        self.clear_sessions();
        // Calls that wait for a capability or a server end.
        self.wake_all();
        self.inodes.clear();
        self.standing.send_modify(|_| ());
    }
}
