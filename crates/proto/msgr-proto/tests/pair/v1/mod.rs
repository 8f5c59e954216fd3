//! Version 1: client against server, with real cephx on both sides.

mod golden;
mod handshake;
mod messages;

use std::sync::Arc;
use std::time::Duration;

use loligo_cephx::client::{AuthClient, ClientConfig};
use loligo_cephx::handshake::{AuthMethod, ClientAuth, ServerAuth};
use loligo_cephx::key::{CryptoKey, KeyType};
use loligo_cephx::keyring::{Entry, Keyring};
use loligo_cephx::server::{AuthConfig, AuthServer, Rotation, ServiceKeys};
use loligo_msgr_proto::{Established, Event, Limits, Local, ProtoError, v1};
use loligo_wire::features::SUPPORTED;
use loligo_wire::{EntityAddr, EntityName, EntityType, GlobalId, UTime};

use crate::util::{CLIENT_ADDR, SERVER_ADDR};

fn addr(a: ([u8; 4], u16), nonce: u32) -> EntityAddr {
    EntityAddr::legacy(a.into()).with_nonce(nonce)
}

/// A cluster's authentication, and a client of it.
struct World {
    server: Arc<AuthServer>,
    client: Arc<AuthClient>,
}

impl World {
    fn cephx() -> Self {
        let key = CryptoKey::generate_of(KeyType::Aes, UTime::now());
        Self::with(AuthConfig::new(UTime::now), Some(key.clone()), Some(key))
    }

    fn none() -> Self {
        Self::with(AuthConfig::none(UTime::now), None, None)
    }

    /// `theirs` is the key that the monitor has for the client.
    fn with(config: AuthConfig, theirs: Option<CryptoKey>, ours: Option<CryptoKey>) -> Self {
        let name = EntityName::client("admin");
        let mut ring = Keyring::new();
        if let Some(key) = theirs {
            let entry = Entry::new(key).with_caps("mon", "allow *").with_caps("osd", "allow rw");
            ring.insert(name.clone(), entry);
        }
        let ttl = Duration::from_secs(3600);
        let rotation = Rotation { mon_ttl: ttl, service_ttl: ttl, cipher: KeyType::Aes };
        let keys = ServiceKeys::new(rotation, UTime::now());
        Self {
            server: AuthServer::new(config, Arc::new(ring), Arc::new(keys), GlobalId(4100)),
            client: AuthClient::new(ClientConfig::new(name, ours, UTime::now)),
        }
    }

    fn to_mon(&self) -> Pair {
        Pair::new(EntityType::MON, self.client.mon_auth(), self.server.mon_acceptor())
    }

    fn to_osd(&self) -> Pair {
        let client = self.client.service_auth(EntityType::OSD, self.client.global_id());
        Pair::new(EntityType::OSD, client, self.server.service_acceptor(EntityType::OSD))
    }

    /// Fetches the tickets.
    fn enlist(&self) {
        self.to_mon().opened(connect(), v1::Accept { lossy: true, ..v1::Accept::default() });
    }
}

fn connect() -> v1::Connect {
    v1::Connect {
        addr: addr(CLIENT_ADDR, 99),
        num: 4711,
        features: SUPPORTED,
        required_features: 0x100,
        global_seq: 3,
        connect_seq: 0,
        lossy: true,
        in_seq: 0,
    }
}

/// Both ends of one connection.
struct Pair {
    client: v1::Handshake,
    server: v1::Handshake,
    client_events: Vec<Event>,
    server_events: Vec<Event>,
    /// The most bytes that are delivered at once.
    chunk: usize,
    /// All that the client has said.
    said: Vec<u8>,
    /// All that the server has said.
    answered: Vec<u8>,
}

impl Pair {
    fn new(kind: EntityType, client: Box<dyn ClientAuth>, server: Box<dyn ServerAuth>) -> Self {
        let local = |kind, peer| Local { kind, peer_addr: addr(peer, 0), limits: Limits::default() };
        let offer = v1::Offer { addr: addr(SERVER_ADDR, 7), features: SUPPORTED, num: 3, global_seq: 8 };
        Self {
            client: v1::Handshake::client(local(EntityType::CLIENT, SERVER_ADDR), kind, client),
            server: v1::Handshake::server(local(kind, CLIENT_ADDR), offer, server),
            client_events: Vec::new(),
            server_events: Vec::new(),
            chunk: usize::MAX,
            said: Vec::new(),
            answered: Vec::new(),
        }
    }

    fn in_pieces(mut self, chunk: usize) -> Self {
        self.chunk = chunk;
        self
    }

    /// Delivers bytes until nothing moves or a side fails.
    fn run(&mut self) -> Result<(), ProtoError> {
        loop {
            let to_server = deliver(&mut self.client, &mut self.server, self.chunk, &mut self.said);
            let to_client = deliver(&mut self.server, &mut self.client, self.chunk, &mut self.answered);
            self.client_events.extend(std::iter::from_fn(|| self.client.poll_event()));
            self.server_events.extend(std::iter::from_fn(|| self.server.poll_event()));
            if !(to_server? | to_client?) {
                return Ok(());
            }
        }
    }

    /// The client connects; returns the server's events.
    fn connect(&mut self, connect: v1::Connect) -> Result<Vec<Event>, ProtoError> {
        self.run()?;
        self.client.connect(connect)?;
        self.run()?;
        Ok(std::mem::take(&mut self.server_events))
    }

    /// The server answers; returns the client's events.
    fn answer(
        &mut self,
        command: impl FnOnce(&mut v1::Handshake) -> Result<(), ProtoError>,
    ) -> Result<Vec<Event>, ProtoError> {
        self.client_events.clear();
        command(&mut self.server)?;
        self.run()?;
        Ok(std::mem::take(&mut self.client_events))
    }

    /// Opens a session; returns the client's and the server's end.
    fn opened(mut self, connect: v1::Connect, accept: v1::Accept) -> (Established, Established) {
        let asked = self.connect(connect).expect("the client connects");
        assert!(matches!(asked.last(), Some(Event::Connect(_))), "{asked:?}");
        self.answer(|server| server.accept(accept)).expect("the server accepts");
        self.ends()
    }

    fn ends(self) -> (Established, Established) {
        match (self.client.into_established(), self.server.into_established()) {
            (Ok(client), Ok(server)) => (client, server),
            other => panic!("not established: {other:?}"),
        }
    }
}

fn deliver(
    from: &mut v1::Handshake,
    to: &mut v1::Handshake,
    chunk: usize,
    record: &mut Vec<u8>,
) -> Result<bool, ProtoError> {
    let mut has_moved = false;
    while let Some(bytes) = from.poll_transmit() {
        record.extend_from_slice(&bytes);
        for piece in bytes.chunks(chunk) {
            to.spare().extend_from_slice(piece);
            to.receive()?;
        }
        has_moved = true;
    }
    Ok(has_moved)
}

/// The method of an open session's client.
fn is_cephx(world: &World) -> bool {
    !world.server.config().methods.contains(&AuthMethod::NONE)
}
