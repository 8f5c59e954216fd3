//! The task that opens sessions with managers and sends messages on them.

use std::sync::Arc;
use std::time::Duration;

use loligo_msgr::{Connection, Policy};
use loligo_wire::message::Msg;
use loligo_wire::{EntityAddr, EntityType};
use tokio::time::Instant;

use super::{MgrClient, Session, State, ToMgr};
use crate::dial::Dialer;

/// State of the task.
pub(crate) struct Keeper {
    mgrc: Arc<MgrClient>,
    dialer: Arc<Dialer>,
    /// Minimum time between the starts of two sessions (`mgr_connect_retry_interval`).
    interval: Duration,
    last_attempt: Option<Instant>,
}

/// The next action.
enum Step {
    /// Open a session with the manager at this address.
    Open(EntityAddr),
    /// Send these messages, then wait for news or until the given time.
    Send(Option<Arc<Connection>>, Vec<Msg>, Option<Instant>),
    /// The client is being shut down.
    End,
}

impl Keeper {
    pub(crate) fn new(mgrc: Arc<MgrClient>, dialer: Arc<Dialer>, interval: Duration) -> Self {
        Self { mgrc, dialer, interval, last_attempt: None }
    }

    /// Runs until it is aborted.
    pub(crate) async fn run(mut self) {
        loop {
            let (step, unused) = self.next_step(Instant::now());
            if let Some(session) = unused {
                session.conn.mark_down();
            }
            match step {
                Step::Open(addr) => self.open(addr),
                Step::Send(conn, msgs, until) => {
                    if let Some(conn) = conn {
                        let _cork = conn.cork();
                        for msg in msgs {
                            // If the connection is lost by now, everything is resent on the next one.
                            let _ = conn.send(msg);
                        }
                    }
                    self.wait(until).await;
                }
                Step::End => return,
            }
        }
    }

    async fn wait(&self, until: Option<Instant>) {
        let news = self.mgrc.news.notified();
        match until {
            None => news.await,
            // The next step checks for due work whether news arrived or not.
            Some(until) => drop(tokio::time::timeout_at(until, news).await),
        }
    }

    /// Chooses the next step. Also returns a session to close: one that is lost, or one with a manager
    /// that is no longer active.
    fn next_step(&self, now: Instant) -> (Step, Option<Session>) {
        let mut state = self.mgrc.state.lock();
        if state.closed {
            return (Step::End, None);
        }
        let active = state.map.active_addrs.to_dial().copied().filter(|_| state.map.available);
        let stays = |session: &mut Session| !session.lost && Some(session.addr) == active;
        let unused = state.session.take_if(|session| !stays(session));
        let step = match (&state.session, active) {
            (None, Some(addr)) if state.wants_a_session() => {
                match self.last_attempt.map(|last| last + self.interval).filter(|due| *due > now) {
                    Some(due) => Step::Send(None, Vec::new(), Some(due)),
                    None => Step::Open(addr),
                }
            }
            (None, _) => Step::Send(None, Vec::new(), None),
            (Some(session), _) => {
                let conn = Arc::clone(&session.conn);
                let msgs = state.unsent(conn.id(), now);
                let until = state.service.as_ref().and_then(|service| service.next_report());
                Step::Send(Some(conn), msgs, until)
            }
        };
        (step, unused)
    }

    fn open(&mut self, addr: EntityAddr) {
        self.last_attempt = Some(Instant::now());
        let mut closed = false;
        let conn = self.dialer.connect(EntityType::MGR, addr, Policy::lossy_client(), |conn| {
            let mut state = self.mgrc.state.lock();
            closed = state.closed;
            if !closed {
                state.session = Some(Session { addr, conn: Arc::clone(conn), lost: false });
            }
        });
        // `None` means that the client is being dropped, and this task with it.
        if let Some(conn) = conn.filter(|_| closed) {
            conn.mark_down();
        }
    }
}

impl State {
    fn wants_a_session(&self) -> bool {
        self.service.is_some() || !self.commands.is_empty()
    }

    /// Returns the messages that belong on this connection and have not been sent there, in order.
    fn unsent(&mut self, conn_id: u64, now: Instant) -> Vec<Msg> {
        let mut msgs = Vec::new();
        if let Some(service) = &mut self.service {
            msgs.extend(service.open(conn_id).map(|open| Msg::new(&open)));
            msgs.extend(service.report(now).map(|report| Msg::new(&report)));
        }
        for waiting in self.commands.values_mut().filter(|waiting| waiting.sent_on != Some(conn_id)) {
            let for_active = match &waiting.to {
                ToMgr::Cluster | ToMgr::Itself(None) => true,
                ToMgr::Itself(Some(name)) => *name == self.map.active_name,
            };
            if for_active {
                waiting.sent_on = Some(conn_id);
                msgs.push(waiting.question.clone());
            }
        }
        msgs
    }
}
