//! One session with one peer.

mod incoming;
mod out_queue;
mod read;
mod session;
mod write;

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use loligo_cephx::handshake::Identity;
use loligo_lockstat::{Class, Mutex, MutexGuard};
use loligo_wire::message::Msg;
use loligo_wire::{DecodeError, EntityAddr, EntityType};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

pub(crate) use self::incoming::{Incoming, Request, Verdict};
use self::out_queue::{Action, Baton, Control, Item, OutQueue, Refusal, Slot};
pub use self::out_queue::{Unpacked, Watcher};
pub(crate) use self::session::{Keepalive, Numbers, Session};
pub(crate) use self::write::{Watched, Writer};
use crate::socket::Socket;
use crate::{Dropped, Error, Hold, Limits, Policy, SendError};

static SESSION: Class = Class::new("msgr.session");
/// The id of the next connection; unique in the process.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// There is no socket, or its handshake is in progress; messages wait.
    Connecting,
    /// Messages flow.
    Open,
    /// There is no socket and nothing to send; a send, or the peer, wakes the connection.
    Standby,
    /// Closed for good.
    Closed,
}

impl State {
    /// Converts back from `as u8`.
    fn from_bits(bits: u8) -> Self {
        const STATES: [State; 4] = [State::Connecting, State::Open, State::Standby, State::Closed];
        const { assert!(State::Closed as usize == STATES.len() - 1, "in the order of their numbers") };
        STATES[usize::from(bits)]
    }
}

/// The peer of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// Its entity type.
    pub kind: EntityType,
    /// Its number (an OSD's id, a monitor's rank, a client's global id); −1 before it is known.
    pub num: i64,
    /// The address that the peer claims, and by which it is known.
    pub addr: EntityAddr,
    /// The address its socket comes from; `None` before it has one. Unlike `addr`, the peer cannot
    /// choose it.
    pub from: Option<SocketAddr>,
    /// Feature bits that both sides support; 0 before they are known.
    pub features: u64,
}

/// A handle to a message sent with `send_revocable`; see [`Connection::revoke`].
pub struct Ticket(Arc<Slot>);

/// One session with one peer; outlives its sockets if the policy is lossless.
///
/// The messenger's tasks keep it alive until it is closed: dropping all handles does not close it,
/// [`Connection::mark_down`] does.
pub struct Connection {
    id: u64,
    policy: Policy,
    queue: OutQueue<Writer>,
    session: Mutex<Session>,
    /// Sequence number of the newest message received, if lossless. Written by the reader only.
    pub(crate) in_seq: AtomicU64,
    /// Number of socket reads: evidence that the peer is alive.
    reads: AtomicU64,
    /// Total bytes that the kernel has accepted. Written by the baton's holder.
    written: AtomicU64,
    pub(crate) driver_wake: Notify,
    /// Has no permits; closed when no more messages will be dispatched.
    ended: Semaphore,
    identity: OnceLock<Identity>,
    user_data: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Connection {
    pub(crate) fn new(peer: PeerInfo, policy: Policy, limits: &Limits) -> Arc<Self> {
        let now = Instant::now();
        let session = Session {
            state: State::Connecting,
            peer,
            socket: None,
            shut_down: None,
            incoming: None,
            place: None,
            numbers: Numbers::default(),
            keepalive: Keepalive { watched: false, asked_at: now, heard_at: now, reads: 0 },
        };
        Arc::new(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            queue: OutQueue::new(!policy.lossy, limits.queue_messages_max, limits.queue_bytes_max),
            policy,
            session: Mutex::new(&SESSION, session),
            in_seq: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            written: AtomicU64::new(0),
            driver_wake: Notify::new(),
            ended: Semaphore::new(0),
            identity: OnceLock::new(),
            user_data: OnceLock::new(),
        })
    }

    /// Sends a message: appends it to the out-queue and, if no thread is writing, flushes the queue
    /// without blocking. May be called from any thread, also inside
    /// [`Dispatcher::dispatch`](crate::Dispatcher::dispatch).
    ///
    /// A message sent on a closed connection is dropped ([`SendError::Closed`]); a message sent on a
    /// connection in standby wakes it. Messages arrive in the order in which they were queued.
    /// `header.seq` must be 0.
    ///
    /// An accepted lossy connection is closed when its queue is full: the peer then repeats its requests
    /// on a new connection, whereas on this one it would miss a reply without noticing.
    pub fn send(&self, msg: Msg) -> Result<(), SendError> {
        self.push(Item::Plain(msg))
    }

