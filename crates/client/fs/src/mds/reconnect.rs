//! A server's restart: its successor is told what this client had, and gets the requests again.

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_maps::{MdsMap, MdsState};
use loligo_wire::message::Msg;
use loligo_wire::message::mds::{CapReconnect, ClientReconnect};
use loligo_wire::{Ino, Name, SnapId};

use crate::core::Core;
use crate::inode::Inode;
use crate::session::{Ended, Phase, Session};

/// The states from which on a rank's new server hears its clients.
const TAKEN_OVER: [MdsState; 4] =
    [MdsState::RECONNECT, MdsState::REJOIN, MdsState::CLIENTREPLAY, MdsState::ACTIVE];

impl Core {
    /// Follows the servers of a new map: a rank that another server has taken over is reconnected with,
    /// and gets its requests when it serves.
    pub(super) fn follow_servers(&self, map: &MdsMap) {
        for session in self.all_sessions() {
            let Some(info) = map.server(session.rank) else { continue };
            if info.gid != session.gid {
                if session.phase() == Phase::Opening {
                    // Nothing was agreed on with the server that is gone.
                    self.session_ended(&session, Ended::Lost);
                } else if TAKEN_OVER.contains(&info.state) {
                    self.reconnect(&session, info);
                }
            } else if info.state == MdsState::ACTIVE && session.phase() == Phase::Reconnecting {
                self.resume(&session);
            }
        }
    }

    /// Opens a session with a rank's new server in place of the one with the old server.
    fn reconnect(&self, old: &Arc<Session>, info: &loligo_maps::MdsInfo) {
        if let Some(conn) = old.conn() {
            conn.mark_down();
        }
        let addr = info.addrs.msgr2().copied().unwrap_or_default();
        let new = Session::new(old.rank, info.gid, addr, Phase::Reconnecting);
        let (pending, unconfirmed, features) = {
            let mut state = old.state();
            let requests = (std::mem::take(&mut state.pending), std::mem::take(&mut state.unconfirmed));
            (requests.0, requests.1, state.features.clone())
        };
        {
            let mut state = new.state();
            (state.pending, state.unconfirmed, state.features) = (pending, unconfirmed, features);
        }
        self.sessions.write().insert(new.rank, Arc::clone(&new));
        old.end(Ended::Lost);
        self.connect(&new);
        self.replay(&new);
        let caps = self.what_it_has(&new);
        new.send(Msg::new(&ClientReconnect { caps, realms: Vec::new(), more: Some(false) }));
        if info.state == MdsState::ACTIVE {
            self.resume(&new);
        }
    }

    /// Sends the requests that the old server had carried out and not made durable, and those that it may
    /// have carried out, before the new server decides what is left to do.
    fn replay(&self, session: &Session) {
        let mut state = session.state();
        let mut all: Vec<_> = state.unconfirmed.keys().map(|tid| (*tid, true)).collect();
        for (tid, flight) in &mut state.pending {
            flight.retries += 1;
            all.push((*tid, false));
        }
        all.sort_unstable();
        for (tid, replay) in all {
            let flight = if replay { state.unconfirmed.get(&tid) } else { state.pending.get(&tid) };
            if let Some(flight) = flight {
                session.queue(self.packed(tid, flight, &state, replay));
            }
        }
        drop(state);
        session.run();
    }

    /// Returns the capabilities that this client had from a rank's old server. From now on they count in
    /// the new session, with sequence numbers that begin anew.
    fn what_it_has(&self, session: &Session) -> BTreeMap<Ino, CapReconnect> {
        let mut all = BTreeMap::new();
        for inode in self.inodes.all() {
            let mut known = inode.known();
            let wanted = known.caps.wanted();
            known.caps.flush_again();
            let realm = known.realm;
            let (path_base, path) = place(&inode, known.found_in.as_ref());
            known.entries.clear();
            let Some(cap) = known.caps.of_mut(session.rank) else { continue };
            let issued = cap.begin_anew(&session.trust);
            let had = CapReconnect {
                path,
                cap_id: cap.id,
                wanted,
                issued,
                realm,
                path_base,
                snap_follows: SnapId(0),
                ..CapReconnect::default()
            };
            all.insert(inode.id.ino, had);
        }
        all
    }

    /// The new server serves: the session goes on.
    fn resume(&self, session: &Session) {
        let now = self.now_ms();
        session.trust.extend(now + self.timeout_ms());
        session.set_phase(Phase::Open);
        session.renew(now);
        for inode in self.inodes.all() {
            let is_of_it = inode.known().caps.of(session.rank).is_some();
            if is_of_it {
                self.send_due(&inode, true);
                inode.changed.notify_waiters();
            }
        }
    }
}

/// Returns where an inode is found: in a directory, or by its number alone.
fn place(inode: &Inode, found_in: Option<&(crate::inode::InodeId, Vec<u8>)>) -> (Ino, Name) {
    match found_in {
        Some((dir, name)) => (dir.ino, Name::from(name)),
        None => (inode.id.ino, Name::default()),
    }
}
