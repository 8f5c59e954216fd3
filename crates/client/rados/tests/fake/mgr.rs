//! Managers of the fake cluster. Each records the messages it receives and replies to commands with its
//! name, unless it is told to keep still.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use loligo_msgr::testing::OpenDoor;
use loligo_msgr::{Config, Connection, Dispatcher, Messenger};
use loligo_wire::message::mgr::{
    MMgrClose, MMgrCommand, MMgrCommandReply, MMgrConfigure, MMgrOpen, MMgrReport,
};
use loligo_wire::message::mon::{MCommand, MCommandReply, MgrMap};
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{EntityAddr, EntityAddrVec, EntityType};

use super::{lock, loopback};

/// A message that a manager has received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A command for the cluster.
    Command(String),
    /// A command for the manager itself.
    Tell(String),
    Open(MMgrOpen),
    Report(MMgrReport),
    Close(MMgrClose),
}

pub(crate) struct Mgr {
    name: &'static str,
    addr: EntityAddr,
    ears: Arc<Ears>,
    _messenger: Arc<Messenger>,
}

struct Ears {
    name: &'static str,
    keeps_still: AtomicBool,
    heard: Mutex<Vec<Heard>>,
    clients: Mutex<Vec<Arc<Connection>>>,
}

impl Mgr {
    pub(crate) async fn start(name: &'static str, nonce: u32) -> Self {
        let ears = Ears {
            name,
            keeps_still: AtomicBool::new(false),
            heard: Mutex::default(),
            clients: Mutex::default(),
        };
        let ears = Arc::new(ears);
        let config = Config { num: 1, nonce, ..Config::new(EntityType::MGR) };
        let messenger = Messenger::new(config, Arc::clone(&ears) as Arc<dyn Dispatcher>);
        let addr = messenger.bind(loopback(), OpenDoor::client("mgr")).await.expect("a port");
        let addr = EntityAddr::msgr2(addr).with_nonce(nonce);
        Self { name, addr, ears, _messenger: messenger }
    }

    pub(super) fn as_active(&self) -> MgrMap {
        MgrMap {
            active_addrs: EntityAddrVec::from(self.addr),
            active_gid: 1,
            available: true,
            active_name: self.name.to_owned(),
            ..MgrMap::default()
        }
    }

    /// Sets whether commands are left without a reply.
    pub(crate) fn keep_still(&self, still: bool) {
        self.ears.keeps_still.store(still, Ordering::Relaxed);
    }

    pub(crate) fn heard(&self) -> Vec<Heard> {
        lock(&self.ears.heard).clone()
    }

    pub(crate) fn reset_connections(&self) {
        for conn in std::mem::take(&mut *lock(&self.ears.clients)) {
            conn.mark_down();
        }
    }
}

impl Dispatcher for Ears {
    fn accepted(&self, conn: &Arc<Connection>) {
        lock(&self.clients).push(Arc::clone(conn));
    }

    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        for msg in msgs.drain(..) {
            let heard = match msg.header.kind {
                MMgrCommand::KIND => {
                    let MMgrCommand(command) = msg.open().expect("a command");
                    self.answer(conn, &msg, |reply| Msg::new(&MMgrCommandReply(reply)));
                    Heard::Command(command.cmd[0].clone())
                }
                MCommand::KIND => {
                    let command: MCommand = msg.open().expect("a command");
                    self.answer(conn, &msg, |reply| Msg::new(&reply));
                    Heard::Tell(command.cmd[0].clone())
                }
                MMgrOpen::KIND => {
                    let _ = conn.send(Msg::new(&MMgrConfigure { stats_period_s: 1 }));
                    Heard::Open(msg.open().expect("a daemon"))
                }
                MMgrReport::KIND => Heard::Report(msg.open().expect("a report")),
                MMgrClose::KIND => {
                    let _ = conn.send(msg.clone());
                    Heard::Close(msg.open().expect("a daemon"))
                }
                other => panic!("a manager hears {other:#x}"),
            };
            lock(&self.heard).push(heard);
        }
    }
}

impl Ears {
    fn answer(&self, conn: &Connection, question: &Msg, pack: impl FnOnce(MCommandReply) -> Msg) {
        if self.keeps_still.load(Ordering::Relaxed) {
            return;
        }
        let output = Bytes::from_static(self.name.as_bytes());
        let reply = MCommandReply { result: 0, status: "done".to_owned(), output };
        let _ = conn.send(pack(reply).with_tid(question.header.tid));
    }
}
