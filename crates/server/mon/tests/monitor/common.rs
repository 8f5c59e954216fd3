//! A monitor without sockets, and its clients.

use std::sync::Arc;
use std::time::Duration;

use loligo_cephx::handshake::Identity;
use loligo_cephx::key::{CryptoKey, KeyType};
use loligo_cephx::keyring::Keyring;
use loligo_cephx::server::{AuthConfig, AuthServer, Rotation, ServiceKeys};
use loligo_mon::state::{NewCluster, State};
use loligo_mon::{Effects, Monitor, Peer, PgUsage, Scrub, SessionId, Space, Usage, UsageSource};
use loligo_wire::message::mon::{MMonCommand, MMonCommandAck, PaxosHeader};
use loligo_wire::message::{Message, Msg};
use loligo_wire::{
    EntityAddr, EntityAddrVec, EntityName, EntityType, GlobalId, OsdId, PgId, PoolId, Tid, UTime, Uuid,
    features,
};

pub(crate) const FSID: Uuid = Uuid([7; 16]);
pub(crate) const NOW: UTime = UTime { sec: 1_800_000_000, nsec: 0 };

struct Empty;

impl UsageSource for Empty {
    fn usage(&self) -> Usage {
        Usage { space: Space { total: 8 << 30, used: 1 << 30 }, ..Usage::default() }
    }

    fn placement_groups(&self) -> Vec<PgUsage> {
        vec![PgUsage { pg: PgId { pool: PoolId(1), seed: 10 }, ..PgUsage::default() }]
    }

    fn scrub(&self, _: &[PgId], _: Scrub) {}
}

/// The state of a new cluster: the OSD is up, and the monitor has an address.
pub(crate) fn new_state() -> State {
    let admin_key = CryptoKey::from_secret(NOW, [1; 16]);
    let cluster = NewCluster { fsid: FSID, now: NOW, host: "host".to_owned(), admin_key };
    let mut state = State::new(cluster).unwrap();
    let addr = |port| EntityAddrVec::from(EntityAddr::msgr2(([127, 0, 0, 1], port).into()));
    state.start(NOW, addr(3300));
    state.boot_osd(NOW, OsdId(0), Uuid([8; 16]), addr(6800)).unwrap();
    state
}

/// A monitor of a new cluster.
pub(crate) struct Mon {
    pub(crate) monitor: Monitor,
    next_session: SessionId,
}

impl Mon {
    pub(crate) fn new() -> Self {
        let config = AuthConfig::new(UTime::now);
        let ttl = Duration::from_secs(3600);
        let rotation = Rotation { mon_ttl: ttl, service_ttl: ttl, cipher: KeyType::Aes };
        let keys = ServiceKeys::new(rotation, NOW);
        let auth = AuthServer::new(config, Arc::new(Keyring::new()), Arc::new(keys), GlobalId(1));
        Self { monitor: Monitor::new(new_state(), auth, Arc::new(Empty)), next_session: 1 }
    }

    /// Opens a session of a client with these capabilities.
    pub(crate) fn client(&mut self, id: &str, caps: &str) -> SessionId {
        let (session, peer) = self.peer(id, caps);
        self.monitor.open(session, peer);
        session
    }

    /// Opens a session at the manager, with manager capabilities.
    pub(crate) fn client_of_manager(&mut self, id: &str, caps: &str) -> SessionId {
        let (session, peer) = self.peer(id, caps);
        self.monitor.open_at_manager(session, peer);
        session
    }

    fn peer(&mut self, id: &str, caps: &str) -> (SessionId, Peer) {
        let session = self.next_session;
        self.next_session += 1;
        let identity = Identity {
            name: EntityName::client(id),
            global_id: GlobalId(4_100 + session),
            caps: caps.to_owned(),
            challenge: 0,
        };
        let addr = EntityAddr::msgr2(([127, 0, 0, 1], 0).into()).with_nonce(session as u32);
        let peer = Peer {
            kind: EntityType::CLIENT,
            features: features::SUPPORTED,
            addr,
            from: addr.sock.map(|sock| sock.ip()),
            identity,
        };
        (session, peer)
    }

    /// Sends a message, and returns its effects.
    pub(crate) fn send<M: Message>(&mut self, session: SessionId, body: &M) -> Effects {
        self.monitor.handle(session, &Msg::new(body).with_tid(Tid(5)), NOW).expect("a well-formed message");
        self.monitor.take_effects()
    }

    /// Sends a command with text input.
    pub(crate) fn command_with(&mut self, session: SessionId, json: &str, input: &str) -> Ack {
        self.command_bytes(session, json, input.as_bytes())
    }

    /// Sends a command with input.
    pub(crate) fn command_bytes(&mut self, session: SessionId, json: &str, input: &[u8]) -> Ack {
        let MMonCommandAck { result, status, output, .. } = self.raw_command(session, json.as_bytes(), input);
        Ack { result, status: String::from_utf8(status.to_vec()).expect("a text"), output }
    }

    /// Sends a command of arbitrary bytes.
    pub(crate) fn raw_command(&mut self, session: SessionId, json: &[u8], input: &[u8]) -> MMonCommandAck {
        let command = MMonCommand {
            paxos: PaxosHeader { version: 0 },
            fsid: FSID,
            cmd: vec![json.to_vec().into()],
            input: input.to_vec().into(),
        };
        let effects = self.send(session, &command);
        opened(&effects, session).pop().expect("an answer")
    }

    /// Sends a command.
    pub(crate) fn command(&mut self, session: SessionId, json: &str) -> Ack {
        self.command_with(session, json, "")
    }

    /// Sends a command that must succeed, and returns its output.
    pub(crate) fn output(&mut self, session: SessionId, json: &str) -> String {
        let ack = self.command(session, json);
        assert_eq!(ack.result, 0, "{json}: {}", ack.status);
        String::from_utf8(ack.output.to_vec()).unwrap()
    }
}

/// The reply to a command.
pub(crate) struct Ack {
    pub(crate) result: i32,
    pub(crate) status: String,
    pub(crate) output: bytes::Bytes,
}

/// The messages of one kind that were sent to a session.
pub(crate) fn opened<M: Message>(effects: &Effects, session: SessionId) -> Vec<M> {
    let ours = effects.out.iter().filter(|(id, msg)| *id == session && msg.header.kind == M::KIND);
    ours.map(|(_, msg)| msg.open().unwrap()).collect()
}
