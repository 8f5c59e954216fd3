//! The monitor: messages in, messages out.
//!
//! A [`Monitor`] has no socket, no file and no clock. Its driver opens a session for each connection,
//! passes messages in order, and takes the [`Effects`] after some of them. It first saves the state,
//! then publishes maps and keys, then sends the messages. No client therefore learns of a change that a
//! crash could lose.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use loligo_cephx::keyring::Keyring;
use loligo_cephx::server::AuthServer;
use loligo_wire::message::mgr::MMgrCommand;
use loligo_wire::message::mon::{
    MAuth, MConfig, MGetPoolStats, MLog, MMgrMap, MMonCommand, MMonGetMap, MMonGetVersion, MMonMap,
    MMonSubscribe, MPing, MPoolOp, MStatfs,
};
use loligo_wire::message::osd::MOSDMap;
use loligo_wire::message::{Message, Msg};
use loligo_wire::{Encode as _, EntityAddr, EntityType, Epoch, GlobalId, UTime};
use zeroize::Zeroizing;

use crate::command;
use crate::output::json::Node;
use crate::session::{Door, Peer, Session};
use crate::state::change::Saved;
use crate::state::log::Severity;
use crate::state::{NewOsdMap, State};
use crate::usage::UsageSource;

pub(crate) mod log_lines;
mod manager;
mod requests;
mod run;

/// Maximum number of incremental osdmaps in one message (`osd_map_message_max`).
const INCREMENTALS_MAX: usize = 40;

/// The driver's number for a connection.
pub type SessionId = u64;

/// The monitor.
pub struct Monitor {
    state: State,
    auth: Arc<AuthServer>,
    usage: Arc<dyn UsageSource>,
    sessions: HashMap<SessionId, Session>,
    /// The version of the configuration database; grows with each change.
    config_version: u64,
    /// The number of cluster log lines that subscribers have been sent.
    lines_told: u64,
    out: Vec<(SessionId, Msg)>,
    effects: Effects,
    /// Set while a change is not saved yet.
    unsaved: bool,
    /// The state as of the last save that was requested.
    saved: Option<Saved>,
}

/// The data to save.
#[derive(Debug)]
pub enum Save {
    /// The change since the last save, for [`StateFile::append`](crate::StateFile::append).
    Change(Zeroizing<Vec<u8>>),
    /// The whole state: [`State::to_json`].
    All,
}

/// The actions that follow the messages handled so far, in this order.
#[derive(Default)]
pub struct Effects {
    /// Save this first.
    pub save: Option<Save>,
    /// After the save, global ids below this one may be assigned.
    pub global_id_end: Option<GlobalId>,
    /// Publish this osdmap to the OSD.
    pub osdmap: Option<NewOsdMap>,
    /// Authenticate clients against these keys.
    pub keys: Option<Keyring>,
    /// Send these messages.
    pub out: Vec<(SessionId, Msg)>,
}

/// A message that cannot be decoded. The connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct Malformed(#[from] pub loligo_wire::DecodeError);

impl Monitor {
    /// Creates a monitor with a `state` that has been started.
    pub fn new(state: State, auth: Arc<AuthServer>, usage: Arc<dyn UsageSource>) -> Self {
        Self {
            state,
            auth,
            usage,
            sessions: HashMap::new(),
            config_version: 1,
            lines_told: 0,
            out: Vec::new(),
            effects: Effects::default(),
            unsaved: false,
            saved: None,
        }
    }

