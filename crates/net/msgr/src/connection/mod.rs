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
/// The number of the next connection: no other one of the process has it.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// There is no socket, or its handshake is under way; what is sent waits.
    Connecting,
    /// Messages flow.
    Open,
    /// There is no socket and nothing to send; a send, or the peer, wakes the connection.
    Standby,
    /// For ever.
    Closed,
}

impl State {
    /// From what `as u8` makes of it.
    fn from_bits(bits: u8) -> Self {
        const STATES: [State; 4] = [State::Connecting, State::Open, State::Standby, State::Closed];
        const { assert!(State::Closed as usize == STATES.len() - 1, "in the order of their numbers") };
        STATES[usize::from(bits)]
    }
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// What kind of program.
    pub kind: EntityType,
    /// Its number among its kind (an OSD's id, a monitor's rank, a client's global id); −1 before it is
    /// known.
    pub num: i64,
    /// The address by which it is known: what it says.
    pub addr: EntityAddr,
    /// Where its socket comes from; none before it has one. Unlike `addr`, the peer cannot choose it.
    pub from: Option<SocketAddr>,
    /// Feature bits that both sides have; 0 before they are known.
    pub features: u64,
}

/// A message that was sent so that it can be taken back: see [`Connection::revoke`].
pub struct Ticket(Arc<Slot>);

/// One session with one peer; outlives its sockets if the policy is lossless.
///
/// The messenger's tasks keep it until it is closed: dropping all handles does not close it,
/// [`Connection::mark_down`] does.
pub struct Connection {
    id: u64,
    policy: Policy,
    queue: OutQueue<Writer>,
    session: Mutex<Session>,
    /// The newest message received, if lossless. Written by the reader only.
    pub(crate) in_seq: AtomicU64,
    /// Counts reads of the socket: signs of life.
    reads: AtomicU64,
    /// Bytes that the kernel has taken, in all. Written by whoever writes the socket.
    written: AtomicU64,
    pub(crate) driver_wake: Notify,
    /// Has no permits, and is closed when nothing more will be dispatched.
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

    /// Sends a message: appends it to the out-queue and, if nobody is writing, flushes the queue without
    /// blocking. Any thread may call it, also inside [`Dispatcher::dispatch`](crate::Dispatcher::dispatch).
    ///
    /// A message sent on a closed connection is dropped ([`SendError::Closed`]); one sent on a connection in
    /// standby wakes it. Messages arrive in the order in which they were queued. `header.seq` must be 0.
    ///
    /// A lossy connection that the peer has opened ends when its queue is full: the peer asks again on
    /// another one, where on this one it would miss an answer without knowing.
    pub fn send(&self, msg: Msg) -> Result<(), SendError> {
        self.push(Item::Plain(msg))
    }

    /// As [`Connection::send`]; the watcher hears when the message leaves. Lossless connections, which may
    /// send a message several times, tell nothing.
    pub fn send_watched(&self, msg: Msg, watcher: Arc<dyn Watcher>) -> Result<(), SendError> {
        self.push(Item::Watched(Box::new((msg, watcher))))
    }

    /// As [`Connection::send`], for a message that may have to be taken back while it waits.
    pub fn send_revocable(&self, msg: Msg) -> Result<Ticket, SendError> {
        let slot = Slot::new(msg);
        self.push(Item::Revocable(Arc::clone(&slot)))?;
        Ok(Ticket(slot))
    }

    /// Takes a message back; `false` if it has already left the queue. Its memory is freed before this
    /// returns.
    pub fn revoke(&self, ticket: Ticket) -> bool {
        ticket.0.take().is_some()
    }

