//! The client's session with the monitors: [`hunt`] tries several monitors at once, keeps a session, and
//! finds another one when it is lost.
//!
//! The session carries the maps the client subscribes to, the replies to its requests ([`requests`]),
//! and new tickets before the old ones expire.

mod hunt;
mod requests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use loligo_cephx::client::AuthClient;
use loligo_cephx::handshake::AuthError;
use loligo_lockstat::{Class, Mutex};
use loligo_maps::MonMap;
use loligo_msgr::Connection;
use loligo_wire::message::mon::{
    MAuth, MAuthReply, MConfig, MMonGetVersion, MMonGetVersionReply, MMonMap, MMonSubscribe, PaxosHeader,
    Subscription,
};
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{Decode as _, EntityAddr, Epoch, Tid, Uuid};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use self::requests::Requests;
use crate::discover::Groups;
use crate::error::Error;
use crate::waits::{Gathered, Reason, Waiter};

pub(crate) use self::hunt::{Hunt, HuntSettings};

/// `last_error` before any attempt has failed.
const NONE_TRIED: &str = "none was tried";

static SESSION: Class = Class::new("cluster.monc");

/// The session with the monitors, as all parts of the client except the hunt see it.
pub struct MonClient {
    auth: Arc<AuthClient>,
    hostname: String,
    state: Mutex<State>,
    /// The client's settings in the configuration database, as last sent by a monitor.
    /// `None` once the session has ended permanently.
    config: watch::Sender<Option<BTreeMap<String, String>>>,
    events: mpsc::UnboundedSender<Event>,
}

struct State {
    /// The monitor of the current session; `None` while the hunt looks for one.
    conn: Option<Arc<Connection>>,
    /// Addresses of monitors: the configured ones, or, after the first session, those of the monmap.
    groups: Groups,
    fsid: Option<Uuid>,
    monmap_epoch: Epoch,
    /// Subscriptions that every session begins with.
    wanted: BTreeMap<String, Subscription>,
    requests: Requests,
    /// When the hunt for the first session began; `None` after that session has opened.
    first_wanted: Option<Instant>,
    /// The last failure of the hunt.
    last_error: String,
    closed: bool,
}

/// An event of a connection to a monitor. The channel stays short: a connection causes one event at a
/// time, and a refused connection pauses.
enum Event {
    Connected(Arc<Connection>),
    Refused(Arc<Connection>, Refusal),
    Lost(Arc<Connection>),
}

/// Why a connection was refused.
struct Refusal {
    /// The monitors' verdict on this client, if any. Every other monitor would give the same.
    verdict: Option<Verdict>,
    text: String,
}

/// The monitors' verdict on this client.
enum Verdict {
    Auth(AuthError),
    /// The client lacks features that the cluster's maps require. Holds the bits.
    MissingFeatures(u64),
}

impl From<Verdict> for Error {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Auth(e) => e.into(),
            Verdict::MissingFeatures(bits) => Self::MissingFeatures(bits),
        }
    }
}

impl MonClient {
    /// Creates the session state and the hunt, which receives its events.
    pub(crate) fn new(auth: Arc<AuthClient>, hostname: String, groups: Groups) -> (Self, Hunt) {
        let (events, heard) = mpsc::unbounded_channel();
        // The replies come in the order of the names: the settings arrive before any map.
        let wanted = ["config", "monmap"].map(|what| (what.to_owned(), Subscription::default())).into();
        let state = State {
            conn: None,
            groups,
            fsid: None,
            monmap_epoch: Epoch(0),
            wanted,
            requests: Requests::default(),
            first_wanted: Some(Instant::now()),
            last_error: NONE_TRIED.to_owned(),
            closed: false,
        };
        let monc = Self {
            auth,
            hostname,
            state: Mutex::new(&SESSION, state),
            config: watch::Sender::new(Some(BTreeMap::new())),
            events,
        };
        (monc, Hunt::new(heard))
    }

    /// Returns this machine's name.
    pub fn hostname(&self) -> &str {
        &self.hostname
    }

    /// Returns the cluster's id, or `None` before the first session.
    pub fn fsid(&self) -> Option<Uuid> {
        self.state.lock().fsid
    }

    /// Returns this client's settings in the monitors' configuration database.
    pub fn config(&self) -> BTreeMap<String, String> {
        self.config.borrow().clone().unwrap_or_default()
    }