    /// The cluster's state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Changes the state, and notifies subscribers.
    pub fn change<R>(&mut self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.state);
        self.settle();
        result
    }

    /// Opens the session of a client that has connected.
    pub fn open(&mut self, id: SessionId, peer: Peer) {
        self.sessions.insert(id, Session::new(peer));
    }

    /// Opens the session of a client that has connected to the manager. A client with any manager
    /// capability has its monitor capabilities there.
    pub fn open_at_manager(&mut self, id: SessionId, peer: Peer) {
        let caps = if self.auth.accepts_unproven() {
            peer.identity.caps.clone()
        } else {
            let entry = self.state.keys().entry(&peer.identity.name);
            entry.and_then(|entry| entry.caps.get("mon").cloned()).unwrap_or_default()
        };
        self.sessions.insert(id, Session::at_manager(peer, &caps));
    }

    /// Closes the session of a client that has disconnected.
    pub fn close(&mut self, id: SessionId) {
        self.sessions.remove(&id);
    }

    /// Handles a message.
    pub fn handle(&mut self, id: SessionId, msg: &Msg, now: UTime) -> Result<(), Malformed> {
        let Some(session) = self.sessions.get(&id) else { return Ok(()) };
        if session.door == Door::Manager {
            if msg.header.kind == MMgrCommand::KIND {
                self.mgr_command(id, msg.header.tid, msg.open()?, now);
            }
            return Ok(()); // service daemons send their reports here; they are ignored
        }
        match msg.header.kind {
            MMonGetMap::KIND => self.send_monmap(id),
            MMonSubscribe::KIND => self.subscribe(id, msg.open()?),
            MMonGetVersion::KIND => self.version(id, msg.open()?),
            MMonCommand::KIND => self.command(id, msg.header.tid, msg.open()?, now),
            MAuth::KIND => self.renew(id, msg.open()?),
            MPoolOp::KIND => self.pool_op(id, msg.header.tid, msg.open()?, now),
            MStatfs::KIND => self.statfs(id, msg.header.tid, msg.open()?),
            MGetPoolStats::KIND => self.pool_stats(id, msg.header.tid, msg.open()?),
            MLog::KIND => self.log(id, msg.open()?),
            MPing::KIND => self.ping(id, now),
            _ => {} // stock monitors ignore unknown messages, too
        }
        Ok(())
    }

    /// Runs the periodic work: drops expired blocklist entries and mutes, brings OSDs up again, reserves
    /// global ids, rotates service keys.
    pub fn tick(&mut self, now: UTime) {
        let blocklist = &self.state.osdmap().blocklist;
        let [expired, ranges] = [&blocklist.addrs, &blocklist.ranges].map(|listed| -> Vec<EntityAddr> {
            listed.iter().filter(|(_, until)| **until <= now).map(|(addr, _)| *addr).collect()
        });
        if !(expired.is_empty() && ranges.is_empty()) {
            let change = self.state.change_osdmap(now, |_, inc| {
                inc.old_blocklist.extend(expired);
                inc.old_range_blocklist.extend(ranges);
            });
            self.complain(now, change.map(|_| ()));
        }
        let revived = self.state.revive_osds(now);
        self.complain(now, revived);
        self.end_mutes(now);
        self.state.note_global_id(self.auth.next_global_id());
        if self.auth.keys().rotate(now) {
            self.state.set_service_keys(self.auth.keys().to_bytes());
        }
        self.settle();
    }

    /// Returns the actions that follow the messages so far.
    pub fn take_effects(&mut self) -> Effects {
        let save = std::mem::take(&mut self.unsaved).then(|| self.save());
        Effects { save, out: std::mem::take(&mut self.out), ..std::mem::take(&mut self.effects) }
    }

    fn save(&mut self) -> Save {
        if let Some(change) = self.saved.as_mut().and_then(|saved| saved.advance(&self.state)) {
            return Save::Change(change);
        }
        self.saved = Some(Saved::of(&self.state));
        Save::All
    }

    fn complain(&mut self, now: UTime, result: Result<(), crate::command::Failure>) {
        if let Err(e) = result {
            self.state.log_mut().say(now, Severity::Error, "cluster", e.to_string());
        }
    }

    /// Collects what has changed: marks the state for saving and notifies subscribers.
    fn settle(&mut self) {
        self.tell_of_new_lines();
        let changes = self.state.take_changes();
        if !changes.any() {
            return;
        }
        self.unsaved = true;
        self.effects.global_id_end = Some(self.state.global_id_end());
        if changes.keys {
            self.effects.keys = Some(self.state.keys().clone());
        }
        if changes.osdmap {
            self.effects.osdmap = Some(NewOsdMap::of(&self.state));
        }
        if changes.config {
            self.config_version += 1;
        }
        let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
        ids.into_iter().for_each(|id| self.tell(id));
    }

    /// Sends a client the updates that its subscriptions are due.
    fn tell(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let monmap_epoch = u64::from(self.state.monmap().epoch.0);
        if session.take_due("monmap", monmap_epoch).is_some() {
            send(&mut self.out, id, &MMonMap { monmap: self.state.monmap().to_bytes() });
        }
        if session.take_due("config", self.config_version).is_some() {
            let name = &session.peer.identity.name;
            let mut place = self.state.place_of(name);
            if place.location.is_empty() && !session.host.is_empty() {
                place.location.push(("host".to_owned(), session.host.clone()));
            }
            let settings = self.state.config().settings_at(name, &place);
            let config =
                settings.into_iter().map(|(option, (_, value))| (option.to_owned(), value.to_owned()));
            send(&mut self.out, id, &MConfig { config: config.collect() });
        }
        let mgr_map = self.state.mgr_map();
        if session.take_due("mgrmap", mgr_map.epoch.0.into()).is_some() {
            send(&mut self.out, id, &MMgrMap { map: mgr_map });
        }
        log_lines::tell(&mut self.out, id, session, &self.state);
        let osdmap_epoch = self.state.osdmap().epoch.0;
        if session.may("osd", loligo_cephx::caps::Perms::R)
            && let Some(start) = session.take_due("osdmap", osdmap_epoch.into())
        {
            for message in osdmap_messages(&self.state, start) {
                send(&mut self.out, id, &message);
            }
        }
    }

    /// The monitor's status in the quorum: the output of `ceph tell mon.a mon_status`.
    pub fn status(&self, now: UTime) -> Node {
        command::mon_status(&self.state, &self.peers(), now)
    }

    /// The connected clients: the output of `ceph tell mon.a sessions`.
    pub fn describe_sessions(&self) -> Node {
        let epoch = self.state.osdmap().epoch.0;
        Node::array(self.own_sessions().map(|session| session.describe(epoch)))
    }

    /// Type and features of each connected client.
    fn peers(&self) -> Vec<(EntityType, u64)> {
        self.own_sessions().map(|session| (session.peer.kind, session.peer.features)).collect()
    }

    /// Sessions with the monitor. Most clients also have one with the manager, which is not included.
    fn own_sessions(&self) -> impl Iterator<Item = &Session> {
        self.sessions.values().filter(|session| session.door == Door::Monitor)
    }
}

