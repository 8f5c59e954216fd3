//! What OSDs send: replies, backoffs, maps, notifications.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use loligo_cluster::Peers;
use loligo_msgr::Connection;
use loligo_wire::Tid;
use loligo_wire::message::mon::MCommandReply;
use loligo_wire::message::osd::{BackoffOp, MOSDBackoff, MOSDMap, MOSDOpReply, MWatchNotify, OsdReply};
use loligo_wire::message::{Message as _, Msg};

use super::Objecter;
use super::session::{Answered, Session};
use super::sessions::Link;
use super::steward::{Event, MAPS_WAITING_MAX};
use crate::error::{Errno, OpError};

impl Peers for Objecter {
    /// Handles all messages that one read of an OSD's connection returned.
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        let Some(session) = session_of(conn) else { return };
        let mut replies = Vec::with_capacity(msgs.len());
        for msg in msgs.drain(..) {
            match msg.header.kind {
                MOSDOpReply::KIND => match OsdReply::open(&msg) {
                    Ok(reply) => replies.push((msg.header.tid, reply)),
                    Err(e) => self.end_unreadable(&session, msg.header.tid, e),
                },
                MOSDBackoff::KIND => self.take_backoff(&session, conn, &msg),
                MOSDMap::KIND => self.take_map(&msg),
                MCommandReply::KIND => {
                    if let Ok(reply) = msg.open() {
                        self.commands.answer(msg.header.tid, reply);
                    }
                }
                MWatchNotify::KIND => {
                    if let Ok(msg) = msg.open() {
                        self.lingers.hear(msg);
                    }
                }
                _ => {}
            }
        }
        if !replies.is_empty() {
            self.complete(&session, conn.id(), replies);
        }
    }

    /// Queues maps, sent by a monitor or by an OSD that saw an old epoch.
    fn take_map(&self, msg: &Msg) {
        let came_at = std::time::Instant::now();
        let Ok(maps) = msg.open::<MOSDMap>() else { return };
        if self.maps_waiting.fetch_add(1, Ordering::Relaxed) >= MAPS_WAITING_MAX {
            self.maps_waiting.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        self.tell(Event::Maps { maps, came_at });
    }

    fn authenticated(&self) {
        self.tell(Event::Authenticated);
    }

    fn lost(&self, conn: &Arc<Connection>) {
        if let Some(session) = session_of(conn) {
            self.tell(Event::Lost { session, conn_id: conn.id() });
        }
    }

    /// The OSD requires features that this client does not have. Its operations fail, because every
    /// later attempt would fail too.
    fn refused(&self, conn: &Arc<Connection>, why: &loligo_msgr::Error) {
        let loligo_msgr::Error::MissingFeatures { bits } = why else { return };
        if let Some(session) = session_of(conn).filter(|session| session.uses(conn.id())) {
            session.take_all().iter().for_each(|(_, op)| self.fail(op, OpError::MissingFeatures(*bits)));
        }
    }
}

/// Returns the session that a connection belongs to.
fn session_of(conn: &Connection) -> Option<Arc<Session>> {
    conn.user_data().get()?.downcast_ref::<Link>()?.0.upgrade()
}

impl Objecter {
    /// Ends the operations that an OSD has replied to, and wakes their tasks.
    fn complete(&self, session: &Session, conn_id: u64, replies: Vec<(Tid, OsdReply)>) {
        let answered = session.answered(replies);
        let (mut ops, mut bytes) = (0, 0);
        for answer in &answered {
            if let Answered::Done(op, _) = answer {
                ops += 1;
                bytes += op.cost;
            }
        }
        // Before any task is woken: a woken task may want the place.
        self.throttle.release(ops, bytes);
        for answer in answered {
            match answer {
                Answered::Done(op, reply) => {
                    op.set_answered_on(conn_id);
                    if reply.result == Errno::EBLOCKLISTED.to_result() {
                        self.found_blocklisted();
                    }
                    if let Some(marks) = &op.marks {
                        marks.acked();
                    }
                    op.finish(Ok(reply));
                }
                Answered::Again(op, reply) => self.tell(Event::Again { op, reply }),
            }
        }
    }

    #[cold]
    fn end_unreadable(&self, session: &Session, tid: Tid, why: loligo_wire::DecodeError) {
        if let Some(op) = session.remove(tid) {
            self.fail(&op, OpError::Decode(why));
        }
    }

    #[cold]
    fn take_backoff(&self, session: &Arc<Session>, conn: &Arc<Connection>, msg: &Msg) {
        let Ok(backoff) = msg.open::<MOSDBackoff>() else { return };
        match backoff.op {
            BackoffOp::Block if session.back_off(&backoff, conn) => {
                let map_epoch = self.view.load().epoch();
                let ack = MOSDBackoff { op: BackoffOp::AckBlock, map_epoch, ..backoff };
                let _ = conn.send(Msg::new(&ack));
            }
            BackoffOp::Unblock => self.tell(Event::Unblocked { session: Arc::clone(session), backoff }),
            _ => {}
        }
    }
}
