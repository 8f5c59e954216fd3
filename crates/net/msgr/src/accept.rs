//! The accepting side: sockets whose peers have not opened a session yet.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use loligo_cephx::handshake::Identity;
use loligo_msgr_proto::{ClientIdent, Event, Handshake, Limits as ProtoLimits, Local, Reconnect, v1};
use loligo_wire::{AddrKind, EntityAddr, EntityType};
use socket2::TcpKeepalive;

use crate::admission::{Place, Seat, is_shortage};
use crate::connection::{Incoming, Request, Verdict};
use crate::context::Context;
use crate::dialog::{Dialog, Talk};
use crate::driver::Driver;
use crate::socket::{Listener, Socket};
use crate::{AcceptAuth, Connection, Error, Level, PeerInfo, Policy};

/// Send buffer of a server's socket to a client on the same host. There is no distance to bridge, and
/// data in a larger buffer (4 MiB by default) has left the processor's cache before the client reads it:
/// reads of cold 4 MiB objects went from 928–991 to 1,068–1,361 per second.
const LOOPBACK_SEND_BUFFER: usize = 512 << 10;

/// The pause if there is no free descriptor and no handshake that could be ended to get one.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(10);

/// Accepts sockets until the messenger stops. Never waits for a handshake to end: if there are too many,
/// an older one is ended ([`Lobby`](crate::admission::Lobby)).
pub(crate) async fn listen(
    ctx: Arc<Context>,
    listener: Listener,
    speaks: AddrKind,
    auth: Arc<dyn AcceptAuth>,
) {
    let admission = Arc::clone(&ctx.config.admission);
    loop {
        let accepted = tokio::select! {
            biased;
            () = ctx.stopping() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, from)) => {
                let seat = admission.lobby.enter(from.ip());
                // An error means that the peer has disconnected already.
                if tune(&stream, from).is_err() {
                    continue;
                }
                let door = Door { ctx: Arc::clone(&ctx), speaks, from, kind: EntityType(0), identity: None };
                let auth = Arc::clone(&auth);
                ctx.spawn(async move { door.admit(stream, &*auth, seat).await });
            }
            Err(e) if is_shortage(&e) => make_room(&ctx, &listener, &e).await,
            // The connection has failed, not the listener.
            Err(e) => {
                ctx.log(Level::Info, format_args!("cannot accept: {e}"));
                tokio::task::yield_now().await;
            }
        }
    }
}

fn tune(stream: &Socket, from: SocketAddr) -> io::Result<()> {
    stream.tune(from.ip().is_loopback().then_some(LOOPBACK_SEND_BUFFER))?;
    // Connecting peers may or may not send keepalives; TCP detects those that have vanished.
    stream.set_keepalive(&tcp_keepalive())
}

/// Called when there is no free descriptor for a peer: ends an older handshake, or else refuses the
/// peer.
async fn make_room(ctx: &Context, listener: &Listener, why: &io::Error) {
    ctx.log(Level::Error, format_args!("cannot accept: {why}"));
    let admission = &ctx.config.admission;
    if !admission.lobby.evict() && admission.spare.give_up() {
        tokio::select! {
            biased;
            accepted = listener.accept() => drop(accepted),
            () = std::future::ready(()) => {}
        }
    }
    admission.spare.restore();
    tokio::time::sleep(SHORTAGE_PAUSE).await;
}

/// TCP keepalive times: a vanished peer is detected after two minutes.
fn tcp_keepalive() -> TcpKeepalive {
    let (idle, interval) = (Duration::from_secs(60), Duration::from_secs(20));
    TcpKeepalive::new().with_time(idle).with_interval(interval).with_retries(3)
}

/// An accepted socket and what is known about its peer.
struct Door {
    ctx: Arc<Context>,
    /// The messenger's version at the address that the peer has connected to.
    speaks: AddrKind,
    from: SocketAddr,
    kind: EntityType,
    identity: Option<Identity>,
}

/// The outcome of a session request.
enum Answer {
    /// A new connection, which the caller must drive.
    New(Arc<Connection>, Box<Incoming>),
    /// A known connection has taken the socket over.
    Taken,
    /// The peer was told to try something else.
    Told(Box<Dialog>),
    /// The socket was closed.
    Dropped,
}

