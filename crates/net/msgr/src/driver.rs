//! The task that drives a connection: it connects, runs the reader, and decides what follows when the
//! socket is lost.
//!
//! ```text
//!                 ┌──────────── pause ◀── failed ─┐
//!                 ▼                               │
//!   connect() ─▶ Connect ────────────────────────▶┴─▶ open: read until the socket is lost
//!                 ▲  │ the peer connects to us          │      │          │
//!   accepted ─────┼──┴─────▶ Incoming ─────────────────▶┘      │ lossless │ lossy
//!                 │              ▲                             ▼          ▼
//!                 └─ a send ─ Standby ◀── nothing to send ── what next?   End
//! ```

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use loligo_msgr_proto::{
    ClientIdent, Established, Event, FLAG_LOSSY, Handshake, Limits as ProtoLimits, Local, Reconnect,
    ServerIdent, Session, v1,
};
use loligo_wire::{AddrKind, EntityAddr, EntityAddrVec, EntityType};

use crate::connection::{Incoming, Numbers, Request, State, Watched, Writer};
use crate::context::Context;
use crate::dialog::{Dialog, Talk};
use crate::socket::Socket;
use crate::{ConnectAuth, Connection, Error, Level, PeerInfo};

pub(crate) struct Driver {
    ctx: Arc<Context>,
    conn: Arc<Connection>,
    /// `None`: this side cannot connect, it only accepts.
    auth: Option<Arc<dyn ConnectAuth>>,
    /// The pause before the next attempt to connect; zero after a success.
    pause: Duration,
}

/// The driver's next step.
enum Next {
    Connect,
    Incoming(Box<Incoming>),
    Standby,
    End,
}

/// A finished handshake.
struct Opened {
    stream: Socket,
    established: Established,
    peer: PeerInfo,
    /// The newest message that the peer has received, in a session that continues.
    peer_in_seq: Option<u64>,
    accepted: bool,
}

impl Driver {
    pub(crate) fn new(ctx: Arc<Context>, conn: Arc<Connection>, auth: Option<Arc<dyn ConnectAuth>>) -> Self {
        Self { ctx, conn, auth, pause: Duration::ZERO }
    }

    /// Runs the connection until it is closed, starting with `incoming` or else by connecting.
    pub(crate) async fn run(mut self, incoming: Option<Box<Incoming>>) {
        self.ctx.spawn(Arc::clone(&self.conn).write_loop());
        let mut next = incoming.map_or(Next::Connect, Next::Incoming);
        loop {
            next = match next {
                Next::Connect => self.connect().await,
                Next::Incoming(incoming) => self.take_over(*incoming).await,
                Next::Standby => self.stand_by().await,
                Next::End => return,
            }
        }
    }

    async fn connect(&mut self) -> Next {
        let Some(auth) = self.auth.clone() else { return self.stand_by().await };
        let pause = self.pause;
        let attempt = async {
            tokio::time::sleep(pause).await;
            within(self.ctx.config.limits.handshake_timeout, open_session(&self.ctx, &self.conn, &*auth))
                .await
        };
        let outcome = tokio::select! {
            biased;
            () = self.conn.interrupted() => return self.interruption(),
            outcome = attempt => outcome,
        };
        match outcome {
            Ok(opened) => self.serve(opened).await,
            Err(e) => {
                let limits = &self.ctx.config.limits;
                self.pause = match e {
                    // The peer's own connection is on its way.
                    Error::Wait => limits.backoff_max,
                    _ => {
                        let random = self.ctx.config.network.random_u32();
                        jitter((pause * 2).clamp(limits.backoff_min, limits.backoff_max), random)
                    }
                };
                self.ctx.log(Level::Info, format_args!("{:?}: cannot connect: {e}", self.conn));
                self.ctx.dispatcher.refused(&self.conn, &e);
                Next::Connect
            }
        }
    }

