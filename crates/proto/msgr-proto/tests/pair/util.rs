//! Two endpoints joined by byte queues, and stand-ins for authentication.

use bytes::Bytes;
use loligo_cephx::handshake::{
    AuthError, AuthKeys, AuthMethod, AuthRequest, ClientAuth, ConMode, Identity, ServerAuth, ServerStep,
};
use loligo_msgr_proto::{
    ClientIdent, Compression, Established, Event, Handshake, Limits, Local, ProtoError, Reconnect,
    ServerIdent,
};
use loligo_wire::{EntityAddr, EntityName, EntityType, Errno, GlobalId};

pub(crate) const CLIENT_ADDR: ([u8; 4], u16) = ([10, 0, 0, 1], 40_000);
pub(crate) const SERVER_ADDR: ([u8; 4], u16) = ([10, 0, 0, 2], 6_800);
pub(crate) const GLOBAL_ID: GlobalId = GlobalId(4_711);

pub(crate) fn addr(a: ([u8; 4], u16)) -> EntityAddr {
    EntityAddr::msgr2(a.into())
}

pub(crate) fn local(kind: EntityType, peer: ([u8; 4], u16)) -> Local {
    Local { kind, peer_addr: addr(peer), limits: Limits::default() }
}

/// The secrets of one side; they differ in tests of wrong keys.
#[derive(Clone)]
pub(crate) struct Secrets {
    pub(crate) session_key: Vec<u8>,
    pub(crate) connection_secret: Vec<u8>,
}

impl Secrets {
    pub(crate) fn good() -> Self {
        Self { session_key: b"sixteen bytes...".to_vec(), connection_secret: (100..164).collect() }
    }

    fn keys(&self) -> AuthKeys {
        AuthKeys {
            session_key: self.session_key.clone().into(),
            connection_secret: self.connection_secret.clone().into(),
        }
    }
}

/// A client that offers modes, answers any number of rounds, and retries after a refusal.
pub(crate) struct TestClientAuth {
    pub(crate) modes: Vec<ConMode>,
    pub(crate) secrets: Secrets,
    pub(crate) retries: u32,
}

impl ClientAuth for TestClientAuth {
    fn request(&mut self) -> Result<AuthRequest, AuthError> {
        Ok(AuthRequest {
            method: AuthMethod::CEPHX,
            modes: self.modes.clone(),
            payload: Bytes::from_static(b"open"),
        })
    }

    fn bad_method(
        &mut self,
        _: AuthMethod,
        errno: Errno,
        methods: &[u32],
        _: &[u32],
    ) -> Result<AuthRequest, AuthError> {
        match self.retries.checked_sub(1) {
            Some(left) => {
                self.retries = left;
                self.request()
            }
            None => Err(AuthError::Refused { errno, methods: methods.to_vec() }),
        }
    }

    fn more(&mut self, payload: &[u8]) -> Result<Bytes, AuthError> {
        assert_eq!(payload, b"challenge");
        Ok(Bytes::from_static(b"answer"))
    }

    fn done(&mut self, id: GlobalId, _: ConMode, payload: &[u8]) -> Result<AuthKeys, AuthError> {
        assert_eq!((id, payload), (GLOBAL_ID, &b"welcome"[..]));
        Ok(self.secrets.keys())
    }
}

/// A server that refuses `refusals` times, then asks for some rounds, then accepts.
pub(crate) struct TestServerAuth {
    pub(crate) mode: ConMode,
    pub(crate) secrets: Secrets,
    pub(crate) refusals: u32,
    pub(crate) rounds: u32,
}

impl TestServerAuth {
    fn step(&mut self) -> ServerStep {
        if let Some(left) = self.rounds.checked_sub(1) {
            self.rounds = left;
            return ServerStep::More(Bytes::from_static(b"challenge"));
        }
        let name = EntityName::client("admin");
        ServerStep::Done {
            identity: Identity { name, global_id: GLOBAL_ID, caps: "allow *".to_owned(), challenge: 0 },
            mode: self.mode,
            payload: Bytes::from_static(b"welcome"),
            keys: self.secrets.keys(),
        }
    }
}