impl Door {
    /// Authenticates the peer and finds its session; then drives the connection, if it is a new one.
    async fn admit(mut self, stream: Socket, auth: &dyn AcceptAuth, seat: Seat) {
        let limit = self.ctx.config.limits.handshake_timeout;
        let dialog = Dialog::new(stream, self.handshake(auth));
        let ctx = Arc::clone(&self.ctx);
        let outcome = tokio::select! {
            biased;
            () = ctx.stopping() => return,
            outcome = tokio::time::timeout(limit, self.converse(dialog)) => {
                outcome.unwrap_or(Err(Error::HandshakeTimeout(limit)))
            }
            () = seat.evicted() => Err(Error::Crowded),
        };
        drop(seat);
        match outcome {
            Ok(Some((conn, mut incoming))) => {
                let auth = self.ctx.config.connect_back.clone().filter(|_| !conn.policy().server);
                let driver = Driver::new(Arc::clone(&self.ctx), conn, auth);
                if let Some(former) = incoming.former.take() {
                    former.ended().await;
                }
                driver.run(Some(incoming)).await;
            }
            Ok(None) => {}
            Err(e) => {
                let who = if self.kind == EntityType(0) { "a peer" } else { self.kind.as_str() };
                self.ctx.log(e.level(), format_args!("{who} from {}: {e}", self.from));
            }
        }
    }

    fn handshake(&self, auth: &dyn AcceptAuth) -> Talk {
        let config = &self.ctx.config;
        let peer_addr = EntityAddr { kind: self.speaks, nonce: 0, sock: Some(self.from) };
        let local = Local { kind: config.kind, peer_addr, limits: ProtoLimits::default() };
        let auth = auth.acceptor(self.from);
        if self.speaks == AddrKind::Legacy {
            let offer = v1::Offer {
                addr: self.our_addr(),
                features: config.features,
                num: self.ctx.num.load(Ordering::Relaxed),
                global_seq: self.ctx.next_global_seq(0),
            };
            return v1::Handshake::server(local, offer, auth).into();
        }
        let handshake = Handshake::server(local, auth);
        match &config.compression {
            Some(compression) => handshake.compressing(compression.clone()).into(),
            None => handshake.into(),
        }
    }

    async fn converse(
        &mut self,
        mut dialog: Dialog,
    ) -> Result<Option<(Arc<Connection>, Box<Incoming>)>, Error> {
        loop {
            let answer = match dialog.next().await? {
                Event::Hello { kind, .. } => {
                    self.kind = kind;
                    continue;
                }
                Event::Authenticated { identity, .. } => {
                    self.identity = identity;
                    continue;
                }
                Event::ClientIdent(ident) => self.ident(dialog, ident)?,
                Event::Reconnect(request) => self.reconnect(dialog, request)?,
                Event::Connect(request) => self.connect_v1(dialog, request)?,
                // These come on the connecting side only, or after the session was accepted.
                _ => continue,
            };
            match answer {
                Answer::New(conn, incoming) => return Ok(Some((conn, incoming))),
                Answer::Taken | Answer::Dropped => return Ok(None),
                Answer::Told(told) => dialog = *told,
            }
        }
    }

    /// The peer opens a session.
    fn ident(&self, mut dialog: Dialog, ident: ClientIdent) -> Result<Answer, Error> {
        let ours = self.our_addr();
        if ident.target_addr.nonce != ours.nonce {
            return Err(Error::WrongPeer { expected_nonce: ident.target_addr.nonce, nonce: ours.nonce });
        }
        let policy = self.ctx.config.policies.of(self.kind);
        let missing = policy.features_required & !ident.supported_features;
        if missing != 0 {
            dialog.handshake.missing_features(missing)?;
            return Ok(Answer::Told(Box::new(dialog)));
        }
        let peer = PeerInfo {
            kind: self.kind,
            num: self.number(ident.gid),
            addr: self.peer_addr(ident.addrs.msgr2().or(ident.addrs.0.first())),
            from: Some(self.from),
            features: self.ctx.config.features & ident.supported_features,
        };
        // The server decides: a client learns from the server's ident whether the session is lossy.
        let policy = policy.clone();
        self.settle(Incoming::new(dialog, Request::Ident(ident), peer), policy)
    }

