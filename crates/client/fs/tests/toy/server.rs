//! A metadata server.

use std::sync::Arc;

use loligo_msgr::{Connection, Dispatcher};
use loligo_wire::message::mds::{
    CapOp, ClientCaps, ClientReconnect, ClientRequest, ClientSession, SessionOp,
};
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{Caps, Rank, Tid};

use crate::cluster::{Heard, Shared, Verdict, lock};

/// See the [module](self).
pub(crate) struct Server {
    pub(crate) rank: Rank,
    pub(crate) shared: Arc<Shared>,
}

impl Dispatcher for Server {
    fn accepted(&self, conn: &Arc<Connection>) {
        lock(&self.shared.conns).insert(self.rank, Arc::clone(conn));
    }

    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        for msg in msgs.drain(..) {
            lock(&self.shared.heard).push((self.rank, msg.clone()));
            let verdict = lock(&self.shared.script)(&Heard { rank: self.rank, msg: &msg });
            let answers = match verdict {
                Verdict::Serve => self.serve(&msg),
                Verdict::Drop => Vec::new(),
                Verdict::Say(answers) => answers,
            };
            for answer in answers {
                let twisted = match lock(&self.shared.twist).as_mut() {
                    Some(twist) => twist(answer),
                    None => vec![answer],
                };
                for msg in twisted {
                    let _ = conn.send(msg);
                }
            }
        }
    }
}

impl Server {
    /// Does what a good server does.
    fn serve(&self, msg: &Msg) -> Vec<Msg> {
        match msg.header.kind {
            ClientSession::KIND => self.session(&msg.open().expect("a session message")),
            ClientRequest::KIND => {
                let request: ClientRequest = msg.open().expect("a request");
                let reply = lock(&self.shared.tree).serve(&request);
                vec![Msg::new(&reply).with_tid(msg.header.tid)]
            }
            ClientCaps::KIND => {
                let caps: ClientCaps = msg.open().expect("a message about a capability");
                lock(&self.shared.tree).wants(caps.ino, caps.wanted);
                flushed(&caps, msg.header.tid)
            }
            ClientReconnect::KIND => vec![self.opened()],
            _ => Vec::new(),
        }
    }

    fn session(&self, msg: &ClientSession) -> Vec<Msg> {
        match msg.op {
            SessionOp::RequestOpen => {
                *lock(&self.shared.abilities) = (msg.features.clone(), msg.metric_spec.clone());
                vec![self.opened()]
            }
            SessionOp::RequestRenewCaps => vec![Msg::new(&ClientSession::new(SessionOp::RenewCaps, msg.seq))],
            SessionOp::RequestClose => vec![Msg::new(&ClientSession::new(SessionOp::Close, msg.seq))],
            _ => Vec::new(),
        }
    }

    /// A session is open. The server can do what the client can, and wants all its metrics.
    fn opened(&self) -> Msg {
        let (features, metric_spec) = lock(&self.shared.abilities).clone();
        Msg::new(&ClientSession { features, metric_spec, ..ClientSession::new(SessionOp::Open, 0) })
    }
}

/// What was changed is durable.
fn flushed(caps: &ClientCaps, tid: Tid) -> Vec<Msg> {
    if caps.dirty == Caps::NONE {
        return Vec::new();
    }
    let op = if caps.op == CapOp::FlushSnap { CapOp::FlushSnapAck } else { CapOp::FlushAck };
    let body = ClientCaps {
        op,
        ino: caps.ino,
        cap_id: caps.cap_id,
        seq: caps.seq,
        caps: caps.caps,
        dirty: caps.dirty,
        snap_follows: caps.snap_follows,
        ..ClientCaps::default()
    };
    vec![Msg::new(&body).with_tid(tid)]
}
