//! One session with a metadata server: its messages in order, its requests in flight.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use loligo_lane::{Lane, RunEnd};
use loligo_lockstat::{Class, Mutex, MutexGuard};
use loligo_msgr::Connection;
use loligo_wire::message::Msg;
use loligo_wire::message::mds::{
    CapRelease, ClientCapRelease, ClientSession, FeatureBits, RequestOp, SessionOp, feature,
};
use loligo_wire::{EntityAddr, GlobalId, Name, Rank, Tid, UTime};
use tokio::sync::Notify;

use super::flight::Flight;
use crate::inode::Trust;
use crate::life::METRICS;

/// Held to number a message and to find a request; never while sending.
static SESSION: Class = Class::new("fs.session");
/// Held to take messages out of the queue, by whoever sends them.
static OUT: Class = Class::new("fs.session_out");

/// Messages that wait to be sent at most. Requests are bounded by their callers, which wait for replies,
/// and messages about capabilities by the inodes; a session with more is broken.
const OUT_MAX: usize = 1 << 20;
/// Messages that one thread sends at a time, before another thread's turn.
const RUN_MAX: usize = 256;
/// Releases of capabilities in one message.
const RELEASES_MAX: usize = 1024;

/// What this client can do, as it tells the servers.
pub(crate) const FEATURES: [u32; 12] = [
    feature::JEWEL,
    feature::KRAKEN,
    feature::LUMINOUS,
    feature::MIMIC,
    feature::REPLY_ENCODING,
    feature::LAZY_CAP_WANTED,
    feature::MULTI_RECONNECT,
    feature::DELEG_INO,
    feature::METRIC_COLLECT,
    feature::NOTIFY_SESSION_STATE,
    feature::WIDE_RETRY_FWD,
    feature::HAS_OWNER_UIDGID,
];

/// How far a session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The server has not answered the request to open it.
    Opening,
    Open,
    /// The server restarts and asks its clients what they had.
    Reconnecting,
    /// This client has asked to close it.
    Closing,
    /// It is over.
    Ended(Ended),
}

/// Why a session is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// As this client asked.
    Closed,
    /// The server refused it.
    Rejected(String),
    /// The server has forgotten it, or evicted this client.
    Lost,
    /// The server sent what cannot be decoded: the message's name and what is wrong.
    Broken(&'static str, loligo_wire::DecodeError),
}

/// A session.
pub(crate) struct Session {
    pub(crate) rank: Rank,
    /// The server's number; another one is another server.
    pub(crate) gid: GlobalId,
    pub(crate) addr: EntityAddr,
    pub(crate) trust: Arc<Trust>,
    conn: OnceLock<Arc<Connection>>,
    out: Lane<Msg>,
    state: Mutex<State>,
    /// The phase has changed.
    pub(crate) changed: Notify,
}

/// What changes in a session.
pub(crate) struct State {
    pub(crate) phase: Phase,
    pub(crate) features: FeatureBits,
    /// The metrics that the server wants.
    pub(crate) metrics: FeatureBits,
    /// The server's messages about capabilities, leases, snapshots and quotas so far.
    pub(crate) pushes: u64,
    renewals: u64,
    /// When the last renewal was asked for, by the client's clock.
    pub(crate) asked_ms: Option<u64>,
    /// Requests without a reply.
    pub(crate) pending: BTreeMap<Tid, Flight>,
    /// Requests that were carried out and are not durable yet.
    pub(crate) unconfirmed: BTreeMap<Tid, Flight>,
    pub(crate) releases: Vec<CapRelease>,
    /// The server permits no changes.
    pub(crate) is_read_only: bool,
    /// When the server had forgotten the session, by the client's clock.
    pub(crate) forgotten_ms: Option<u64>,
}

impl Session {
    /// Creates a session that has no connection yet.
    pub(crate) fn new(rank: Rank, gid: GlobalId, addr: EntityAddr, phase: Phase) -> Arc<Self> {
        let state = State {
            phase,
            features: FeatureBits::default(),
            metrics: FeatureBits::default(),
            pushes: 0,
            renewals: 0,
            asked_ms: None,
            pending: BTreeMap::new(),
            unconfirmed: BTreeMap::new(),
            releases: Vec::new(),
            is_read_only: false,
            forgotten_ms: None,
        };
        Arc::new(Self {
            rank,
            gid,
            addr,
            trust: Arc::default(),
            conn: OnceLock::new(),
            out: Lane::new(&OUT, OUT_MAX),
            state: Mutex::new(&SESSION, state),
            changed: Notify::new(),
        })
    }

    /// Gives the session its connection, once.
    pub(crate) fn set_conn(&self, conn: &Arc<Connection>) {
        let _ = self.conn.set(Arc::clone(conn));
        if self.ended().is_some() {
            conn.mark_down();
        }
        self.run();
    }

    /// Returns the connection.
    pub(crate) fn conn(&self) -> Option<&Arc<Connection>> {
        self.conn.get()
    }

    /// Locks the state.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Puts a message into the queue. Takes no lock: messages that are queued under the state's lock
    /// leave in the order in which the state changed. [`Session::run`] must follow, without a lock.
    pub(crate) fn queue(&self, msg: Msg) {
        if self.out.push(msg).is_err() {
            self.end(Ended::Lost);
        }
    }

    /// Sends what is queued, unless another thread does.
    pub(crate) fn run(&self) {
        let Some(conn) = self.conn.get() else { return };
        while self.out.run(RUN_MAX, |msg| {
            // A connection that was closed meanwhile has its end reported.
            let _ = conn.send(msg);
        }) == RunEnd::Again
        {}
    }

    /// Queues and sends a message.
    pub(crate) fn send(&self, msg: Msg) {
        self.queue(msg);
        self.run();
    }

