//! Messages of metadata servers, and maps of them.

use std::sync::{Arc, Weak};

use loligo_cluster::Peers;
use loligo_maps::FsMapUser;
use loligo_msgr::Connection;
use loligo_wire::message::mds::{
    ClientCaps, ClientLease, ClientQuota, ClientReply, ClientSession, ClientSnap, LeaseAction,
    RequestForward, SessionOp, SnapOp, SnapTrace,
};
use loligo_wire::message::mon::{MFSMapUser, MMDSMap};
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{Decode as _, DecodeError};

use crate::core::Core;
use crate::inode::InodeId;
use crate::session::{Ended, Phase, Session};
use crate::sink::Invalidation;

impl Peers for Core {
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        let Some(session) = session_of(conn) else { return };
        for msg in msgs.drain(..) {
            if let Err((what, source)) = self.handle(&session, &msg) {
                // What follows may refer to what could not be read: this session cannot go on.
                self.session_ended(&session, Ended::Broken(what, source));
                conn.refuse(msg.header.kind, source);
                return;
            }
        }
    }

    fn take_map(&self, msg: &Msg) {
        match msg.header.kind {
            MMDSMap::KIND => self.take_mds_map(msg),
            MFSMapUser::KIND => {
                if let Ok(body) = msg.open::<MFSMapUser>()
                    && let Ok(names) = FsMapUser::from_bytes(&body.map)
                {
                    self.cluster().monitors().got("fsmap.user", body.epoch.0.into());
                    self.names.send_replace(Some(names));
                }
            }
            _ => {}
        }
    }

    fn lost(&self, conn: &Arc<Connection>) {
        if let Some(session) = session_of(conn) {
            self.session_ended(&session, Ended::Lost);
        }
    }

    fn forgotten(&self, conn: &Arc<Connection>) {
        if let Some(session) = session_of(conn) {
            match session.phase() {
                // The server closes the connection of a session that it has closed.
                Phase::Closing => self.session_ended(&session, Ended::Closed),
                // Nothing was agreed on: the next request opens another session.
                Phase::Opening => self.session_ended(&session, Ended::Lost),
                // It has restarted, or has evicted this client: the next map tells, or none.
                Phase::Open | Phase::Reconnecting => {
                    let now = self.now_ms();
                    session.trust.suspend();
                    session.state().forgotten_ms.get_or_insert(now);
                }
                Phase::Ended(_) => {}
            }
        }
    }
}

/// Returns the session that a connection was opened for.
fn session_of(conn: &Connection) -> Option<Arc<Session>> {
    conn.user_data().get()?.downcast_ref::<Weak<Session>>()?.upgrade()
}

/// A message's name, and why it cannot be decoded.
type Undecodable = (&'static str, DecodeError);

impl Core {
    fn handle(&self, session: &Session, msg: &Msg) -> Result<(), Undecodable> {
        match msg.header.kind {
            ClientSession::KIND => self.take_session(session, &opened(msg)?),
            ClientReply::KIND => {
                self.take_reply(session, msg).map_err(|source| (ClientReply::NAME, source))?;
            }
            RequestForward::KIND => self.take_forward(session, msg.header.tid, opened(msg)?),
            ClientCaps::KIND => {
                session.pushed();
                self.take_caps(session, msg).map_err(|source| (ClientCaps::NAME, source))?;
            }
            ClientSnap::KIND => {
                session.pushed();
                self.take_snap(&opened(msg)?).map_err(|source| (ClientSnap::NAME, source))?;
            }
            ClientLease::KIND => {
                session.pushed();
                self.take_lease(session, opened(msg)?);
            }
            ClientQuota::KIND => {
                session.pushed();
                self.take_quota(&opened(msg)?);
            }
            // Nothing else is sent to clients; a newer server may send what can be ignored.
            _ => {}
        }
        Ok(())
    }

    fn take_session(&self, session: &Session, msg: &ClientSession) {
        match msg.op {
            SessionOp::Open => self.session_opened(session, msg),
            SessionOp::RenewCaps => self.session_renewed(session, msg.seq),
            SessionOp::Close => {
                let why = if session.phase() == Phase::Closing { Ended::Closed } else { Ended::Lost };
                self.session_ended(session, why);
            }
            SessionOp::Stale => {
                session.trust.end_generation();
                self.invalidate(Invalidation::Everything);
                session.renew(self.now_ms());
            }
            SessionOp::RecallState => self.trim(session, msg.max_caps as usize),
            SessionOp::FlushMsg => {
                session.send_releases();
                session.send(Msg::new(&ClientSession::new(SessionOp::FlushMsgAck, msg.seq)));
            }
            SessionOp::ForceReadOnly => {
                session.state().is_read_only = true;
                // Writes that wait for room or a capability fail.
                self.wake_all();
            }
            SessionOp::Reject => {
                let why =
                    msg.error_string().map_or_else(|| "no reason given".to_owned(), ToString::to_string);
                if is_of_blocklist(msg, &why) {
                    self.shut_out();
                }
                self.session_ended(session, Ended::Rejected(why));
            }
            // A server sends no other.
            _ => {}
        }
    }

    fn take_snap(&self, msg: &ClientSnap) -> Result<(), DecodeError> {
        let trace = SnapTrace::from_blob(&msg.trace, false)?;
        let mut changed = self.realms.take(&trace.0);
        if msg.op == SnapOp::Split {
            changed.extend(self.realms.split(msg.split, &msg.split_realms));
            self.split(msg.split, &msg.split_inos);
        }
        self.new_snapshots(&changed);
        Ok(())
    }

    fn take_lease(&self, session: &Session, msg: ClientLease) {
        let Some(dir) = self.inodes.get(InodeId::head(msg.ino)) else { return };
        if msg.action == LeaseAction::Revoke {
            dir.known().forget_name(&msg.name);
            if self.is_watched() {
                self.invalidate(Invalidation::Name(dir.id.into(), msg.name.clone()));
            }
            session.send(Msg::new(&ClientLease { action: LeaseAction::Release, ..msg }));
        }
    }

    fn take_quota(&self, msg: &ClientQuota) {
        let Some(dir) = self.inodes.get(InodeId::head(msg.ino)) else { return };
        let mut known = dir.known();
        known.attrs.quota = msg.quota;
        let recursive = &mut known.attrs.recursive;
        (recursive.rbytes, recursive.rfiles, recursive.rsubdirs) = (msg.rbytes, msg.rfiles, msg.rsubdirs);
        recursive.rctime = msg.rctime;
    }
}

/// Returns `true` if a server refuses a session because the client is on the blocklist. Servers of old
/// releases say so in words only.
fn is_of_blocklist(msg: &ClientSession, why: &str) -> bool {
    msg.flags & ClientSession::BLOCKLISTED != 0 || why.contains("blacklisted") || why.contains("blocklisted")
}

/// Decodes a message.
fn opened<M: loligo_wire::message::Message>(msg: &Msg) -> Result<M, Undecodable> {
    msg.open().map_err(|source| (M::NAME, source))
}