    /// Like [`Connection::send`], and notifies the watcher when the message leaves. Lossless
    /// connections, which may send a message several times, do not notify it.
    pub fn send_watched(&self, msg: Msg, watcher: Arc<dyn Watcher>) -> Result<(), SendError> {
        self.push(Item::Watched(Box::new((msg, watcher))))
    }

    /// Like [`Connection::send`], for a message that may have to be revoked while it waits.
    pub fn send_revocable(&self, msg: Msg) -> Result<Ticket, SendError> {
        let slot = Slot::new(msg);
        self.push(Item::Revocable(Arc::clone(&slot)))?;
        Ok(Ticket(slot))
    }

    /// Revokes a message. Returns `false` if it has already left the queue. Its memory is freed before
    /// this returns.
    pub fn revoke(&self, ticket: Ticket) -> bool {
        ticket.0.take().is_some()
    }

    /// Queues messages and leaves packing and writing them to the connection's writer task: for large
    /// numbers of messages, from a thread that must not be delayed. On a lossless connection they are
    /// packed and sent at once.
    ///
    /// # Errors
    /// If the connection is closed or its queue is full, the messages are dropped: on a lossy
    /// connection, all of them.
    pub fn leave(&self, msgs: Box<dyn Unpacked>) -> Result<(), Dropped> {
        if !self.is_lossless() {
            let refused = |refusal| {
                if refusal == Refusal::Full && self.serves_lossy_peer() {
                    self.give_up();
                }
                Dropped
            };
            return self.queue.push_for_task(msgs).map_err(refused);
        }
        // They are stored until they are acknowledged, and the connection may be in standby.
        let mut sent = Ok(());
        msgs.pack(&mut |msg, _| sent = sent.and(self.send(msg).map_err(|_| Dropped)));
        sent
    }

    /// Waits until the out-queue has room again after [`SendError::Full`]. The room is not reserved: the
    /// next `send` may find the queue full again.
    ///
    /// # Errors
    /// [`SendError::Closed`] if the connection is closed.
    pub async fn ready(&self) -> Result<(), SendError> {
        loop {
            let place = self.queue.place.notified();
            tokio::pin!(place);
            // Enlisted before the check, so that room made between the two is not missed.
            place.as_mut().enable();
            match self.queue.check_place() {
                Ok(true) => return Ok(()),
                Ok(false) => place.await,
                Err(_) => return Err(SendError::Closed),
            }
        }
    }

    /// Gathers the messages that any thread sends while the guard lives into few writes. Hold it only
    /// for the duration of a loop of sends: other senders' messages are delayed too.
    pub fn cork(&self) -> Cork<'_> {
        let corked = self.queue.cork(0, Control::default());
        let is_in = corked.is_some();
        self.act(corked.unwrap_or(Action::Nothing));
        Cork { conn: self, is_in, _not_send: PhantomData }
    }

    /// Closes the connection at once. Unsent messages are dropped, the socket is closed, and
    /// [`Dispatcher::reset`](crate::Dispatcher::reset) is not called.
    pub fn mark_down(&self) {
        self.close();
    }

    /// Like [`Connection::mark_down`], because of a message that cannot be decoded; the reason is
    /// logged.
    pub fn refuse(&self, kind: u16, source: DecodeError) {
        self.session().shut_down.get_or_insert(Error::Malformed { kind, source });
        self.close();
    }

    /// Closes the socket of a peer that does not read what is sent to it; the reason is logged.
    /// [`Dispatcher::reset`](crate::Dispatcher::reset) will be called.
    pub fn give_up(&self) {
        self.shut_down(Error::Unread);
    }

    /// Bytes sent that the kernel has accepted: while the number grows, the peer reads.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Counts `bytes` bytes of received messages against the policy's throttle until the guard is
    /// dropped. If the policy has no throttle, the guard has no effect.
    pub fn hold(&self, bytes: usize) -> Hold {
        self.policy.throttle.as_ref().map(|throttle| throttle.hold(bytes)).unwrap_or_default()
    }

    /// An id that is unique among the connections of this process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The current state.
    pub fn state(&self) -> State {
        self.queue.state()
    }

    /// Messages that wait or, if lossless, are not acknowledged.
    pub fn backlog(&self) -> usize {
        self.queue.len()
    }

    /// The connection's policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The peer.
    pub fn peer(&self) -> PeerInfo {
        self.session.lock().peer
    }

    /// The authenticated identity of the peer and its capabilities; only on accepted connections.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.get()
    }

    /// Data that the layer above attaches to the connection; set once, freed with it.
    pub fn user_data(&self) -> &OnceLock<Arc<dyn Any + Send + Sync>> {
        &self.user_data
    }

    fn push(&self, item: Item) -> Result<(), SendError> {
        let refused = match self.queue.push(item) {
            Ok(action) => {
                self.act(action);
                return Ok(());
            }
            Err(refused) => *refused,
        };
        match refused {
            (Refusal::Full, _) if self.serves_lossy_peer() => {
                self.give_up();
                Err(SendError::Closed)
            }
            (Refusal::Full, item) => {
                let msg = item.into_msg().expect("nobody has the ticket of a message that was not queued");
                Err(SendError::Full(Box::new(msg)))
            }
            (Refusal::Closed, _) => Err(SendError::Closed),
        }
    }
}

