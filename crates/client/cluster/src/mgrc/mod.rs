//! The client's session with the active manager: commands that it executes, and this client as a daemon of a
//! service.
//!
//! Nothing of it exists before it is wanted: with the first command or registration the client begins to
//! follow the monitors' map of managers. One task, the [`keeper`], opens the session, sends everything, and
//! opens it again where the map says when it is lost; all others leave what they want in the [`State`] and
//! wake it. A manager gets so few messages that nothing is gained by sending from the caller's thread, and
//! nothing can be sent by two at once.
//!
//! A command whose session is lost is sent again on the next one, as by librados (`src/mgr/MgrClient.cc`).

mod keeper;
mod service;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use loligo_cephx::handshake::AuthError;
use loligo_lockstat::{Class, Mutex};
use loligo_msgr::Connection;
use loligo_wire::message::mgr::{MMgrClose, MMgrCommand, MMgrCommandReply, MMgrConfigure};
use loligo_wire::message::mon::{MCommand, MCommandReply, MMgrMap, MgrMap};
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{EntityAddr, Tid};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::error::{Errno, Error};
use crate::monc::MonClient;
use crate::peers::Peers;
use crate::waits::{Gathered, Reason, Waiter};

pub(crate) use self::keeper::Keeper;
pub use self::service::Service;

/// Held to note a command, an answer, a map, or to look what is to be sent: a few a second.
static MGRC: Class = Class::new("cluster.mgrc");

/// What a client asks of managers and they answer; see the [module's](self) documentation.
pub struct MgrClient {
    monc: Arc<MonClient>,
    state: Mutex<State>,
    /// Wakes the keeper.
    news: Notify,
    /// Wakes whoever waits for the manager to let the service go.
    gone: Notify,
}

#[derive(Default)]
struct State {
    map: MgrMap,
    /// Whether the monitors were asked for the map.
    follows: bool,
    session: Option<Session>,
    newest: u64,
    /// By number, which is the order in which they were given.
    commands: BTreeMap<Tid, Waiting>,
    service: Option<Service>,
    closed: bool,
}

/// A connection to the manager that the map had then.
struct Session {
    addr: EntityAddr,
    conn: Arc<Connection>,
    lost: bool,
}

/// For whom a command is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToMgr {
    /// The cluster: whichever manager is active executes it.
    Cluster,
    /// The manager itself: the active one, if it has this name or none is said.
    Itself(Option<String>),
}

struct Waiting {
    since: Instant,
    to: ToMgr,
    question: Msg,
    /// The connection that it was sent on.
    sent_on: Option<u64>,
    answer: oneshot::Sender<Result<MCommandReply, Error>>,
}

impl MgrClient {
    pub(crate) fn new(monc: Arc<MonClient>) -> Self {
        let state = Mutex::new(&MGRC, State::default());
        Self { monc, state, news: Notify::new(), gone: Notify::new() }
    }

    /// Sends a command and waits for the answer: as long as there is no active manager, and across lost
    /// sessions.
    pub async fn command(&self, to: ToMgr, command: MCommand) -> Result<MCommandReply, Error> {
        let (answer, answered) = oneshot::channel();
        let tid = {
            let mut state = self.state.lock();
            if state.closed {
                return Err(Error::Shutdown);
            }
            state.newest += 1;
            let tid = Tid(state.newest);
            let question = match &to {
                ToMgr::Cluster => Msg::new(&MMgrCommand(command)),
                ToMgr::Itself(_) => Msg::new(&command),
            };
            let question = question.with_tid(tid);
            state
                .commands
                .insert(tid, Waiting { since: Instant::now(), to, question, sent_on: None, answer });
            tid
        };
        let _forget = Forget { mgrc: self, tid };
        self.follow();
        self.news.notify_one();
        answered.await.map_err(|_| Error::Shutdown)?
    }

    /// Makes this client a daemon of a service, from now on.
    ///
    /// # Errors
    /// EEXIST if it is one already.
    pub fn register(&self, service: Service) -> Result<(), Error> {
        {
            let mut state = self.state.lock();
            if state.closed {
                return Err(Error::Shutdown);
            }
            if state.service.is_some() {
                return Err(Errno::EEXIST.into());
            }
            state.service = Some(service);
        }
        self.follow();
        self.news.notify_one();
        Ok(())
    }

    /// Replaces the service's status, which goes along with the next report.
    ///
    /// # Errors
    /// ENOENT if this client is not a daemon of a service.
    pub fn set_status(&self, status: BTreeMap<String, String>) -> Result<(), Error> {
        let mut state = self.state.lock();
        let service = state.service.as_mut().ok_or(Errno::ENOENT)?;
        service.set_status(status);
        Ok(())
    }

    /// Tells the manager that the service's daemon goes, and waits until it has heard that, but not longer
    /// than `patience`.
    pub async fn unregister(&self, patience: Duration) {
        let gone = self.gone.notified();
        let (conn, close) = {
            let mut state = self.state.lock();
            let (Some(service), Some(session)) = (state.service.take(), &state.session) else { return };
            if !service.is_known_on(session.conn.id()) {
                return;
            }
            (Arc::clone(&session.conn), service.close())
        };
        if conn.send(Msg::new(&close)).is_ok() {
            let _ = tokio::time::timeout(patience, gone).await;
        }
    }

