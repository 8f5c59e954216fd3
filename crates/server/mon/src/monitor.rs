//! The monitor: messages in, messages out.
//!
//! A [`Monitor`] has no socket, no file and no clock. Its driver opens a session for each connection, hands
//! over messages in order, and after some of them asks for the [`Effects`]: first it saves what must be
//! saved, then it hands on maps and keys, then it sends what is to be sent. So nobody hears of a change that
//! could be forgotten.

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

/// Changes of the osdmap in one message (`osd_map_message_max`).
const INCREMENTALS_MAX: usize = 40;

/// A connection, as the driver numbers it.
pub type SessionId = u64;

/// The monitor.
pub struct Monitor {
    state: State,
    auth: Arc<AuthServer>,
    usage: Arc<dyn UsageSource>,
    sessions: HashMap<SessionId, Session>,
    /// Counts changes of the configuration database.
    config_version: u64,
    /// Lines of the cluster's log that those who follow it have been told of.
    lines_told: u64,
    out: Vec<(SessionId, Msg)>,
    effects: Effects,
    /// Something has changed that must be saved.
    unsaved: bool,
    /// What was to be saved last.
    saved: Option<Saved>,
}

/// What is to be saved.
#[derive(Debug)]
pub enum Save {
    /// This change of what was to be saved last, for [`StateFile::append`](crate::StateFile::append).
    Change(Zeroizing<Vec<u8>>),
    /// Everything: [`State::to_json`].
    All,
}

/// What must happen after messages were handled, in this order.
#[derive(Default)]
pub struct Effects {
    /// Save this.
    pub save: Option<Save>,
    /// Then global ids before this one may be given.
    pub global_id_end: Option<GlobalId>,
    /// Hand this map to the OSD.
    pub osdmap: Option<NewOsdMap>,
    /// Authenticate by these keys.
    pub keys: Option<Keyring>,
    /// Send these.
    pub out: Vec<(SessionId, Msg)>,
}

/// A message that cannot be read: the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct Malformed(#[from] pub loligo_wire::DecodeError);

impl Monitor {
    /// A monitor that knows `state`, which has been started.
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

    /// What it knows.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Changes what it knows, and tells whoever wants to know.
    pub fn change<R>(&mut self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.state);
        self.settle();
        result
    }

    /// A client has connected.
    pub fn open(&mut self, id: SessionId, peer: Peer) {
        self.sessions.insert(id, Session::new(peer));
    }

    /// A client has connected to the manager: it may there what it may at the monitor, if it may ask a
    /// manager at all.
    pub fn open_at_manager(&mut self, id: SessionId, peer: Peer) {
        let caps = if self.auth.accepts_unproven() {
            peer.identity.caps.clone()
        } else {
            let entry = self.state.keys().entry(&peer.identity.name);
            entry.and_then(|entry| entry.caps.get("mon").cloned()).unwrap_or_default()
        };
        self.sessions.insert(id, Session::at_manager(peer, &caps));
    }

    /// A client is gone.
    pub fn close(&mut self, id: SessionId) {
        self.sessions.remove(&id);
    }

    /// A message has arrived.
    pub fn handle(&mut self, id: SessionId, msg: &Msg, now: UTime) -> Result<(), Malformed> {
        let Some(session) = self.sessions.get(&id) else { return Ok(()) };
        if session.door == Door::Manager {
            if msg.header.kind == MMgrCommand::KIND {
                self.mgr_command(id, msg.header.tid, msg.open()?, now);
            }
            return Ok(()); // daemons of services report here, which nobody collects
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
            _ => {} // stock monitors ignore what they do not know, too
        }
        Ok(())
    }

    /// Time has passed: forgets what is over, reserves what runs out.
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

    /// What must happen now because of the messages so far.
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

    /// Takes note of what has changed: what to save, whom to tell.
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

    /// Tells a client what it wants to know and does not know yet.
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

    /// The monitor's part among the monitors: what `ceph tell mon.a mon_status` shows.
    pub fn status(&self, now: UTime) -> Node {
        command::mon_status(&self.state, &self.peers(), now)
    }

    /// Who is connected: what `ceph tell mon.a sessions` shows.
    pub fn describe_sessions(&self) -> Node {
        let epoch = self.state.osdmap().epoch.0;
        Node::array(self.own_sessions().map(|session| session.describe(epoch)))
    }

    /// Kinds and features of everybody connected.
    fn peers(&self) -> Vec<(EntityType, u64)> {
        self.own_sessions().map(|session| (session.peer.kind, session.peer.features)).collect()
    }

    /// Sessions with the monitor: most clients have one with the manager beside it.
    fn own_sessions(&self) -> impl Iterator<Item = &Session> {
        self.sessions.values().filter(|session| session.door == Door::Monitor)
    }
}

/// The way from epoch `start` to the current osdmap: all changes if they are still known, else the whole map.
/// Stock clients take a whole map only where the message says that there are no older ones, and else ask
/// again and again for what they lack.
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
