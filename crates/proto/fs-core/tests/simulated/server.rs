//! The metadata server and the store of a simulation.

use std::collections::{BTreeMap, BTreeSet};

use loligo_fs_core::caps::{Returned, Update};
use loligo_fs_core::grant::{Effect, HoldId, InodeGrants, Said, Use};
use loligo_fs_core::session::{Outgoing, SessionEvent};
use loligo_types::{CapId, Caps, GlobalId};

use crate::message::{Access, Answer, Ask, Event, File, Life, Refused};
use crate::net::Net;

/// The time-out of sessions, in milliseconds.
pub(crate) const TIMEOUT: u64 = 60_000;
/// After this time without a renewal a session is evicted although nobody waits for it.
const AUTOCLOSE: u64 = 300_000;
/// How long a restarted server waits for its clients. A shorter time would let a client that does not know
/// of the restart answer from its cache what others have changed.
const RECONNECT: u64 = TIMEOUT + 1000;

/// How often trouble had its effects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) stale: u64,
    pub(crate) evicted: u64,
    pub(crate) restarts: u64,
}

struct Session {
    life: Life,
    renewed: u64,
    is_stale: bool,
    is_evicting: bool,
    has_claimed: bool,
}

pub(crate) struct Server {
    pub(crate) epoch: u64,
    pub(crate) grants: Vec<InodeGrants>,
    pub(crate) is_active: bool,
    sessions: BTreeMap<GlobalId, Session>,
    /// What came before the server was active.
    waiting: Vec<(Life, Ask)>,
    holds: u64,
    /// The last number of a capability; durable.
    cap_ids: u64,
    /// What the server itself uses, or waits for, and whether it changes names.
    held: BTreeMap<(File, HoldId), bool>,
    /// How often the names of each file, as if it were a directory, have changed.
    pub(crate) names: Vec<u64>,
    /// Lives that are over, for the history: what they have buffered is lost, even if they do not know yet.
    pub(crate) ended: Vec<Life>,
    pub(crate) counts: Counts,
    pub(crate) store: Store,
}

impl Server {
    pub(crate) fn new(files: usize) -> Self {
        Self {
            epoch: 1,
            grants: vec![InodeGrants::new(); files],
            is_active: true,
            sessions: BTreeMap::new(),
            waiting: Vec::new(),
            holds: 0,
            cap_ids: 0,
            held: BTreeMap::new(),
            names: vec![0; files],
            ended: Vec::new(),
            counts: Counts::default(),
            store: Store { values: vec![0; files], blocked: BTreeSet::new(), refused: 0 },
        }
    }

    /// What a client may be using, by what the server knows; none while it asks its clients, or has no
    /// session with this one.
    pub(crate) fn issued(&self, life: Life, file: File) -> Option<Caps> {
        let is_known = self.is_active && self.sessions.contains_key(&life.id());
        is_known.then(|| self.grants[file].issued(life.id()))
    }

    pub(crate) fn hear(&mut self, life: Life, ask: Ask, net: &mut Net) {
        if let Ask::Session(Outgoing::RequestOpen) = ask {
            return self.open(life, net);
        }
        let Some(session) = self.sessions.get_mut(&life.id()) else {
            return self.say(life, Answer::Session(SessionEvent::Reset), net);
        };
        match ask {
            Ask::Session(outgoing) => self.session(life, outgoing, net),
            Ask::Open(file, wanted) if !session.is_evicting && self.is_active => {
                let (grants, ids) = (&mut self.grants[file], &mut self.cap_ids);
                let told = grants.reply(life.id(), wanted, || next(ids));
                self.say(life, Answer::Opened(file, told, self.names[file]), net);
                self.follow(file, net);
            }
            Ask::Update(file, update) => {
                let grants = &mut self.grants[file];
                let Update { cap_id, seq, issue_seq, caps, wanted, .. } = update;
                grants.confirm(life.id(), &Said { cap_id, seq, issue_seq, caps, wanted });
                if let Some(tid) = update.flush_tid {
                    self.say(life, Answer::FlushAck(file, tid), net);
                }
                self.follow(file, net);
            }
            Ask::Change(file, parts, returned) => {
                if let Some(Returned { cap_id, seq, issue_seq, caps, wanted, .. }) = returned {
                    let said = Said { cap_id, seq, issue_seq, caps, wanted };
                    self.grants[file].confirm(life.id(), &said);
                    self.follow(file, net);
                }
                self.hold(file, Use::Change, parts, net);
            }
            Ask::Release(file, cap_id, issue_seq) => {
                self.grants[file].release(life.id(), cap_id, issue_seq);
                self.follow(file, net);
            }
            Ask::Reconnect(claims) if !self.is_active && !session.is_evicting => {
                session.has_claimed = true;
                session.renewed = net.now;
                session.is_stale = false;
                for (file, claim) in claims {
                    self.grants[file].claim(life.id(), claim.cap_id, claim.issued, claim.wanted);
                }
                self.say(life, Answer::Session(SessionEvent::Opened), net);
            }
            Ask::Open(..) if !self.is_active => self.waiting.push((life, ask)),
            // The session is being evicted, or the reconnect came too late.
            Ask::Open(..) | Ask::Reconnect(_) => {}
        }
    }