/// Methods for the connection's tasks.
impl Connection {
    pub(crate) fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock()
    }

    pub(crate) fn set_identity(&self, identity: Identity) {
        // A session that continues keeps the identity that opened it; a peer of another name was refused
        // before.
        let _ = self.identity.set(identity);
    }

    pub(crate) fn is_lossless(&self) -> bool {
        !self.policy.lossy
    }

    /// Whether the peer has opened the connection, and reopens it when it is lost.
    pub(crate) fn serves_lossy_peer(&self) -> bool {
        self.policy.server && self.policy.lossy
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.queue.state() == State::Closed
    }

    /// Installs a new socket: the connection becomes open. `watched`: keepalives are sent on it. Returns
    /// the baton, and messages wait until the caller runs it; `None` if the connection is closed.
    pub(crate) fn open(
        &self,
        peer: PeerInfo,
        writer: Writer,
        peer_in_seq: Option<u64>,
        watched: bool,
    ) -> Option<Box<Baton<Writer>>> {
        let mut session = self.session();
        let socket = Arc::clone(&writer.socket);
        let baton = self.queue.open(writer, peer_in_seq)?;
        session.state = State::Open;
        session.peer = PeerInfo { addr: session.peer.addr, ..peer };
        session.socket = Some(socket);
        session.shut_down = None;
        let now = Instant::now();
        session.keepalive = Keepalive { watched, asked_at: now, heard_at: now, reads: 0 };
        Some(baton)
    }

    /// Removes the socket, if there is one. Messages that were sent and not acknowledged wait again. The
    /// state becomes `if_empty` if no message waits, else `if_not`, and is returned. A closed connection
    /// stays closed.
    pub(crate) fn detach(&self, if_empty: State, if_not: State) -> State {
        let mut session = self.session();
        let (state, baton) = self.queue.detach(if_empty, if_not);
        session.state = state;
        let socket = session.socket.take();
        drop(session);
        drop((baton, socket));
        state
    }

    /// Resets the session because either side has forgotten it: drops the waiting messages and restarts
    /// the numbers.
    pub(crate) fn forget_session(&self) {
        let mut session = self.session();
        let global = session.numbers.peer_global_seq;
        session.numbers = Numbers { peer_global_seq: global, ..Numbers::default() };
        let garbage = self.queue.clear();
        self.in_seq.store(0, Ordering::Relaxed);
        drop(session);
        drop(garbage);
    }

    /// Closes the connection. Returns `false` if it was closed already.
    pub(crate) fn close(&self) -> bool {
        let mut session = self.session();
        let Some(garbage) = self.queue.close() else { return false };
        session.state = State::Closed;
        let socket = session.socket.take();
        let (incoming, place) = (session.incoming.take(), session.place.take());
        drop(session);
        if let Some(socket) = &socket {
            socket.shut_down();
        }
        drop((garbage, incoming, socket, place));
        self.driver_wake.notify_one();
        self.queue.writer_wake.notify_one();
        true
    }

    /// Shuts a socket down and, if the connection still uses it, records the reason for its reader.
    pub(crate) fn shut_down_socket(&self, socket: &Arc<Socket>, why: Error) {
        let mut session = self.session();
        if session.socket.as_ref().is_some_and(|current| Arc::ptr_eq(current, socket)) {
            session.shut_down.get_or_insert(why);
        }
        drop(session);
        socket.shut_down();
        // Wakes a reader that is not reading at the moment.
        self.driver_wake.notify_one();
    }

    /// Requests a keepalive to be sent.
    pub(crate) fn ask_alive(&self) {
        self.act(self.queue.request(Control { keepalive: true, ..Control::default() }));
    }

    /// Shuts the connection's socket down.
    pub(crate) fn shut_down(&self, why: Error) {
        let socket = self.session().socket.clone();
        if let Some(socket) = socket {
            self.shut_down_socket(&socket, why);
        }
    }

    /// Closes the connection and declares that no more messages will be dispatched.
    pub(crate) fn end(&self) {
        self.close();
        self.ended.close();
    }

    /// Waits until no more messages will be dispatched.
    pub(crate) async fn ended(&self) {
        // The error, which says that the semaphore was closed, is the expected result.
        let _ = self.ended.acquire().await;
    }

    /// Waits until the driver must stop its current activity: the connection is closed, or the peer has
    /// opened another socket.
    pub(crate) async fn interrupted(&self) {
        loop {
            {
                let session = self.session();
                if session.state == State::Closed || session.incoming.is_some() {
                    return;
                }
            }
            self.driver_wake.notified().await;
        }
    }

    /// Waits until the reader must leave its socket: like [`Connection::interrupted`], or the socket was
    /// shut down.
    pub(crate) async fn socket_ended(&self) {
        loop {
            {
                let session = self.session();
                let is_over = session.state == State::Closed || session.incoming.is_some();
                if is_over || session.shut_down.is_some() {
                    return;
                }
            }
            self.driver_wake.notified().await;
        }
    }

    /// Waits, in standby, until there is something to do: a message to send (not on servers, which wait
    /// for the peer), or an event of [`Connection::interrupted`].
    pub(crate) async fn roused(&self) {
        loop {
            {
                let session = self.session();
                let wanted = !self.policy.server && self.queue.has_waiting();
                if wanted || session.state == State::Closed || session.incoming.is_some() {
                    return;
                }
            }
            self.driver_wake.notified().await;
        }
    }

    /// Corrects the estimate of messages in flight; called periodically.
    pub(crate) fn settle(&self) {
        self.queue.settle();
    }

    /// Whether reading is suspended because of the messages that wait for the peer.
    #[cfg(test)]
    pub(crate) fn is_long(&self) -> bool {
        self.queue.is_long()
    }

    /// The number of socket reads.
    #[cfg(test)]
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Sends a keepalive if one is due, and closes the socket if the peer has been silent for too long.
    /// Applies to sockets that this side opened: stock clients do the same, and stock servers rely on it.
    /// Between daemons it applies to both ends: the one that opened the socket may rest when it finds the
    /// other silent, and what the other has sent may be lost.
    pub(crate) fn check_alive(&self, now: Instant, limits: &Limits) {
        let reads = self.reads.load(Ordering::Relaxed);
        let mut session = self.session();
        let wanted = session.keepalive.watched && !limits.keepalive_interval.is_zero();
        if session.state != State::Open || !wanted {
            return;
        }
        let keepalive = &mut session.keepalive;
        if keepalive.reads != reads {
            keepalive.reads = reads;
            keepalive.heard_at = now;
        }
        let silent = now - keepalive.heard_at;
        let ask = now - keepalive.asked_at >= limits.keepalive_interval;
        if ask {
            keepalive.asked_at = now;
        }
        drop(session);
        if silent >= limits.keepalive_timeout {
            self.shut_down(Error::KeepaliveTimeout(silent));
        } else if ask {
            self.ask_alive();
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let session = self.session();
        let (peer, state) = (session.peer, session.state);
        drop(session);
        write!(f, "connection {} to {}.{} at {} ({state:?})", self.id, peer.kind, peer.num, peer.addr)
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket")
    }
}

/// Gathers sends; see [`Connection::cork`].
#[must_use = "sends are gathered only while the guard lives"]
pub struct Cork<'a> {
    conn: &'a Connection,
    /// `false` if the connection was closed.
    is_in: bool,
    /// Must not be kept across an `.await`.
    _not_send: PhantomData<*const ()>,
}

impl Drop for Cork<'_> {
    fn drop(&mut self) {
        if self.is_in {
            self.conn.act(self.conn.queue.uncork());
        }
    }
}

impl fmt::Debug for Cork<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cork of {:?}", self.conn)
    }
}