    /// The peer resumes a session.
    fn reconnect(&self, dialog: Dialog, request: Reconnect) -> Result<Answer, Error> {
        let policy = self.ctx.config.policies.of(self.kind).clone();
        let peer = PeerInfo {
            kind: self.kind,
            num: self.number(-1),
            addr: self.peer_addr(request.addrs.msgr2().or(request.addrs.0.first())),
            from: Some(self.from),
            features: 0,
        };
        self.settle(Incoming::new(dialog, Request::Reconnect(request), peer), policy)
    }

    /// The peer opens or resumes a session by version 1.
    fn connect_v1(&self, mut dialog: Dialog, request: v1::Request) -> Result<Answer, Error> {
        let policy = self.ctx.config.policies.of(self.kind).clone();
        let missing = policy.features_required & !request.features;
        if missing != 0 {
            dialog.handshake.missing_features(missing)?;
            return Ok(Answer::Told(Box::new(dialog)));
        }
        let peer = PeerInfo {
            kind: self.kind,
            num: self.number(-1),
            addr: self.peer_addr(Some(&request.addr)),
            from: Some(self.from),
            features: self.ctx.config.features & request.features,
        };
        self.settle(Incoming::new(dialog, Request::V1(request), peer), policy)
    }

    /// Determines which connection the socket is for, and hands it over.
    fn settle(&self, incoming: Incoming, policy: Policy) -> Result<Answer, Error> {
        if policy.anonymous && !matches!(incoming.request, Request::Reconnect(_)) {
            let new = self.new_connection(&incoming, policy, None)?;
            return Ok(match self.ctx.add(&new) {
                true => Answer::New(new, Box::new(incoming)),
                false => Answer::Dropped,
            });
        }
        let addr = incoming.peer.addr;
        let mut incoming = Some(Box::new(incoming));
        let (verdict, known, new, displaced) = self.ctx.at_addr(addr, |known| {
            let known = known.filter(|known| !known.is_closed());
            // The known session at this address may belong to another peer: the address may be forged,
            // or shared by two hosts behind address translation. Both peers are served.
            let apart = policy.lossy && known.is_some_and(|known| !self.is_peer_of(known));
            let known = known.filter(|_| !apart);
            let (verdict, displaced) = match known {
                Some(known) => self.judge(known, &mut incoming),
                None => (incoming.as_deref().map_or(Verdict::Stale, |i| i.request.unknown(&policy)), None),
            };
            let new = match (&verdict, incoming.as_deref()) {
                (Verdict::Replace, Some(incoming)) => Some(self.new_connection(incoming, policy, known)),
                _ => None,
            };
            let listed = new.as_ref().and_then(|new| new.as_ref().ok()).filter(|_| !apart).cloned();
            (listed, (verdict, known.cloned(), new, displaced))
        });
        drop(displaced);
        let new = new.transpose()?;
        if let Some(new) = &new
            && !self.ctx.add(new)
        {
            return Ok(Answer::Dropped);
        }
        if let Some(known) = known {
            match verdict {
                Verdict::Replace | Verdict::Adopt { .. } => known.shut_down(Error::Replaced),
                // The peer of the winning connection may be gone: a keepalive finds out.
                Verdict::Wait => known.ask_alive(),
                _ => {}
            }
            known.driver_wake.notify_one();
            if let (Verdict::Replace, Some(incoming)) = (&verdict, &mut incoming) {
                incoming.former = Some(known);
            }
        }
        match (incoming, new) {
            (None, _) => Ok(Answer::Taken),
            (Some(incoming), Some(new)) => Ok(Answer::New(new, incoming)),
            (Some(incoming), None) => tell(verdict, incoming.dialog),
        }
    }

