//! One session with one peer.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use loligo_cephx::handshake::Identity;
use loligo_wire::message::Msg;
use loligo_wire::{EntityAddr, EntityType};
use tokio::sync::Notify;

use crate::{Hold, Policy, SendError};

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// What kind of program.
    pub kind: EntityType,
    /// Its number among its kind (an OSD's id, a monitor's rank, a client's global id); −1 before it is known.
    pub num: i64,
    /// Its address.
    pub addr: EntityAddr,
    /// Feature bits that both sides have; 0 before they are known.
    pub features: u64,
}

/// A message that was sent so that it can be taken back: see [`Connection::revoke`].
#[derive(Debug)]
pub struct Ticket {
    number: u64,
}

/// One session with one peer; outlives its sockets if the policy is lossless.
pub struct Connection {
    id: u64,
    policy: Policy,
    peer: Mutex<PeerInfo>,
    identity: OnceLock<Identity>,
    user_data: OnceLock<Arc<dyn Any + Send + Sync>>,
    queue: Mutex<Queue>,
    place: Notify,
}

struct Queue {
    state: State,
    waiting: VecDeque<(u64, Msg)>,
    bytes: usize,
    messages_max: usize,
    bytes_max: usize,
}

static TICKETS: AtomicU64 = AtomicU64::new(1);

impl Connection {
    pub(crate) fn new(id: u64, peer: PeerInfo, policy: Policy, limits: &crate::Limits) -> Arc<Self> {
        let queue = Queue {
            state: State::Connecting,
            waiting: VecDeque::new(),
            bytes: 0,
            messages_max: limits.queue_messages_max,
            bytes_max: limits.queue_bytes_max,
        };
        Arc::new(Self {
            id,
            policy,
            peer: Mutex::new(peer),
            identity: OnceLock::new(),
            user_data: OnceLock::new(),
            queue: Mutex::new(queue),
            place: Notify::new(),
        })
    }

    /// Sends a message: appends it to the out-queue and, if nobody is writing, flushes the queue without blocking. Any
    /// thread may call it, also inside [`Dispatcher::dispatch`](crate::Dispatcher::dispatch).
    ///
    /// A message sent on a closed connection is dropped ([`SendError::Closed`]); one sent on a connection in standby wakes
    /// it. Messages arrive in the order in which they were queued.
    pub fn send(&self, msg: Msg) -> Result<(), SendError> {
        self.push(msg).map(|_| ())
    }

    /// As [`Connection::send`], for a message that may have to be taken back while it waits.
    pub fn send_revocable(&self, msg: Msg) -> Result<Ticket, SendError> {
        self.push(msg).map(|number| Ticket { number })
    }

    /// Takes a message back; `false` if it has already left the queue. Its memory is freed before this returns.
    pub fn revoke(&self, ticket: Ticket) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(at) = queue.waiting.binary_search_by_key(&ticket.number, |(number, _)| *number) else {
            return false;
        };
        let revoked = queue.waiting.remove(at);
        drop(queue);
        revoked.is_some()
    }

    /// Waits until the out-queue has place again after [`SendError::Full`]. Place is not reserved: the next `send` may find
    /// it full once more.
    ///
    /// # Errors
    /// [`SendError::Closed`] if the connection is closed.
    pub async fn ready(&self) -> Result<(), SendError> {
        loop {
            let place = self.place.notified();
            tokio::pin!(place);
            // Enlisted before the look, so that place made between the two is not missed.
            place.as_mut().enable();
            {
                let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
                if queue.state == State::Closed {
                    return Err(SendError::Closed);
                }
                if queue.waiting.len() < queue.messages_max && queue.bytes < queue.bytes_max {
                    return Ok(());
                }
            }
            place.await;
        }
    }

    /// Gathers what is sent while the guard lives, by anyone, into one write. Keep it for as long as a loop of sends takes,
    /// not longer: other senders' messages wait for it too.
    pub fn cork(&self) -> Cork<'_> {
        Cork { conn: self }
    }

    /// Closes the connection at once. What was not sent is dropped, the socket is closed, and
    /// [`Dispatcher::reset`](crate::Dispatcher::reset) is not called.
    pub fn mark_down(&self) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.state = State::Closed;
        let dropped = std::mem::take(&mut queue.waiting);
        queue.bytes = 0;
        drop(queue);
        drop(dropped);
        self.place.notify_waiters();
    }

    /// Counts `bytes` bytes of received messages against the policy's throttle until the guard is dropped; a guard that
    /// does nothing if the policy has none.
    pub fn hold(&self, bytes: usize) -> Hold {
        self.policy.throttle.as_ref().map(|throttle| throttle.hold(bytes)).unwrap_or_default()
    }

    /// A number that no other connection of this process has.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Where it stands now.
    pub fn state(&self) -> State {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).state
    }

    /// How it behaves.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Who is at the other end.
    pub fn peer(&self) -> PeerInfo {
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who the peer has proved to be, and what it may do; only on accepted connections.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.get()
    }

    /// What the layer above keeps with the connection; set once, freed with it.
    pub fn user_data(&self) -> &OnceLock<Arc<dyn Any + Send + Sync>> {
        &self.user_data
    }

    fn push(&self, msg: Msg) -> Result<u64, SendError> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.state == State::Closed {
            return Err(SendError::Closed);
        }
        if queue.waiting.len() >= queue.messages_max || queue.bytes >= queue.bytes_max {
            return Err(SendError::Full(Box::new(msg)));
        }
        let number = TICKETS.fetch_add(1, Ordering::Relaxed);
        queue.bytes += msg.len();
        queue.waiting.push_back((number, msg));
        Ok(number)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = self.peer();
        write!(
            f,
            "connection {} to {}.{} at {} ({:?})",
            self.id,
            peer.kind,
            peer.num,
            peer.addr,
            self.state()
        )
    }
}

/// Gathers sends: see [`Connection::cork`].
#[must_use = "sends are gathered only while the guard lives"]
pub struct Cork<'a> {
    conn: &'a Connection,
}

impl fmt::Debug for Cork<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cork of {:?}", self.conn)
    }
}
