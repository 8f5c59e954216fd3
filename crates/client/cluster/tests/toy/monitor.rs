//! A toy monitor with one user and one map.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loligo_cephx::handshake::ServerAuth;
use loligo_cephx::key::{CryptoKey, KeyType};
use loligo_cephx::keyring::{Entry, Keyring};
use loligo_cephx::server::{AuthConfig, AuthServer, Rotation, ServiceKeys};
use loligo_cluster::{Builder, Conf, Environment};
use loligo_maps::MonMap;
use loligo_msgr::{AcceptAuth, Config, Connection, Dispatcher, Messenger, Policies, Policy};
use loligo_wire::message::mon::{MAuth, MAuthReply, MConfig, MMonMap, MMonSubscribe};
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{Encode as _, EntityAddr, EntityAddrVec, EntityName, EntityType, GlobalId, UTime, Uuid};

use super::{Map, lock, loopback};

pub(crate) struct Monitor {
    addr: SocketAddr,
    key: CryptoKey,
    shared: Arc<Shared>,
    _messenger: Arc<Messenger>,
}

struct Shared {
    auth: Arc<AuthServer>,
    map: Mutex<Map>,
    followers: Mutex<Vec<Arc<Connection>>>,
}

impl Monitor {
    pub(crate) async fn start() -> Self {
        let key = CryptoKey::generate(UTime::now());
        let mut ring = Keyring::new();
        let caps = Entry::new(key.clone()).with_caps("mon", "allow r").with_caps("mds", "allow");
        ring.insert(EntityName::client("toy"), caps);
        let lasting = Duration::from_secs(3600);
        let rotation = Rotation { mon_ttl: lasting, service_ttl: lasting, cipher: KeyType::Aes };
        let keys = Arc::new(ServiceKeys::new(rotation, UTime::now()));
        let auth = AuthServer::new(AuthConfig::new(UTime::now), Arc::new(ring), keys, GlobalId(4100));
        let shared = Arc::new(Shared { auth, map: Mutex::default(), followers: Mutex::default() });
        let policies = Policies::new(Policy::stateless_server());
        let config = Config { num: 0, nonce: 0, policies, ..Config::new(EntityType::MON) };
        let messenger = Messenger::new(config, Arc::new(Serve(Arc::clone(&shared))));
        let door = Arc::new(Keys(Arc::clone(&shared.auth)));
        let addr = messenger.bind(loopback(), door).await.expect("a port");
        Self { addr, key, shared, _messenger: messenger }
    }

    /// Returns a client builder configured for this cluster.
    pub(crate) fn builder(&self) -> Builder {
        let key = self.key.to_base64();
        let text =
            format!("[global]\nmon host = v2:{}\nkey = {}\nclient mount timeout = 20\n", self.addr, *key);
        let conf = Conf::parse(&text, EntityName::client("toy"), Environment::default()).expect("a conf");
        Builder::new().conf(conf)
    }

    pub(crate) fn auth(&self) -> &Arc<AuthServer> {
        &self.shared.auth
    }

    /// Publishes a map with the server's address to all subscribers.
    pub(crate) fn set_map(&self, epoch: u32, addr: EntityAddr) {
        let map = Map { epoch, addr };
        let followers = lock(&self.shared.followers);
        *lock(&self.shared.map) = map;
        for conn in followers.iter() {
            let _ = conn.send(Msg::new(&map));
        }
    }

    /// Closes the connections of all subscribers.
    pub(crate) fn drop_connections(&self) {
        for conn in std::mem::take(&mut *lock(&self.shared.followers)) {
            conn.mark_down();
        }
    }
}

struct Keys(Arc<AuthServer>);

impl AcceptAuth for Keys {
    fn acceptor(&self, _: SocketAddr) -> Box<dyn ServerAuth> {
        self.0.mon_acceptor()
    }
}

struct Serve(Arc<Shared>);

impl Dispatcher for Serve {
    fn accepted(&self, conn: &Arc<Connection>) {
        let mons = [("a".into(), EntityAddrVec::from(EntityAddr::default()))];
        let monmap = MonMap::new(Uuid([7; 16]), UTime::now(), mons);
        let _ = conn.send(Msg::new(&MMonMap { monmap: monmap.to_bytes() }));
        let _ = conn.send(Msg::new(&MConfig::default()));
    }

    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        for msg in msgs.drain(..) {
            match msg.header.kind {
                MMonSubscribe::KIND => self.subscribe(conn, &msg.open().expect("a subscription")),
                MAuth::KIND => self.renew(conn, &msg.open().expect("a renewal")),
                _ => {}
            }
        }
    }
}

impl Serve {
    fn subscribe(&self, conn: &Arc<Connection>, wanted: &MMonSubscribe) {
        let Some(wanted) = wanted.what.get("mdsmap") else { return };
        let mut followers = lock(&self.0.followers);
        followers.push(Arc::clone(conn));
        let map = *lock(&self.0.map);
        if map.epoch > 0 && u64::from(map.epoch) >= wanted.start {
            let _ = conn.send(Msg::new(&map));
        }
    }

    fn renew(&self, conn: &Arc<Connection>, asked: &MAuth) {
        let renewal = self.0.auth.renew(conn.identity().expect("it is let in"), &asked.payload);
        let reply = MAuthReply {
            protocol: asked.protocol,
            result: renewal.result,
            global_id: conn.identity().map_or(GlobalId(0), |identity| identity.global_id),
            payload: renewal.payload,
            message: String::new(),
        };
        let _ = conn.send(Msg::new(&reply));
    }
}