/// The messages that lead from epoch `start` to the current osdmap: all incrementals if they are still
/// kept, else the full map. Stock clients accept a full map only if the message says that no older
/// epochs exist; otherwise they keep asking for the missing ones.
fn osdmap_messages(state: &State, start: u64) -> Vec<MOSDMap> {
    let (maps, newest) = (state.maps(), state.osdmap().epoch);
    let message = |oldest| MOSDMap { fsid: state.fsid(), oldest, newest, ..MOSDMap::default() };
    let start = Epoch(u32::try_from(start).unwrap_or(u32::MAX));
    match maps.incrementals(start).filter(|_| start > Epoch(0)) {
        Some(changes) => {
            let changes: Vec<_> = changes.into_iter().collect();
            let some = |some: &[(Epoch, Bytes)]| MOSDMap {
                incrementals: some.iter().cloned().collect(),
                ..message(maps.oldest())
            };
            changes.chunks(INCREMENTALS_MAX).map(some).collect()
        }
        None => {
            let mut whole = message(newest);
            whole.maps.insert(newest, maps.current_bytes().clone());
            vec![whole]
        }
    }
}

fn send<M: Message>(out: &mut Vec<(SessionId, Msg)>, id: SessionId, body: &M) {
    out.push((id, Msg::new(body)));
}