impl ServerAuth for TestServerAuth {
    fn request(&mut self, _: EntityType, method: AuthMethod, modes: &[u32], payload: &[u8]) -> ServerStep {
        assert_eq!((method, payload), (AuthMethod::CEPHX, &b"open"[..]));
        if let Some(left) = self.refusals.checked_sub(1) {
            self.refusals = left;
            return ServerStep::Bad { errno: Errno::EOPNOTSUPP, methods: vec![2], modes: modes.to_vec() };
        }
        self.step()
    }

    fn more(&mut self, payload: &[u8]) -> ServerStep {
        assert_eq!(payload, b"answer");
        self.step()
    }
}

/// The configuration of the two sides.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) mode: ConMode,
    pub(crate) client_secrets: Secrets,
    pub(crate) server_secrets: Secrets,
    pub(crate) refusals: u32,
    pub(crate) retries: u32,
    pub(crate) rounds: u32,
    pub(crate) client_compression: Option<Compression>,
    pub(crate) server_compression: Option<Compression>,
}

impl Setup {
    pub(crate) fn new(mode: ConMode) -> Self {
        let good = Secrets::good();
        Self {
            mode,
            client_secrets: good.clone(),
            server_secrets: good,
            refusals: 0,
            retries: 0,
            rounds: 1,
            client_compression: None,
            server_compression: None,
        }
    }

    pub(crate) fn pair(&self) -> Pair {
        let client = TestClientAuth {
            modes: vec![ConMode::Secure, ConMode::Crc],
            secrets: self.client_secrets.clone(),
            retries: self.retries,
        };
        let server = TestServerAuth {
            mode: self.mode,
            secrets: self.server_secrets.clone(),
            refusals: self.refusals,
            rounds: self.rounds,
        };
        let offering = |hs: Handshake, compression: &Option<Compression>| match compression {
            Some(compression) => hs.compressing(compression.clone()),
            None => hs,
        };
        let client = Handshake::client(local(EntityType::CLIENT, SERVER_ADDR), Box::new(client));
        let server = Handshake::server(local(EntityType::OSD, CLIENT_ADDR), Box::new(server));
        Pair {
            client: Side::new(offering(client, &self.client_compression)),
            server: Side::new(offering(server, &self.server_compression)),
        }
    }
}

/// One endpoint, and its bytes in flight to the other.
pub(crate) struct Side {
    pub(crate) hs: Handshake,
    pub(crate) events: Vec<Event>,
    pub(crate) error: Option<ProtoError>,
    /// All bytes sent so far.
    pub(crate) sent: Vec<u8>,
    /// How many bytes of `sent` have been delivered.
    pub(crate) delivered: usize,
}

impl Side {
    fn new(hs: Handshake) -> Self {
        Self { hs, events: Vec::new(), error: None, sent: Vec::new(), delivered: 0 }
    }

    pub(crate) fn is_established(&self) -> bool {
        matches!(self.events.last(), Some(Event::Established))
    }

    /// Records an error and collects the results of the last call.
    pub(crate) fn settle(&mut self, result: Result<(), ProtoError>) {
        if let Err(e) = result {
            self.error.get_or_insert(e);
        }
        while let Some(bytes) = self.hs.poll_transmit() {
            self.sent.extend_from_slice(&bytes);
        }
        while let Some(event) = self.hs.poll_event() {
            self.events.push(event);
        }
    }

    pub(crate) fn deliver(&mut self, bytes: &[u8]) {
        if self.error.is_some() || self.is_established() {
            return;
        }
        self.hs.spare().extend_from_slice(bytes);
        let result = self.hs.receive();
        self.settle(result);
    }
}