    /// Returns the phase.
    pub(crate) fn phase(&self) -> Phase {
        self.state().phase.clone()
    }

    /// Changes the phase and wakes the tasks that wait for it.
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.state().phase = phase;
        self.changed.notify_waiters();
    }

    /// Ends the session, unless it has ended. Returns `true` if this call ended it.
    pub(crate) fn end(&self, why: Ended) -> bool {
        // Before anybody can see the end: the next session with the server must not get this connection.
        if let Some(conn) = self.conn.get() {
            conn.mark_down();
        }
        let is_first = {
            let mut state = self.state();
            let is_first = !matches!(state.phase, Phase::Ended(_));
            if is_first {
                state.phase = Phase::Ended(why);
            }
            is_first
        };
        if is_first {
            self.trust.end_generation();
            self.changed.notify_waiters();
        }
        is_first
    }

    /// Returns the reason for the end, if the session has ended.
    pub(crate) fn ended(&self) -> Option<Ended> {
        match &self.state().phase {
            Phase::Ended(why) => Some(why.clone()),
            _ => None,
        }
    }

    /// Asks the server to open the session.
    pub(crate) fn ask_to_open(&self, metadata: BTreeMap<Name, Name>) {
        let body = ClientSession {
            metadata,
            features: FeatureBits::of(&FEATURES),
            metric_spec: FeatureBits::of(&METRICS),
            stamp: UTime::now(),
            oldest_client_tid: None,
            ..ClientSession::new(SessionOp::RequestOpen, 0)
        };
        self.send(Msg::new(&body));
    }

    /// Asks the server to renew the capabilities.
    pub(crate) fn renew(&self, now_ms: u64) {
        let body = {
            let mut state = self.state();
            state.renewals += 1;
            state.asked_ms = Some(now_ms);
            ClientSession::new(SessionOp::RequestRenewCaps, state.renewals)
        };
        self.send(Msg::new(&body));
    }

    /// Notes a renewal: the capabilities hold for `timeout_ms` from when it was asked for. Returns
    /// `false` for the answer to an earlier one.
    pub(crate) fn renewed(&self, seq: u64, timeout_ms: u64) -> bool {
        let state = self.state();
        let asked = state.asked_ms.filter(|_| state.renewals == seq);
        drop(state);
        if let Some(asked) = asked {
            self.trust.extend(asked + timeout_ms);
        }
        asked.is_some()
    }

    /// Asks the server to close the session.
    pub(crate) fn ask_to_close(&self) {
        let body = {
            let mut state = self.state();
            if state.phase == Phase::Open {
                state.phase = Phase::Closing;
            }
            ClientSession::new(SessionOp::RequestClose, state.pushes)
        };
        self.send(Msg::new(&body));
    }

    /// Counts a message that the server pushed. A request to close is repeated with the new count: the
    /// server ignores one that had not seen all.
    pub(crate) fn pushed(&self) {
        let is_closing = {
            let mut state = self.state();
            state.pushes += 1;
            state.phase == Phase::Closing
        };
        if is_closing {
            self.ask_to_close();
        }
    }

    /// Notes that a capability is given back; the message follows with others.
    pub(crate) fn release(&self, item: CapRelease) {
        let is_full = {
            let mut state = self.state();
            state.releases.push(item);
            state.releases.len() >= RELEASES_MAX
        };
        if is_full {
            self.send_releases();
        }
    }

    /// Sends the releases that were noted.
    pub(crate) fn send_releases(&self) {
        let caps = {
            let mut state = self.state();
            if state.releases.is_empty() || state.phase != Phase::Open {
                return;
            }
            std::mem::take(&mut state.releases)
        };
        self.send(Msg::new(&ClientCapRelease { caps, ..ClientCapRelease::default() }));
    }
}

impl State {
    /// Returns the number of the oldest request that the server must remember: one for a lock may wait for
    /// ever.
    pub(crate) fn oldest(&self) -> Option<Tid> {
        let counts = |flight: &Flight| !matches!(flight.request.op, RequestOp::SetFileLock(_));
        let pending = self.pending.iter().find(|(_, flight)| counts(flight)).map(|(tid, _)| tid);
        let unconfirmed = self.unconfirmed.keys().next();
        pending.into_iter().chain(unconfirmed).min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Arc<Session> {
        Session::new(Rank(0), GlobalId(1), EntityAddr::default(), Phase::Open)
    }

    #[test]
    fn only_the_answer_to_the_last_renewal_counts() {
        let session = session();
        session.renew(1000);
        session.renew(2000);
        assert!(!session.renewed(1, 60_000));
        assert!(!session.trust.holds_now(1));
        assert!(session.renewed(2, 60_000));
        assert!(session.trust.holds_now(61_999) && !session.trust.holds_now(62_000));
    }

    #[test]
    fn a_session_ends_once() {
        let session = session();
        let granted = session.trust.generation();
        assert!(session.end(Ended::Lost));
        assert!(!session.end(Ended::Closed));
        assert_eq!(session.ended(), Some(Ended::Lost));
        assert_ne!(session.trust.generation(), granted, "nothing that it granted is relied on");
    }

    /// Goal: a close that crosses with a message of the server is asked for again, with the right count.
    #[test]
    fn a_close_names_all_that_was_pushed() {
        let session = session();
        session.pushed();
        session.ask_to_close();
        session.pushed();
        let sent: Vec<u64> = session
            .out
            .drain()
            .iter()
            .map(|msg| msg.open::<ClientSession>().expect("a session message").seq)
            .collect();
        assert_eq!(sent, [1, 2]);
        assert_eq!(session.phase(), Phase::Closing);
    }
}