    /// Returns a receiver for changes of `config`; `None` once the session has ended permanently.
    pub fn watch_config(&self) -> watch::Receiver<Option<BTreeMap<String, String>>> {
        self.config.subscribe()
    }

    /// Sends a request and waits for its reply. The request survives lost sessions. `ask` builds the
    /// message from the request's number.
    pub async fn request(&self, ask: impl FnOnce(u64) -> Msg) -> Result<Msg, Error> {
        let (number, question, answered, conn) = {
            let mut state = self.state.lock();
            if state.closed {
                return Err(Error::Shutdown);
            }
            let (number, question, answered) = state.requests.ask(|number| ask(number).with_tid(Tid(number)));
            (number, question, answered, state.conn.clone())
        };
        let _forget = Forget { monc: self, number };
        if let Some(conn) = conn {
            // If the connection is closed by now, the next session resends the request.
            let _ = conn.send(question);
        }
        answered.await.map_err(|_| Error::Shutdown)
    }

    /// Returns the newest version of a map that the monitors have.
    pub async fn newest_version(&self, what: &str) -> Result<u64, Error> {
        let ask = |handle| Msg::new(&MMonGetVersion { handle, what: what.to_owned() });
        let reply = self.request(ask).await?;
        let reply: MMonGetVersionReply =
            reply.open().map_err(|source| Error::Decode { what: MMonGetVersionReply::NAME, source })?;
        Ok(reply.version)
    }

    /// Subscribes to a map from version `start` on, now and in every later session.
    pub fn follow(&self, what: &str, start: u64) {
        let subscription = Subscription { start, onetime: false };
        let conn = {
            let mut state = self.state.lock();
            state.wanted.insert(what.to_owned(), subscription);
            state.conn.clone()
        };
        if let Some(conn) = conn {
            let what = BTreeMap::from([(what.to_owned(), subscription)]);
            let _ = conn.send(Msg::new(&MMonSubscribe { what, hostname: self.hostname.clone() }));
        }
    }

    /// Ends a subscription with the session: later sessions do not ask for it.
    pub fn unfollow(&self, what: &str) {
        self.state.lock().wanted.remove(what);
    }

    /// Records the received version of a subscribed map, so that the next session continues after it.
    pub fn got(&self, what: &str, version: u64) {
        if let Some(wanted) = self.state.lock().wanted.get_mut(what) {
            wanted.start = version + 1;
        }
    }

    /// Ends the session permanently. Pending requests fail.
    pub(crate) fn close(&self) {
        let conn = {
            let mut state = self.state.lock();
            state.closed = true;
            state.requests.clear();
            state.conn.take()
        };
        self.config.send_replace(None);
        if let Some(conn) = conn {
            conn.mark_down();
        }
    }
}

/// Called by the dispatcher.
impl MonClient {
    /// Handles a message from a monitor.
    pub(crate) fn handle(&self, msg: Msg) {
        match msg.header.kind {
            MMonMap::KIND => self.take_monmap(&msg),
            MConfig::KIND => {
                if let Ok(settings) = msg.open::<MConfig>() {
                    self.config.send_if_modified(|known| {
                        let is_new = known.as_ref().is_some_and(|known| *known != settings.config);
                        if is_new {
                            *known = Some(settings.config);
                        }
                        is_new
                    });
                }
            }
            MAuthReply::KIND => {
                if let Ok(reply) = msg.open::<MAuthReply>() {
                    // A refusal has no effect before the tickets expire; until then a later renewal may
                    // succeed.
                    let _ = self.auth.renewed(reply.result, &reply.payload);
                }
            }
            _ => {
                let waiting = self.state.lock().requests.take(&msg);
                if let Some(waiting) = waiting {
                    let _ = waiting.send(msg);
                }
            }
        }
    }

    pub(crate) fn connected(&self, conn: &Arc<Connection>) {
        let _ = self.events.send(Event::Connected(Arc::clone(conn)));
    }

    pub(crate) fn refused(&self, conn: &Arc<Connection>, why: &loligo_msgr::Error) {
        let verdict = match why {
            // The faster attempt, which superseded this one, reports its own outcome.
            loligo_msgr::Error::Auth(AuthError::Superseded) => return,
            loligo_msgr::Error::Auth(verdict) => Some(Verdict::Auth(verdict.clone())),
            loligo_msgr::Error::MissingFeatures { bits } => Some(Verdict::MissingFeatures(*bits)),
            _ => None,
        };
        let _ =
            self.events.send(Event::Refused(Arc::clone(conn), Refusal { verdict, text: why.to_string() }));
    }

