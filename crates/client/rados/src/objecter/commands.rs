//! Pending commands to OSDs and to the primaries of placement groups (`ceph tell osd.N`, `ceph pg P`).
//!
//! Commands use the connections of the operations, without ordering. A command whose connection is lost
//! is resent on the next one, as in librados: repeating an OSD command is harmless.

use loligo_lockstat::{Class, Mutex};
use loligo_wire::message::Msg;
use loligo_wire::message::mon::{MCommand, MCommandReply};
use loligo_wire::{OsdId, PgId, Tid};
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;
use tokio::time::Instant;

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Objecter;
use super::sessions::NoSession;
use super::submit::send;
use super::target::MapView;
use crate::error::{Errno, Error, OpError};

/// Held to record a command, or to inspect them all: there are few at a time.
static COMMANDS: Class = Class::new("rados.commands");

/// The recipient of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addressee {
    Osd(OsdId),
    /// The primary of the placement group.
    Pg(PgId),
}

/// Commands without a reply.
pub(super) struct Commands(Mutex<FxHashMap<Tid, Waiting>>);

struct Waiting {
    since: Instant,
    to: Addressee,
    question: Msg,
    /// The connection on which the command was sent.
    sent_on: Option<u64>,
    answer: oneshot::Sender<Result<MCommandReply, OpError>>,
}

impl Commands {
    pub(super) fn new() -> Self {
        Self(Mutex::new(&COMMANDS, FxHashMap::default()))
    }

    /// Fails all pending commands.
    pub(super) fn close(&self) {
        let all = std::mem::take(&mut *self.0.lock());
        for waiting in all.into_values() {
            let _ = waiting.answer.send(Err(OpError::Shutdown));
        }
    }

    pub(super) fn answer(&self, tid: Tid, reply: MCommandReply) {
        self.end(tid, Ok(reply));
    }

    fn end(&self, tid: Tid, with: Result<MCommandReply, OpError>) {
        let waiting = self.0.lock().remove(&tid);
        if let Some(waiting) = waiting {
            // The caller may have stopped waiting.
            let _ = waiting.answer.send(with);
        }
    }

    /// Returns the age and the recipient of the commands that have waited for `age_min` or longer.
    pub(super) fn older(&self, age_min: Duration) -> Vec<(Duration, Addressee)> {
        let all = self.0.lock();
        let aged = all.values().map(|waiting| (waiting.since.elapsed(), waiting.to));
        aged.filter(|(age, _)| *age >= age_min).collect()
    }

    /// Records that a command is sent on a connection, and returns its message. Returns `None` if it was
    /// already sent on this connection or has ended.
    fn to_send(&self, tid: Tid, conn_id: u64) -> Option<Msg> {
        let mut all = self.0.lock();
        let waiting = all.get_mut(&tid).filter(|waiting| waiting.sent_on != Some(conn_id))?;
        waiting.sent_on = Some(conn_id);
        Some(waiting.question.clone())
    }
}

impl Objecter {
    /// Sends a command and waits for the reply.
    pub(crate) async fn command(&self, to: Addressee, command: &MCommand) -> Result<MCommandReply, Error> {
        let asking = self.command_at_leisure(to, command);
        match self.op_timeout() {
            None => asking.await,
            Some(limit) => tokio::time::timeout(limit, asking).await.unwrap_or(Err(Error::Timeout(limit))),
        }
    }

    async fn command_at_leisure(&self, to: Addressee, command: &MCommand) -> Result<MCommandReply, Error> {
        if self.view.load().addressee(to).is_err() {
            // The recipient may be new.
            self.wait_for_newest().await?;
        }
        let tid = Tid(self.tids.fetch_add(1, Ordering::Relaxed));
        let (answer, answered) = oneshot::channel();
        let question = Msg::new(command).with_tid(tid);
        self.commands
            .0
            .lock()
            .insert(tid, Waiting { since: Instant::now(), to, question, sent_on: None, answer });
        let _forget = Forget { commands: &self.commands, tid };
        if self.sessions.is_closed() {
            return Err(Error::Shutdown);
        }
        self.send_command(tid, to);
        Ok(answered.await.map_err(|_| Error::Shutdown)??)
    }

    /// Sends all commands that were not yet sent to the recipient that the map gives, and fails those
    /// without a recipient. Call it after a change of the map or of a connection.
    pub(super) fn send_commands(&self) {
        let all: Vec<(Tid, Addressee)> = self.commands.0.lock().iter().map(|(tid, w)| (*tid, w.to)).collect();
        for (tid, to) in all {
            self.send_command(tid, to);
        }
    }

    fn send_command(&self, tid: Tid, to: Addressee) {
        let view = self.view.load();
        let osd = match view.addressee(to) {
            Ok(osd) => osd,
            Err(errno) => return self.commands.end(tid, Err(OpError::Os(errno))),
        };
        match self.sessions.with(Some(osd), &view, |session| session.conn()) {
            Ok(Some(conn)) => {
                if let Some(msg) = self.commands.to_send(tid, conn.id()) {
                    send(&conn, msg);
                }
            }
            // The steward is about to adopt a newer map, after which it sends all commands.
            Ok(None) | Err(NoSession::Stale) => {}
            Err(NoSession::Closed) => self.commands.end(tid, Err(OpError::Shutdown)),
        }
    }
}

impl MapView {
    /// Returns the OSD that a command goes to. Fails with ENOENT if the OSD or the pool does not exist,
    /// and with ENXIO if no OSD can receive the command now, as librados does.
    pub(super) fn addressee(&self, to: Addressee) -> Result<OsdId, Errno> {
        let osd = match to {
            Addressee::Osd(osd) => osd,
            Addressee::Pg(pg) => {
                let pool = self.map().pool(pg.pool).ok_or(Errno::ENOENT)?;
                if pg.seed >= pool.pg_num() {
                    return Err(Errno::ENOENT);
                }
                self.map().acting_primary(pg).ok_or(Errno::ENXIO)?
            }
        };
        if !self.map().exists(osd) {
            return Err(Errno::ENOENT);
        }
        let listens = self.map().is_up(osd) && self.addr_of(osd).is_some();
        listens.then_some(osd).ok_or(Errno::ENXIO)
    }
}

/// Removes a pending command when its caller stops waiting.
struct Forget<'a> {
    commands: &'a Commands,
    tid: Tid,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.commands.0.lock().remove(&self.tid);
    }
}
