//! A server's restart: its successor is told what this client had, and gets the requests again.

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_maps::{MdsMap, MdsState};
use loligo_wire::message::Msg;
use loligo_wire::message::mds::{CapReconnect, ClientReconnect};
use loligo_wire::{Ino, Name};

use super::call::Sending;
use crate::core::Core;
use crate::inode::Inode;
use crate::session::{Ended, Phase, Session};

/// The states in which a rank's new server hears what the clients of the old one had.
const HEARS: [MdsState; 3] = [MdsState::RECONNECT, MdsState::REJOIN, MdsState::CLIENTREPLAY];

impl Core {
    /// Follows the servers of a new map: a rank that another server has taken over is reconnected with,
    /// and gets its requests when it serves.
    pub(super) fn follow_servers(&self, map: &MdsMap) {
        for session in self.all_sessions() {
            let Some(info) = map.server(session.rank) else {
                if !map.in_ranks.contains(&session.rank) {
                    // It was taken away, and had handed everything over before. Its last words may still
                    // be on their way.
                    let now = self.now_ms();
                    session.state().forgotten_ms.get_or_insert(now);
                }
                continue;
            };
            self.prepare_moves(map, info);
            if info.gid != session.gid {
                if session.ended().is_some() {
                    // The next request opens another one.
                    continue;
                }
                // Nothing was agreed on with the old server, or the new one knows of nothing: the rank was
                // taken away and is back, or has waited for this client in vain. It would take what it hears
                // of an old session for a fault, and end the new one.
                if session.phase() == Phase::Opening || info.state == MdsState::ACTIVE {
                    self.session_ended(&session, Ended::Lost);
                } else if HEARS.contains(&info.state) {
                    self.reconnect(&session, info);
                }
            } else if info.state == MdsState::ACTIVE && session.phase() == Phase::Reconnecting {
                self.resume(&session);
            }
        }
    }

    /// Opens sessions with the servers to which a server moves directories: they tell of capabilities in
    /// sessions only.
    fn prepare_moves(&self, map: &MdsMap, info: &loligo_maps::MdsInfo) {
        let serves = |info: &&loligo_maps::MdsInfo| info.state == MdsState::ACTIVE;
        for target in info.export_targets.iter().filter_map(|rank| map.server(*rank)).filter(serves) {
            self.session_with(target);
        }
    }

    /// Opens a session with a rank's new server in place of the one with the old server.
    fn reconnect(&self, old: &Arc<Session>, info: &loligo_maps::MdsInfo) {
        if let Some(conn) = old.conn() {
            conn.mark_down();
        }
        let addr = info.addrs.to_dial().copied().unwrap_or_default();
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
        let caps = self.what_it_has(old, &new);
        old.end(Ended::Lost);
        self.connect(&new);
        self.replay(&new);
        new.send(Msg::new(&ClientReconnect { caps, realms: Vec::new(), more: Some(false) }));
        // What was flushed and not acknowledged follows, before the server serves others.
        for inode in self.inodes.all() {
            if inode.known().is_of(new.rank) {
                self.event(&inode, |known, clock| {
                    known.with_caps(clock, |caps, view| caps.reconnected(new.rank, view));
                    known.snaps.send_again();
                });
            }
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
                let sending = if replay { Sending::Replay } else { Sending::Again };
                session.queue(self.packed(tid, flight, &state, sending));
            }
        }
        drop(state);
        session.run();
    }

    /// Returns the capabilities that this client had from a rank's old server. From now on they count in
    /// the new session, with sequence numbers that begin anew.
    fn what_it_has(&self, old: &Session, new: &Session) -> BTreeMap<Ino, CapReconnect> {
        let mut all = BTreeMap::new();
        // What was granted in this generation is claimed whole.
        let previous = old.trust.generation();
        for inode in self.inodes.all() {
            let claim = self.event(&inode, |known, clock| {
                known.forget_names();
                if !known.is_of(new.rank) {
                    return None;
                }
                known.trusts.insert(new.rank, Arc::clone(&new.trust));
                known.with_caps(clock, |caps, view| caps.reconnect(new.rank, previous, view))
            });
            let Some(claim) = claim else { continue };
            let known = inode.known();
            let (path_base, path) = place(&inode, known.found_in.as_ref());
            let had = CapReconnect {
                path,
                cap_id: claim.cap_id,
                wanted: claim.wanted,
                issued: claim.issued,
                realm: known.realm,
                path_base,
                locks: known.locks.to_blob(),
                // The oldest change that belongs into a snapshot follows this one.
                snap_follows: known.snaps.follows().unwrap_or_default(),
            };
            drop(known);
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
            let is_of_it = inode.known().is_of(session.rank);
            if is_of_it {
                self.look(&inode);
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