    pub(crate) fn lost(&self, conn: &Arc<Connection>) {
        let _ = self.events.send(Event::Lost(Arc::clone(conn)));
    }

    fn take_monmap(&self, msg: &Msg) {
        let map = msg.open::<MMonMap>().and_then(|body| MonMap::from_bytes(&body.monmap));
        let Ok(map) = map else { return };
        let mut groups: BTreeMap<u16, Vec<EntityAddr>> = BTreeMap::new();
        for mon in map.mons.values() {
            let addr = mon.public_addrs.to_dial().copied();
            groups.entry(mon.priority).or_default().extend(addr);
        }
        groups.retain(|_, group| !group.is_empty());
        let mut state = self.state.lock();
        state.fsid = Some(map.fsid);
        if map.epoch < state.monmap_epoch || groups.is_empty() {
            return;
        }
        state.monmap_epoch = map.epoch;
        state.groups = groups.into_values().collect();
        if let Some(wanted) = state.wanted.get_mut("monmap") {
            wanted.start = u64::from(map.epoch.0) + 1;
        }
    }
}

/// Called by the hunt.
impl MonClient {
    fn groups(&self) -> Groups {
        self.state.lock().groups.clone()
    }

    /// Opens a session: sends all subscriptions and all pending requests.
    fn open(&self, conn: &Arc<Connection>) {
        let (wanted, questions) = {
            let mut state = self.state.lock();
            if state.closed {
                conn.mark_down();
                return;
            }
            state.conn = Some(Arc::clone(conn));
            state.first_wanted = None;
            (state.wanted.clone(), state.requests.all())
        };
        let _cork = conn.cork();
        let subscribe = MMonSubscribe { what: wanted, hostname: self.hostname.clone() };
        for msg in std::iter::once(Msg::new(&subscribe)).chain(questions) {
            // The loss of a connection closed meanwhile is reported, and the next session sends
            // everything again.
            let _ = conn.send(msg);
        }
    }

    /// Records a failed attempt, for `waits`.
    fn failed(&self, why: String) {
        let before = std::mem::replace(&mut self.state.lock().last_error, why);
        drop(before);
    }

    fn last_error(&self) -> String {
        self.state.lock().last_error.clone()
    }

    /// Records the loss of the session.
    fn forget_session(&self) {
        self.state.lock().conn = None;
    }

    /// Requests new tickets if some are due for renewal.
    pub(crate) fn renew_tickets(&self) {
        let Some(payload) = self.auth.renewal() else { return };
        let (conn, monmap_epoch) = {
            let state = self.state.lock();
            (state.conn.clone(), state.monmap_epoch.0)
        };
        if let Some(conn) = conn {
            let renewal = MAuth { paxos: PaxosHeader::default(), protocol: CEPHX, payload, monmap_epoch };
            let _ = conn.send(Msg::new(&renewal));
        }
    }
}

/// Called to collect waits.
impl MonClient {
    /// Adds the wait for the first session and the pending requests.
    pub(crate) fn waits(&self, age_min: Duration, into: &mut Gathered) {
        let (reason, first, questions) = {
            let state = self.state.lock();
            if state.closed {
                return;
            }
            let reason = match &state.conn {
                Some(conn) => Reason::MonitorAnswer(conn.peer().addr),
                None => {
                    Reason::Monitor { known: state.groups.concat(), last_error: state.last_error.clone() }
                }
            };
            let first = state.first_wanted.map(|since| since.elapsed());
            let questions: Vec<_> = state.requests.ages().filter(|age| *age >= age_min).collect();
            (reason, first.filter(|age| *age >= age_min), questions)
        };
        if let Some(age) = first {
            into.add(Waiter::Client, age, || None, reason.clone());
        }
        for age in questions {
            into.add(Waiter::Question, age, || None, reason.clone());
        }
    }
}

/// `CEPH_AUTH_CEPHX`.
const CEPHX: u32 = 2;

/// Removes a pending request when its caller stops waiting.
struct Forget<'a> {
    monc: &'a MonClient,
    number: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.monc.state.lock().requests.forget(self.number);
    }
}

/// Reports the outcome of the first attempt to open a session.
pub(crate) type FirstSession = oneshot::Sender<Result<(), Error>>;