    /// Queues messages and leaves packing and writing them to the connection's writer task: for many at once,
    /// from a thread that others wait for. On a lossless connection they are packed and sent at once.
    ///
    /// # Errors
    /// If the connection is closed or its queue full, they are dropped: all of them, on a lossy connection.
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
        // They are kept until they are acknowledged, and the connection may stand by.
        let mut sent = Ok(());
        msgs.pack(&mut |msg, _| sent = sent.and(self.send(msg).map_err(|_| Dropped)));
        sent
    }

    /// Waits until the out-queue has place again after [`SendError::Full`]. Place is not reserved: the next
    /// `send` may find it full once more.
    ///
    /// # Errors
    /// [`SendError::Closed`] if the connection is closed.
    pub async fn ready(&self) -> Result<(), SendError> {
        loop {
            let place = self.queue.place.notified();
            tokio::pin!(place);
            // Enlisted before the look, so that place made between the two is not missed.
            place.as_mut().enable();
            match self.queue.check_place() {
                Ok(true) => return Ok(()),
                Ok(false) => place.await,
                Err(_) => return Err(SendError::Closed),
            }
        }
    }

    /// Gathers what is sent while the guard lives, by anyone, into few writes. Keep it for as long as a loop
    /// of sends takes, not longer: other senders' messages wait for it too.
    pub fn cork(&self) -> Cork<'_> {
        let corked = self.queue.cork(0, Control::default());
        let is_in = corked.is_some();
        self.perform(corked.unwrap_or(Action::Nothing));
        Cork { conn: self, is_in, _not_send: PhantomData }
    }

    /// Closes the connection at once. What was not sent is dropped, the socket is closed, and
    /// [`Dispatcher::reset`](crate::Dispatcher::reset) is not called.
    pub fn mark_down(&self) {
        self.close();
    }

    /// As [`Connection::mark_down`], because of a message that cannot be read; says so in the log.
    pub fn refuse(&self, kind: u16, source: DecodeError) {
        self.session().shut_down.get_or_insert(Error::Malformed { kind, source });
        self.close();
    }

    /// Ends the socket of a peer that does not read what is sent to it; says so in the log.
    /// [`Dispatcher::reset`](crate::Dispatcher::reset) will be called.
    pub fn give_up(&self) {
        self.shut_down(Error::Unread);
    }

    /// Bytes that the kernel has taken of what was sent: as long as they grow, the peer reads.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Counts `bytes` bytes of received messages against the policy's throttle until the guard is dropped; a
    /// guard that does nothing if the policy has none.
    pub fn hold(&self, bytes: usize) -> Hold {
        self.policy.throttle.as_ref().map(|throttle| throttle.hold(bytes)).unwrap_or_default()
    }

    /// A number that no other connection of this process has.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Where it stands now.
    pub fn state(&self) -> State {
        self.queue.state()
    }

    /// Messages that wait or, lossless, are not acknowledged.
    pub fn backlog(&self) -> usize {
        self.queue.len()
    }

    /// How it behaves.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Who is at the other end.
    pub fn peer(&self) -> PeerInfo {
        self.session.lock().peer
    }

    /// Who the peer has proved to be, and what it may do; only on accepted connections.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.get()
    }

    /// What the layer above keeps with the connection; set once, freed with it.
    pub fn user_data(&self) -> &OnceLock<Arc<dyn Any + Send + Sync>> {
        &self.user_data
    }

    fn push(&self, item: Item) -> Result<(), SendError> {
        let refused = match self.queue.push(item) {
            Ok(action) => {
                self.perform(action);
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

/// What the connection's tasks do with it.
impl Connection {
    pub(crate) fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock()
    }

    pub(crate) fn set_identity(&self, identity: Identity) {
        // A session that goes on keeps the identity it was opened with; a peer of another name is refused
        // before.
        let _ = self.identity.set(identity);
    }

    pub(crate) fn is_lossless(&self) -> bool {
        !self.policy.lossy
    }

    /// Whether the peer has opened the connection, and opens another when it loses this one.
    pub(crate) fn serves_lossy_peer(&self) -> bool {
        self.policy.server && self.policy.lossy
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.queue.state() == State::Closed
    }

    /// A socket is up: the connection is open. We look after it (`watched`) if we opened it. Returns the
    /// baton, which holds back what is sent until it is run; `None` if the connection is closed.
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

    /// The connection has no socket (any more). What was sent and not acknowledged waits again. The state
    /// becomes `if_empty` if nothing waits, else `if_not`, and is returned. A closed connection stays closed.
    pub(crate) fn detach(&self, if_empty: State, if_not: State) -> State {
        let mut session = self.session();
        let (state, baton) = self.queue.detach(if_empty, if_not);
        session.state = state;
        let socket = session.socket.take();
        drop(session);
        drop((baton, socket));
        state
    }

    /// The peer has forgotten the session, or we have: what waits is dropped, and numbers start again.
    pub(crate) fn forget_session(&self) {
        let mut session = self.session();
        let global = session.numbers.peer_global_seq;
        session.numbers = Numbers { peer_global_seq: global, ..Numbers::default() };
        let garbage = self.queue.clear();
        self.in_seq.store(0, Ordering::Relaxed);
        drop(session);
        drop(garbage);
    }

    /// Closes the connection; `false` if it was closed already.
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

    /// Ends a socket, if the connection still uses it; its reader will find out and learn the reason.
    pub(crate) fn shut_down_socket(&self, socket: &Arc<Socket>, why: Error) {
        let mut session = self.session();
        if session.socket.as_ref().is_some_and(|current| Arc::ptr_eq(current, socket)) {
            session.shut_down.get_or_insert(why);
        }
        drop(session);
        socket.shut_down();
        // A reader that does not read at the moment.
        self.driver_wake.notify_one();
    }

    /// Asks the peer for a sign of life.
    pub(crate) fn ask_alive(&self) {
        self.perform(self.queue.request(Control { keepalive: true, ..Control::default() }));
    }

    /// Ends the connection's socket.
    pub(crate) fn shut_down(&self, why: Error) {
        let socket = self.session().socket.clone();
        if let Some(socket) = socket {
            self.shut_down_socket(&socket, why);
        }
    }

    /// Nothing more will be dispatched.
    pub(crate) fn end(&self) {
        self.close();
        self.ended.close();
    }

    /// Waits until nothing more will be dispatched.
    pub(crate) async fn ended(&self) {
        // An error is what is waited for.
        let _ = self.ended.acquire().await;
    }

    /// Waits until the driver must leave what it is at: the connection is closed, or the peer has opened
    /// another socket.
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

    /// Waits until the reader must leave its socket: as [`Connection::interrupted`], or the socket was ended.
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

    /// Waits, in standby, until there is something to do: something to send (not for servers: they wait for
    /// the peer), or as [`Connection::interrupted`].
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

    /// Corrects the guess about what is on its way, now and then.
    pub(crate) fn settle(&self) {
        self.queue.settle();
    }

    /// Whether no more is read because of what waits for the peer.
    #[cfg(test)]
    pub(crate) fn is_long(&self) -> bool {
        self.queue.is_long()
    }

    /// How often the socket was read.
    #[cfg(test)]
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Sends a keepalive if it is time for one, and ends the socket if the peer has been silent for too long.
    /// Only on sockets that we opened: so do stock clients, and stock servers leave it to them.
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

/// Gathers sends: see [`Connection::cork`].
#[must_use = "sends are gathered only while the guard lives"]
pub struct Cork<'a> {
    conn: &'a Connection,
    /// Not if the connection was closed.
    is_in: bool,
    /// Must not be kept across an `.await`.
    _not_send: PhantomData<*const ()>,
}

impl Drop for Cork<'_> {
    fn drop(&mut self) {
        if self.is_in {
            self.conn.perform(self.conn.queue.uncork());
        }
    }
}

impl fmt::Debug for Cork<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cork of {:?}", self.conn)
    }
}