    /// Decides about a request for a known connection. On `Adopt`, stores the socket there, and returns
    /// the one that was stored before.
    fn judge(
        &self,
        known: &Connection,
        incoming: &mut Option<Box<Incoming>>,
    ) -> (Verdict, Option<Box<Incoming>>) {
        let Some(mut new) = incoming.take() else { return (Verdict::Stale, None) };
        if !self.is_peer_of(known) {
            *incoming = Some(new);
            return (Verdict::Stale, None);
        }
        let ours = self.our_addr();
        let mut session = known.session();
        let verdict = match &new.request {
            Request::Ident(ident) => session.judge_ident(known.policy(), ident, &ours),
            Request::Reconnect(request) => session.judge_reconnect(known.policy(), request, &ours),
            Request::V1(request) => session.judge_v1(known.policy(), request, &ours),
        };
        let Verdict::Adopt { fresh } = verdict else {
            *incoming = Some(new);
            return (verdict, None);
        };
        match &new.request {
            Request::Ident(ident) => session.numbers.peer_global_seq = ident.global_seq,
            Request::Reconnect(request) => {
                session.numbers.peer_global_seq = request.global_seq;
                session.numbers.connect_seq = request.connect_seq;
                new.peer = PeerInfo { from: new.peer.from, ..session.peer };
            }
            Request::V1(request) => {
                new.anew = session.numbers.has_forgotten(request);
                session.numbers.count_v1(request);
            }
        }
        // If an earlier socket that was to reset the session has not been processed yet, this one must
        // reset it.
        new.fresh = fresh || session.incoming.as_ref().is_some_and(|earlier| earlier.fresh);
        new.anew |= session.incoming.as_ref().is_some_and(|earlier| earlier.anew);
        let displaced = session.incoming.replace(new);
        (verdict, displaced)
    }

    /// A session belongs to the name and the global id that opened it.
    fn is_peer_of(&self, known: &Connection) -> bool {
        match (&self.identity, known.identity()) {
            (Some(now), Some(then)) => now.name == then.name && now.global_id == then.global_id,
            _ => true,
        }
    }

    /// The peer's number: for a client the global id of its ticket, regardless of what it claims.
    fn number(&self, claimed: i64) -> i64 {
        let client = self.identity.as_ref().filter(|identity| identity.name.kind == EntityType::CLIENT);
        client.map_or(claimed, |identity| identity.global_id.0.cast_signed())
    }

    /// Creates the connection of a new session, which takes over the session slot of `former`.
    fn new_connection(
        &self,
        incoming: &Incoming,
        policy: Policy,
        former: Option<&Arc<Connection>>,
    ) -> Result<Arc<Connection>, Error> {
        let user = self.identity.as_ref().map(|identity| identity.name.clone());
        let place: Option<Place> = former.and_then(|former| former.session().place.take());
        let place = place.map_or_else(|| self.ctx.config.admission.sessions.enter(user), Ok)?;
        let conn = Connection::new(incoming.peer, policy, &self.ctx.config.limits);
        let mut session = conn.session();
        session.place = Some(place);
        match &incoming.request {
            Request::Ident(ident) => session.numbers.peer_global_seq = ident.global_seq,
            Request::Reconnect(_) => {}
            Request::V1(request) => session.numbers.count_v1(request),
        }
        drop(session);
        if let Some(identity) = self.identity.clone() {
            conn.set_identity(identity);
        }
        Ok(conn)
    }

    fn our_addr(&self) -> EntityAddr {
        self.ctx.our_addr(self.speaks).unwrap_or_default()
    }

    /// The address that the peer claims; if it does not know its host address, the host it connects
    /// from.
    fn peer_addr(&self, claimed: Option<&EntityAddr>) -> EntityAddr {
        let addr = claimed.copied().unwrap_or_default();
        let sock = match addr.sock {
            Some(sock) if !sock.ip().is_unspecified() => sock,
            Some(sock) => SocketAddr::new(self.from.ip(), sock.port()),
            None => SocketAddr::new(self.from.ip(), 0),
        };
        EntityAddr { kind: self.speaks, nonce: addr.nonce, sock: Some(sock) }
    }
}

/// Tells the peer why its request was not granted.
fn tell(verdict: Verdict, mut dialog: Dialog) -> Result<Answer, Error> {
    match verdict {
        Verdict::Wait => dialog.handshake.wait()?,
        Verdict::Retry { connect_seq } => dialog.handshake.retry(connect_seq)?,
        Verdict::RetryGlobal { global_seq } => dialog.handshake.retry_global(global_seq)?,
        Verdict::Reset { full } => dialog.handshake.reset(full)?,
        Verdict::Adopt { .. } | Verdict::Replace | Verdict::Stale => return Ok(Answer::Dropped),
    }
    Ok(Answer::Told(Box::new(dialog)))
}