/// A fault in transit: may change the bytes, or return fewer of them.
pub(crate) type Tamper<'a> = &'a mut dyn FnMut(Direction, usize, &mut Vec<u8>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

pub(crate) struct Pair {
    pub(crate) client: Side,
    pub(crate) server: Side,
}

impl Pair {
    /// Delivers bytes in pieces of at most `chunk`, in turns, until nothing moves.
    pub(crate) fn run(&mut self, chunk: usize) {
        self.run_tampered(chunk, &mut |_, _, _| ());
    }

    /// Like `run`, but passes each piece, with its offset in its direction's bytes, to `tamper`.
    pub(crate) fn run_tampered(&mut self, chunk: usize, tamper: Tamper<'_>) {
        self.client.settle(Ok(()));
        self.server.settle(Ok(()));
        loop {
            let to_server = step(&mut self.client, &mut self.server, Direction::ToServer, chunk, tamper);
            let to_client = step(&mut self.server, &mut self.client, Direction::ToClient, chunk, tamper);
            if !to_server && !to_client {
                break;
            }
        }
    }

    /// Runs to the end; returns the client's and the server's end of an open session.
    pub(crate) fn established(mut self) -> (Established, Established) {
        self.authenticate();
        self.client_does(|hs| hs.identify(client_ident()));
        self.server_does(|hs| hs.accept(server_ident()));
        match (self.client.hs.into_established(), self.server.hs.into_established()) {
            (Ok(client), Ok(server)) => (client, server),
            other => panic!("not established: {other:?}"),
        }
    }

    /// Runs until the client may identify itself, and discards the events.
    pub(crate) fn authenticate(&mut self) {
        self.run(usize::MAX);
        for side in [&mut self.client, &mut self.server] {
            assert_eq!(side.error, None);
            assert!(matches!(side.events.last(), Some(Event::Authenticated { .. })), "{:?}", side.events);
            side.events.clear();
        }
    }

    pub(crate) fn client_does(
        &mut self,
        command: impl FnOnce(&mut Handshake) -> Result<(), ProtoError>,
    ) -> Vec<Event> {
        let result = command(&mut self.client.hs);
        self.client.settle(result);
        self.run(usize::MAX);
        std::mem::take(&mut self.server.events)
    }

    pub(crate) fn server_does(
        &mut self,
        command: impl FnOnce(&mut Handshake) -> Result<(), ProtoError>,
    ) -> Vec<Event> {
        let result = command(&mut self.server.hs);
        self.server.settle(result);
        self.run(usize::MAX);
        std::mem::take(&mut self.client.events)
    }
}

fn step(from: &mut Side, to: &mut Side, direction: Direction, chunk: usize, tamper: Tamper<'_>) -> bool {
    let start = from.delivered;
    let end = from.sent.len().min(start.saturating_add(chunk));
    if start == end {
        return false;
    }
    let mut piece = from.sent[start..end].to_vec();
    tamper(direction, start, &mut piece);
    from.delivered = end;
    to.deliver(&piece);
    true
}

pub(crate) fn client_ident() -> ClientIdent {
    ClientIdent {
        addrs: addr(([10, 0, 0, 1], 0)).with_nonce(99).into(),
        target_addr: addr(SERVER_ADDR),
        gid: GLOBAL_ID.0 as i64,
        global_seq: 1,
        supported_features: loligo_wire::features::SUPPORTED,
        required_features: 0x100,
        flags: 0,
        cookie: 0xc0_0c1e,
    }
}

pub(crate) fn server_ident() -> ServerIdent {
    ServerIdent {
        addrs: addr(SERVER_ADDR).into(),
        gid: 3,
        global_seq: 8,
        supported_features: loligo_wire::features::SUPPORTED,
        required_features: 0,
        flags: 0,
        cookie: 0x5ec0_0c1e,
    }
}

pub(crate) fn reconnect_request() -> Reconnect {
    Reconnect {
        addrs: client_ident().addrs,
        client_cookie: client_ident().cookie,
        server_cookie: server_ident().cookie,
        global_seq: 2,
        connect_seq: 1,
        msg_seq: 17,
    }
}