    fn open(&mut self, life: Life, net: &mut Net) {
        if !self.is_active {
            self.waiting.push((life, Ask::Session(Outgoing::RequestOpen)));
            return;
        }
        if self.store.blocked.contains(&life) {
            let refusal = SessionEvent::Rejected { is_blocklisted: true };
            return self.say(life, Answer::Session(refusal), net);
        }
        let new = Session { life, renewed: net.now, is_stale: false, is_evicting: false, has_claimed: true };
        let session = self.sessions.entry(life.id()).or_insert(new);
        if !session.is_evicting {
            self.say(life, Answer::Session(SessionEvent::Opened), net);
        }
    }

    fn session(&mut self, life: Life, outgoing: Outgoing, net: &mut Net) {
        let Some(session) = self.sessions.get_mut(&life.id()).filter(|session| !session.is_evicting) else {
            return;
        };
        if let Outgoing::RequestRenew { seq } = outgoing {
            session.renewed = net.now;
            let was_stale = std::mem::take(&mut session.is_stale);
            self.say(life, Answer::Session(SessionEvent::Renewed { seq }), net);
            for file in 0..self.grants.len() {
                if was_stale {
                    self.grants[file].resume(life.id());
                    self.follow(file, net);
                }
            }
        }
    }

    /// Looks for sessions that have missed their renewals.
    pub(crate) fn tick(&mut self, net: &mut Net) {
        if !self.is_active {
            return;
        }
        let late: Vec<GlobalId> = self.sessions.keys().copied().collect();
        for id in late {
            let Some(session) = self.sessions.get_mut(&id).filter(|session| !session.is_evicting) else {
                continue;
            };
            let (life, idle) = (session.life, net.now - session.renewed);
            if idle > AUTOCLOSE {
                self.evict(life, net);
            } else if idle > TIMEOUT && !session.is_stale {
                session.is_stale = true;
                self.counts.stale += 1;
                self.say(life, Answer::Session(SessionEvent::Stale), net);
                for file in 0..self.grants.len() {
                    self.grants[file].stale(id);
                    self.follow(file, net);
                }
            }
        }
    }

    /// First the stores refuse the client; then, once it counts on nothing any more, others get what it had.
    pub(crate) fn evict(&mut self, life: Life, net: &mut Net) {
        if let Some(session) = self.sessions.get_mut(&life.id()).filter(|session| !session.is_evicting) {
            session.is_evicting = true;
            let delay = net.random.u64(1..2000);
            net.after(delay, Event::Blocklist(life));
        }
    }

    pub(crate) fn blocklisted(&mut self, life: Life, net: &mut Net) {
        self.store.blocked.insert(life);
        if let Some(session) = self.sessions.get_mut(&life.id()) {
            session.is_evicting = true;
            let rest = (session.renewed + TIMEOUT).saturating_sub(net.now);
            net.after(rest + 1, Event::Removed(life));
        }
    }