    /// Completes a handshake that the peer has begun, and serves the socket.
    async fn take_over(&mut self, incoming: Incoming) -> Next {
        if incoming.fresh {
            self.conn.forget_session();
            self.ctx.dispatcher.remote_reset(&self.conn);
        }
        let limit = self.ctx.config.limits.handshake_timeout;
        let outcome = tokio::select! {
            biased;
            () = self.conn.interrupted() => return self.interruption(),
            outcome = within(limit, accept_session(&self.ctx, &self.conn, incoming)) => outcome,
        };
        match outcome {
            Ok(opened) => self.serve(opened).await,
            Err(e) => self.lost(e),
        }
    }

    async fn stand_by(&mut self) -> Next {
        match self.auth {
            Some(_) => self.conn.roused().await,
            None => self.conn.interrupted().await,
        }
        match self.interruption() {
            Next::Connect => match self.conn.detach(State::Connecting, State::Connecting) {
                State::Closed => Next::End,
                _ => self.again(),
            },
            other => other,
        }
    }

    /// Serves an open socket until it is lost.
    async fn serve(&mut self, opened: Opened) -> Next {
        let Opened { stream, established, peer, peer_in_seq, accepted } = opened;
        self.pause = Duration::ZERO;
        let socket = Arc::new(stream);
        let Established { sealer, opener, out, sent, .. } = established;
        let writer =
            Writer { socket: Arc::clone(&socket), sealer, out, out_seq: sent, watched: Watched::default() };
        let is_watched = !accepted || self.conn.policy().is_between_equals();
        let Some(baton) = self.conn.open(peer, writer, peer_in_seq, is_watched) else { return Next::End };
        self.ctx.log(Level::Info, format_args!("{:?}: open", self.conn));
        let dispatcher = &self.ctx.dispatcher;
        if accepted {
            dispatcher.accepted(&self.conn);
        } else {
            dispatcher.connected(&self.conn);
        }
        self.conn.resume(baton, 1);
        let why = self.conn.read_loop(&self.ctx, &socket, opener).await;
        let why = self.conn.session().shut_down.take().unwrap_or(why);
        self.lost(why)
    }

    /// Decides what follows when the socket is lost or the peer's handshake has failed.
    fn lost(&mut self, why: Error) -> Next {
        let (conn, policy) = (&self.conn, self.conn.policy());
        if conn.is_closed() {
            if let Error::Malformed { .. } = why {
                self.ctx.log(why.level(), format_args!("{conn:?}: {why}"));
            }
            return Next::End;
        }
        self.ctx.log(why.level(), format_args!("{conn:?}: {why}"));
        if policy.lossy {
            self.ctx.remove(conn);
            if conn.close() {
                self.ctx.dispatcher.reset(conn, &why);
            }
            return Next::End;
        }
        let if_not = if policy.server { State::Standby } else { State::Connecting };
        let if_empty = if policy.standby { State::Standby } else { if_not };
        let state = conn.detach(if_empty, if_not);
        match (self.interruption(), state) {
            (Next::Connect, State::Standby) => Next::Standby,
            (Next::Connect, State::Connecting) => self.again(),
            (Next::Connect, _) => Next::End,
            (interruption, _) => interruption,
        }
    }

    /// Prepares the next attempt to resume the session.
    fn again(&self) -> Next {
        let mut session = self.conn.session();
        // Version 1 has no cookies; its count is not 0 once the session has been open.
        if session.numbers.server_cookie != 0 || session.numbers.connect_seq != 0 {
            session.numbers.connect_seq += 1;
        }
        Next::Connect
    }

    /// The reason why the driver was interrupted; `Next::Connect` if it was not.
    fn interruption(&self) -> Next {
        let mut session = self.conn.session();
        if session.state == State::Closed {
            return Next::End;
        }
        session.incoming.take().map_or(Next::Connect, Next::Incoming)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Runs also when a dispatcher has panicked: senders must not wait for a connection that no
        // driver serves.
        self.ctx.remove(&self.conn);
        self.conn.end();
    }
}

