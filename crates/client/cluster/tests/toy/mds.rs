//! A toy metadata server that replies to each number with the same number.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use loligo_cephx::handshake::ServerAuth;
use loligo_cephx::server::AuthServer;
use loligo_msgr::{AcceptAuth, Config, Connection, Dispatcher, Messenger, Policies, Policy};
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{EntityAddr, EntityType};

use super::{Answer, Ask, Monitor, lock, loopback};

pub(crate) struct Mds {
    addr: EntityAddr,
    shared: Arc<Shared>,
    _messenger: Arc<Messenger>,
}

#[derive(Default)]
struct Shared {
    heard: Mutex<Vec<u64>>,
    clients: Mutex<Vec<String>>,
    conns: Mutex<Vec<Arc<Connection>>>,
    is_silent: Mutex<bool>,
}

impl Mds {
    pub(crate) async fn start(monitor: &Monitor) -> Self {
        let shared = Arc::new(Shared::default());
        let policies = Policies::new(Policy::stateful_server());
        let config = Config { num: 0, nonce: 0, policies, ..Config::new(EntityType::MDS) };
        let messenger = Messenger::new(config, Arc::new(Serve(Arc::clone(&shared))));
        let auth = Arc::new(Tickets(Arc::clone(monitor.auth())));
        let addr = EntityAddr::msgr2(messenger.bind(loopback(), auth).await.expect("a port"));
        Self { addr, shared, _messenger: messenger }
    }

    pub(crate) fn addr(&self) -> EntityAddr {
        self.addr
    }

    /// Returns the numbers in the order of arrival.
    pub(crate) fn heard(&self) -> Vec<u64> {
        lock(&self.shared.heard).clone()
    }

    /// Returns the clients that opened sessions.
    pub(crate) fn clients(&self) -> Vec<String> {
        lock(&self.shared.clients).clone()
    }

    pub(crate) fn fall_silent(&self) {
        *lock(&self.shared.is_silent) = true;
    }

    pub(crate) fn speak_again(&self) {
        *lock(&self.shared.is_silent) = false;
    }

    /// Drops all sessions, as a restart would.
    pub(crate) fn forget_sessions(&self) {
        for conn in std::mem::take(&mut *lock(&self.shared.conns)) {
            conn.mark_down();
        }
    }
}

struct Tickets(Arc<AuthServer>);

impl AcceptAuth for Tickets {
    fn acceptor(&self, _: SocketAddr) -> Box<dyn ServerAuth> {
        self.0.service_acceptor(EntityType::MDS)
    }
}

struct Serve(Arc<Shared>);

impl Dispatcher for Serve {
    fn accepted(&self, conn: &Arc<Connection>) {
        let name = conn.identity().map(|identity| identity.name.to_string());
        lock(&self.0.clients).extend(name);
        lock(&self.0.conns).push(Arc::clone(conn));
    }

    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        for msg in msgs.drain(..).filter(|msg| msg.header.kind == Ask::KIND) {
            let Ask { number } = msg.open().expect("a question");
            lock(&self.0.heard).push(number);
            if !*lock(&self.0.is_silent) {
                let _ = conn.send(Msg::new(&Answer { number }));
            }
        }
    }
}