    /// Ends the session for ever; those who wait for answers get none.
    pub(crate) fn close(&self) {
        let (session, _commands) = {
            let mut state = self.state.lock();
            state.closed = true;
            (state.session.take(), std::mem::take(&mut state.commands))
        };
        if let Some(session) = session {
            session.conn.mark_down();
        }
    }

    /// Has the monitors send the map of managers, once.
    fn follow(&self) {
        let follows = std::mem::replace(&mut self.state.lock().follows, true);
        if !follows {
            self.monc.follow("mgrmap", 0);
        }
    }
}

impl Peers for MgrClient {
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        msgs.drain(..).for_each(|msg| self.handle(conn, &msg));
    }

    /// The monitors' map of managers.
    fn take_map(&self, msg: &Msg) {
        let Ok(MMgrMap { map }) = msg.open() else { return };
        self.monc.got("mgrmap", map.epoch.0.into());
        let newer = {
            let mut state = self.state.lock();
            let newer = map.epoch > state.map.epoch;
            if newer {
                state.map = map;
            }
            newer
        };
        if newer {
            self.news.notify_one();
        }
    }

    fn lost(&self, conn: &Arc<Connection>) {
        let ours = self.with_session(conn, |session| session.lost = true);
        if ours {
            self.news.notify_one();
        }
    }

    /// A connection could not be made. It is tried again until the map says otherwise; but whoever has no
    /// ticket will never be let in.
    fn refused(&self, conn: &Arc<Connection>, why: &loligo_msgr::Error) {
        let loligo_msgr::Error::Auth(verdict @ AuthError::NoCredentials(_)) = why else { return };
        if !self.with_session(conn, |_| ()) {
            return;
        }
        let commands = std::mem::take(&mut self.state.lock().commands);
        for waiting in commands.into_values() {
            let _ = waiting.answer.send(Err(verdict.clone().into()));
        }
    }
}

/// What comes from managers.
impl MgrClient {
    fn handle(&self, conn: &Connection, msg: &Msg) {
        let reply = match msg.header.kind {
            MCommandReply::KIND => msg.open(),
            MMgrCommandReply::KIND => msg.open().map(|MMgrCommandReply(reply)| reply),
            MMgrConfigure::KIND => return self.configure(conn, msg),
            MMgrClose::KIND => return self.gone.notify_waiters(),
            _ => return,
        };
        let reply = reply.map_err(|source| Error::Decode { what: MCommandReply::NAME, source });
        let waiting = self.state.lock().commands.remove(&msg.header.tid);
        if let Some(waiting) = waiting {
            // Whoever has asked may have gone.
            let _ = waiting.answer.send(reply);
        }
    }

    fn configure(&self, conn: &Connection, msg: &Msg) {
        let Ok(MMgrConfigure { stats_period_s }) = msg.open() else { return };
        let period = Duration::from_secs(stats_period_s.into());
        let mut state = self.state.lock();
        if let Some(service) = &mut state.service
            && service.is_known_on(conn.id())
        {
            service.report_each(period, Instant::now());
            drop(state);
            self.news.notify_one();
        }
    }

    /// Says whether `conn` is the session's, and changes that.
    fn with_session(&self, conn: &Connection, change: impl FnOnce(&mut Session)) -> bool {
        let mut state = self.state.lock();
        match state.session.as_mut().filter(|session| session.conn.id() == conn.id()) {
            Some(session) => {
                change(session);
                true
            }
            None => false,
        }
    }
}

/// What is shown.
impl MgrClient {
    /// Commands without an answer.
    pub(crate) fn waits(&self, age_min: Duration, into: &mut Gathered) {
        let waiting: Vec<_> = {
            let state = self.state.lock();
            let old = state.commands.values().filter(|waiting| waiting.since.elapsed() >= age_min);
            old.map(|waiting| (waiting.since.elapsed(), state.reason(waiting))).collect()
        };
        for (age, reason) in waiting {
            into.add(Waiter::Command, age, || None, reason);
        }
    }
}

impl State {
    /// What a command waits for.
    fn reason(&self, waiting: &Waiting) -> Reason {
        let active = self.map.active_addrs.msgr2().copied().filter(|_| self.map.available);
        let name = || self.map.active_name.clone();
        let wanted = match &waiting.to {
            ToMgr::Itself(Some(wanted)) if *wanted != self.map.active_name => Some(wanted.clone()),
            _ => None,
        };
        match (active, wanted) {
            (None, wanted) => Reason::Manager { wanted, active: None },
            (Some(_), Some(wanted)) => Reason::Manager { wanted: Some(wanted), active: Some(name()) },
            (Some(addr), None) => match &self.session {
                Some(session) if session.conn.state() == loligo_msgr::State::Open => {
                    Reason::ManagerAnswer(name())
                }
                _ => Reason::ManagerConnection(addr),
            },
        }
    }
}

/// Takes a command back when nobody waits for its answer any more.
struct Forget<'a> {
    mgrc: &'a MgrClient,
    tid: Tid,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.mgrc.state.lock().commands.remove(&self.tid);
    }
}