async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(limit, work).await.unwrap_or(Err(Error::HandshakeTimeout(limit)))
}

/// A random duration between `d / 2` and `d`: clients that lost the same server must not all reconnect
/// at the same time.
fn jitter(d: Duration, random: u32) -> Duration {
    d / 2 + (d / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// Send buffer of a client's socket to a server on the same host. Smaller than the default of up to 4
/// MiB, as on a server's sockets (`accept.rs`), but twice theirs, because a server that stores data
/// receives it in bursts. Writes of 4 MiB, 16 in flight, with checksums computed in pieces: 521 instead
/// of 385 per second, on a noisy machine.
const LOOPBACK_SEND_BUFFER: usize = 1 << 20;

/// Connects and opens a session, or resumes the existing one.
async fn open_session(
    ctx: &Context,
    conn: &Arc<Connection>,
    auth: &dyn ConnectAuth,
) -> Result<Opened, Error> {
    let target = conn.peer();
    let Some(sock) = target.addr.sock else {
        return Err(std::io::Error::from(std::io::ErrorKind::AddrNotAvailable).into());
    };
    let dialled = ctx.config.reroute.as_ref().map_or(sock, |reroute| reroute(target.kind, sock));
    let stream = ctx.config.network.connect(dialled).await?;
    stream.tune(dialled.ip().is_loopback().then_some(LOOPBACK_SEND_BUFFER))?;
    let mut dialog = Dialog::new(stream, handshake_with(ctx, &target, auth));
    let mut global_seq = ctx.next_global_seq(0);
    let mut our_addr = EntityAddr::default();
    loop {
        match dialog.next().await? {
            Event::Hello { our_addr: addr, .. } => our_addr = addr,
            Event::Authenticated { .. } => present(ctx, conn, our_addr, global_seq, &mut dialog)?,
            Event::Retry { connect_seq } => {
                conn.session().numbers.connect_seq = connect_seq + 1;
                present(ctx, conn, our_addr, global_seq, &mut dialog)?;
            }
            Event::RetryGlobal { global_seq: theirs } => {
                global_seq = ctx.next_global_seq(theirs);
                present(ctx, conn, our_addr, global_seq, &mut dialog)?;
            }
            Event::Reset { full } => {
                reset_session(ctx, conn, full);
                present(ctx, conn, our_addr, global_seq, &mut dialog)?;
            }
            Event::Wait => return Err(Error::Wait),
            Event::MissingFeatures { features } => return Err(Error::MissingFeatures { bits: features }),
            Event::Introduced { addr } => {
                check_nonce(&target.addr, &addr)?;
                present(ctx, conn, our_addr, global_seq, &mut dialog)?;
            }
            Event::Established => return connected(ctx, conn, target, dialog),
            // These come on the accepting side only.
            Event::ClientIdent(_) | Event::Reconnect(_) | Event::Connect(_) => {}
        }
    }
}

/// The handshake of the version that the address names.
fn handshake_with(ctx: &Context, target: &PeerInfo, auth: &dyn ConnectAuth) -> Talk {
    let local = Local { kind: ctx.config.kind, peer_addr: target.addr, limits: ProtoLimits::default() };
    let auth = auth.connector(target.kind);
    if target.addr.kind == AddrKind::Legacy {
        return v1::Handshake::client(local, target.kind, auth).into();
    }
    let handshake = Handshake::client(local, auth);
    match &ctx.config.compression {
        Some(compression) if target.kind == EntityType::OSD => {
            handshake.compressing(compression.clone()).into()
        }
        _ => handshake.into(),
    }
}

/// Announces this side and the session that it opens or resumes.
fn present(
    ctx: &Context,
    conn: &Connection,
    our_addr: EntityAddr,
    global_seq: u64,
    dialog: &mut Dialog,
) -> Result<(), Error> {
    match &mut dialog.handshake {
        Talk::V2(handshake) => present_v2(ctx, conn, our_addr, global_seq, handshake),
        Talk::V1(handshake) => {
            let (connect_seq, in_seq) = match conn.is_lossless() {
                true => (conn.session().numbers.connect_seq, conn.in_seq.load(Ordering::Relaxed)),
                false => (0, 0),
            };
            Ok(handshake.connect(v1::Connect {
                addr: our_v1_addr(ctx, our_addr),
                num: ctx.num.load(Ordering::Relaxed),
                features: ctx.config.features,
                required_features: conn.policy().features_required,
                global_seq,
                connect_seq,
                lossy: !conn.is_lossless(),
                in_seq,
            })?)
        }
    }
}

/// Sends the ident.
fn present_v2(
    ctx: &Context,
    conn: &Connection,
    our_addr: EntityAddr,
    global_seq: u64,
    handshake: &mut Handshake,
) -> Result<(), Error> {
    let addrs = our_addrs(ctx, our_addr);
    let mut session = conn.session();
    let target_addr = session.peer.addr;
    let numbers = &mut session.numbers;
    if conn.is_lossless() && numbers.client_cookie == 0 {
        numbers.client_cookie = ctx.config.network.random_u64();
    }
    let numbers = *numbers;
    drop(session);
    if numbers.server_cookie != 0 {
        let msg_seq = conn.in_seq.load(Ordering::Relaxed);
        let Numbers { client_cookie, server_cookie, connect_seq, .. } = numbers;
        handshake.reconnect(Reconnect {
            addrs,
            client_cookie,
            server_cookie,
            global_seq,
            connect_seq,
            msg_seq,
        })?;
    } else {
        handshake.identify(ClientIdent {
            addrs,
            target_addr,
            gid: ctx.num.load(Ordering::Relaxed),
            global_seq,
            supported_features: ctx.config.features,
            required_features: conn.policy().features_required,
            flags: if conn.is_lossless() { 0 } else { FLAG_LOSSY },
            cookie: numbers.client_cookie,
        })?;
    }
    Ok(())
}

/// The addresses this messenger listens at; if it does not listen, the address from which the peer sees
/// it connect, without the port.
fn our_addrs(ctx: &Context, seen: EntityAddr) -> EntityAddrVec {
    let addrs = ctx.addrs.read();
    if !addrs.0.is_empty() {
        return addrs.clone();
    }
    without_port(ctx, seen).into()
}

/// Like [`our_addrs`], for a peer that speaks version 1.
fn our_v1_addr(ctx: &Context, seen: EntityAddr) -> EntityAddr {
    ctx.our_addr(AddrKind::Legacy).unwrap_or_else(|| without_port(ctx, seen))
}

fn without_port(ctx: &Context, seen: EntityAddr) -> EntityAddr {
    let sock = seen.sock.map(|sock| SocketAddr::new(sock.ip(), 0));
    EntityAddr { sock, ..seen }.with_nonce(ctx.config.nonce)
}

/// Resets the session, which the server does not know.
fn reset_session(ctx: &Context, conn: &Arc<Connection>, full: bool) {
    if full {
        conn.forget_session();
        ctx.dispatcher.remote_reset(conn);
    } else {
        let mut session = conn.session();
        session.numbers.server_cookie = 0;
        session.numbers.connect_seq = 0;
        drop(session);
        conn.in_seq.store(0, Ordering::Relaxed);
    }
}

/// Completes a handshake that this side began.
fn connected(ctx: &Context, conn: &Connection, target: PeerInfo, dialog: Dialog) -> Result<Opened, Error> {
    let (stream, established) = dialog.finish();
    let (peer, peer_in_seq) = match &established.session {
        Session::Resumed { server_in_seq, .. } => (target, Some(*server_in_seq)),
        Session::Opened { server, .. } => {
            check_features(conn.policy().features_required, server.supported_features)?;
            check_addr(&target.addr, &server.addrs)?;
            let numbers = &mut conn.session().numbers;
            numbers.server_cookie = server.cookie;
            numbers.connect_seq = 0;
            numbers.peer_global_seq = server.global_seq;
            let features = ctx.config.features & server.supported_features;
            (PeerInfo { num: server.gid, features, ..target }, None)
        }
        Session::V1(opened) => {
            let numbers = &mut conn.session().numbers;
            numbers.connect_seq = opened.connect_seq;
            numbers.peer_global_seq = opened.global_seq;
            let features = ctx.config.features & opened.features;
            (PeerInfo { features, ..target }, opened.peer_in_seq)
        }
    };
    Ok(Opened { stream, established, peer, peer_in_seq, accepted: false })
}

fn check_features(required: u64, supported: u64) -> Result<(), Error> {
    match required & !supported {
        0 => Ok(()),
        bits => Err(Error::MissingFeatures { bits }),
    }
}

/// Detects that a restarted process, or another one, listens at the peer's address. Monitors' addresses
/// have the nonce 0.
fn check_addr(target: &EntityAddr, addrs: &EntityAddrVec) -> Result<(), Error> {
    addrs.msgr2().map_or(Ok(()), |addr| check_nonce(target, addr))
}

fn check_nonce(target: &EntityAddr, addr: &EntityAddr) -> Result<(), Error> {
    if addr.nonce == target.nonce {
        return Ok(());
    }
    Err(Error::WrongPeer { expected_nonce: target.nonce, nonce: addr.nonce })
}

/// Accepts the session that the peer opens or resumes.
async fn accept_session(ctx: &Context, conn: &Connection, incoming: Incoming) -> Result<Opened, Error> {
    let Incoming { mut dialog, request, peer, anew, .. } = incoming;
    let mut peer_in_seq = match (&mut dialog.handshake, request) {
        (Talk::V2(handshake), Request::Ident(ident)) => {
            let cookie = if conn.is_lossless() { ctx.config.network.random_u64() } else { 0 };
            let numbers = &mut conn.session().numbers;
            numbers.client_cookie = ident.cookie;
            numbers.server_cookie = cookie;
            numbers.connect_seq = 0;
            handshake.accept(ServerIdent {
                addrs: ctx.addrs.read().clone(),
                gid: ctx.num.load(Ordering::Relaxed),
                global_seq: ctx.next_global_seq(0),
                supported_features: ctx.config.features,
                required_features: conn.policy().features_required,
                flags: if conn.is_lossless() { 0 } else { FLAG_LOSSY },
                cookie,
            })?;
            None
        }
        (Talk::V2(handshake), Request::Reconnect(request)) => {
            handshake.reconnect_ok(conn.in_seq.load(Ordering::Relaxed))?;
            Some(request.msg_seq)
        }
        (Talk::V1(handshake), Request::V1(request)) => {
            // Again, because a reset of the session has forgotten it.
            conn.session().numbers.count_v1(&request);
            if anew {
                conn.in_seq.store(0, Ordering::Relaxed);
            }
            let in_seq = if conn.is_lossless() { conn.in_seq.load(Ordering::Relaxed) } else { 0 };
            handshake.accept(v1::Accept { lossy: !conn.is_lossless(), in_seq, fresh: anew })?;
            None
        }
        // A request has the version of its handshake.
        (Talk::V2(_), Request::V1(_)) | (Talk::V1(_), _) => None,
    };
    while !matches!(dialog.next().await?, Event::Established) {}
    let (stream, established) = dialog.finish();
    if let Session::V1(opened) = &established.session {
        peer_in_seq = opened.peer_in_seq;
    }
    Ok(Opened { stream, established, peer, peer_in_seq, accepted: true })
}