    pub(crate) fn removed(&mut self, life: Life, net: &mut Net) {
        if self.sessions.remove(&life.id()).is_none() {
            return;
        }
        self.ended.push(life);
        self.counts.evicted += 1;
        self.say(life, Answer::Session(SessionEvent::Reset), net);
        for file in 0..self.grants.len() {
            self.grants[file].remove(life.id());
            if self.is_active {
                self.follow(file, net);
            }
        }
    }

    /// Sessions are durable, capabilities are not.
    pub(crate) fn restart(&mut self, net: &mut Net) {
        self.epoch += 1;
        self.counts.restarts += 1;
        self.is_active = false;
        self.held.clear();
        self.waiting.clear();
        self.grants = vec![InodeGrants::restarted(); self.grants.len()];
        for session in self.sessions.values_mut() {
            session.has_claimed = false;
            // What the server was about to do is forgotten, unless the store knows already.
            session.is_evicting = self.store.blocked.contains(&session.life);
            if session.is_evicting {
                net.after(TIMEOUT, Event::Removed(session.life));
            }
        }
        net.after(RECONNECT, Event::ReconnectEnds(self.epoch));
    }

    /// Clients that did not reconnect are fenced off before anybody gets anything.
    pub(crate) fn reconnect_ends(&mut self, net: &mut Net) {
        let silent: Vec<Life> = self
            .sessions
            .values()
            .filter(|session| !session.has_claimed)
            .map(|session| session.life)
            .collect();
        for life in silent {
            self.store.blocked.insert(life);
            self.removed(life, net);
        }
        self.is_active = true;
        for file in 0..self.grants.len() {
            self.grants[file].claims_ended();
            self.follow(file, net);
        }
        for (life, ask) in std::mem::take(&mut self.waiting) {
            self.hear(life, ask, net);
        }
    }

    /// The server itself reads or changes an inode for a moment.
    pub(crate) fn hold(&mut self, file: File, how: Use, parts: Caps, net: &mut Net) {
        if self.is_active {
            self.holds += 1;
            let id = HoldId(self.holds);
            self.held.insert((file, id), how == Use::Change && parts.contains(Caps::FILE_SHARED));
            self.grants[file].hold(id, how, parts);
            self.follow(file, net);
        }
    }

    pub(crate) fn unhold(&mut self, file: File, id: HoldId, net: &mut Net) {
        self.held.remove(&(file, id));
        self.grants[file].unhold(id);
        self.follow(file, net);
    }

    /// Whether the server waits for bits that it wants itself.
    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    fn follow(&mut self, file: File, net: &mut Net) {
        for effect in self.grants[file].take_effects() {
            match effect {
                Effect::Send(client, kind, told) => {
                    if let Some(life) = self.sessions.get(&client).map(|session| session.life) {
                        self.say(life, Answer::Told(file, kind, told), net);
                    }
                }
                Effect::Ready(id) => {
                    let changes_names = self.held.get(&(file, id)).copied().unwrap_or_default();
                    self.names[file] += u64::from(changes_names);
                    let delay = net.random.u64(1..500);
                    net.after(delay, Event::Unhold(file, id, self.epoch));
                }
                Effect::Evict(client) => {
                    if let Some(life) = self.sessions.get(&client).map(|session| session.life) {
                        self.evict(life, net);
                    }
                }
            }
        }
    }

    fn say(&self, life: Life, answer: Answer, net: &mut Net) {
        net.send_to_client(life, self.epoch, answer);
    }
}

fn next(last: &mut u64) -> CapId {
    *last += 1;
    CapId(*last)
}

/// The objects: one value for each file, and who may not touch them.
pub(crate) struct Store {
    values: Vec<u64>,
    blocked: BTreeSet<Life>,
    /// How often something came from a life that is over.
    pub(crate) refused: u64,
}

impl Store {
    pub(crate) fn serve(&mut self, life: Life, file: File, access: Access) -> Result<u64, Refused> {
        if self.blocked.contains(&life) {
            self.refused += 1;
            return Err(Refused);
        }
        match access {
            Access::Read(_) => {}
            Access::Write(_, value) | Access::Flush(value) => self.values[file] = value,
        }
        Ok(self.values[file])
    }
}
