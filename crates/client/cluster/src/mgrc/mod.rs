//! The client's session with the active manager: it carries commands, and the reports of this client as
//! a daemon of a service.
//!
//! The session is created on demand: with the first command or registration the client subscribes to the
//! monitors' mgrmap. One task, the [`keeper`], opens the session, sends every message, and reopens a
//! lost session at the address in the map. Other tasks leave their messages in the [`State`] and wake
//! the keeper. A manager receives so few messages that sending from the caller's thread would gain
//! nothing, and a single sender avoids races.
//!
//! A command whose session is lost is resent on the next session, as in librados (`src/mgr/MgrClient.cc`).

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

/// Held to record a command, a reply or a map, and to collect messages to send: a few times a second.
static MGRC: Class = Class::new("cluster.mgrc");

/// Sends requests to managers and receives their replies.
pub struct MgrClient {
    monc: Arc<MonClient>,
    state: Mutex<State>,
    /// Wakes the keeper.
    news: Notify,
    /// Wakes the task that waits for the manager to acknowledge the service's unregistration.
    gone: Notify,
}

#[derive(Default)]
struct State {
    map: MgrMap,
    /// `true` if the client has subscribed to the map.
    follows: bool,
    session: Option<Session>,
    newest: u64,
    /// By number, which is the order of submission.
    commands: BTreeMap<Tid, Waiting>,
    service: Option<Service>,
    closed: bool,
}

/// A connection to the manager that was active when it was opened.
struct Session {
    addr: EntityAddr,
    conn: Arc<Connection>,
    lost: bool,
}

/// The recipient of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToMgr {
    /// The cluster: the active manager executes the command, whichever it is.
    Cluster,
    /// The manager itself: the active one, or the one of this name when it is active.
    Itself(Option<String>),
}

struct Waiting {
    since: Instant,
    to: ToMgr,
    question: Msg,
    /// The connection on which the command was sent.
    sent_on: Option<u64>,
    answer: oneshot::Sender<Result<MCommandReply, Error>>,
}

impl MgrClient {
    pub(crate) fn new(monc: Arc<MonClient>) -> Self {
        let state = Mutex::new(&MGRC, State::default());
        Self { monc, state, news: Notify::new(), gone: Notify::new() }
    }

    /// Sends a command and waits for the reply. Waits for an active manager if there is none, and
    /// resends the command after a lost session.
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

    /// Registers this client as a daemon of a service.
    ///
    /// # Errors
    /// EEXIST if it is registered already.
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

    /// Replaces the service's status, which the next report carries.
    ///
    /// # Errors
    /// ENOENT if this client is not a daemon of a service.
    pub fn set_status(&self, status: BTreeMap<String, String>) -> Result<(), Error> {
        let mut state = self.state.lock();
        let service = state.service.as_mut().ok_or(Errno::ENOENT)?;
        service.set_status(status);
        Ok(())
    }

    /// Unregisters the service's daemon from the manager, and waits up to `patience` for the acknowledgement.
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

    /// Ends the session permanently. Pending commands fail.
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

    /// Subscribes to the mgrmap, once.
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

    /// Handles the mgrmap.
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

    /// A connection attempt failed. The keeper retries until the map changes. If the client has no
    /// ticket for managers, every attempt would fail: pending commands fail at once.
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

/// Messages from managers.
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
            // The caller may have stopped waiting.
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

    /// Applies `change` to the session if `conn` is its connection, and returns whether it is.
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

/// Called to collect waits.
impl MgrClient {
    /// Adds the pending commands.
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
    /// Returns the reason a command waits for.
    fn reason(&self, waiting: &Waiting) -> Reason {
        let active = self.map.active_addrs.to_dial().copied().filter(|_| self.map.available);
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

/// Removes a pending command when its caller stops waiting.
struct Forget<'a> {
    mgrc: &'a MgrClient,
    tid: Tid,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.mgrc.state.lock().commands.remove(&self.tid);
    }
}
